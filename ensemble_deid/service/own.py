"""Our own routes: one note with every style, and many notes as a stream of JSON lines."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ensemble_deid.corpora.checks import check_id
from ensemble_deid.errors import CorpusError
from ensemble_deid.service.guard import BATCH
from ensemble_deid.service.lines import LineResponse, TooLong, lines
from ensemble_deid.service.notes import Notes, Options
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.settings import Settings
from ensemble_deid.service.validation import problem


class OptionFields(BaseModel):
    """What one note and a batch have in common; a key that is not known is refused, since it may be a typing error."""

    model_config = ConfigDict(extra="forbid")

    style: str | None = None
    policy: str | None = None
    project: str = ""
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class NoteRequest(OptionFields):
    """One note and how it is de-identified; `styles` has the styles of single labels."""

    text: str
    id: str | None = None
    patient_id: str | None = None
    styles: dict[str, str] = Field(default_factory=dict)


class BatchQuery(OptionFields):
    """How the notes of a batch are de-identified; `set` has the styles of single labels, `LABEL=STYLE` each."""

    set: list[Annotated[str, Field(pattern="^[^=]+=")]] = Field(default_factory=list)


class BatchLine(BaseModel):
    """One line of a batch; other keys, as lines of a corpus have them, are ignored and do not come back."""

    text: str
    id: str | None = None
    patient_id: str | None = None


def own_routes(notes: Notes, settings: Settings) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    @routes.post("/v1/deidentify")
    async def deidentify(request: NoteRequest) -> JSONResponse:
        options = notes.check(_options(request, request.styles))
        note = await notes.deidentify(request.text, request.patient_id, options)
        return JSONResponse({**_identity(request.id), **note})

    @routes.post(BATCH)
    async def batch(request: Request, fields: Annotated[BatchQuery, Query()]) -> LineResponse:
        styles = {label: style for label, _, style in (setting.partition("=") for setting in fields.set)}
        return LineResponse(_answers(notes, request, notes.check(_options(fields, styles)), settings))

    return routes


def _options(fields: OptionFields, styles: Mapping[str, str]) -> Options:
    return Options(fields.style, styles, fields.policy, fields.project, fields.threshold)


async def _answers(notes: Notes, request: Request, options: Options, settings: Settings) -> AsyncIterator[bytes]:
    """Yield a line for each line that is not blank, as soon as it is processed."""
    source = lines(request.stream(), longest=settings.max_body, time_limit=settings.time_limit)
    try:
        async for number, line in source:
            if notes.processor.stopping:
                yield _line({"line": number, "error": "the service is stopping: this line and all after it are left"})
                return
            yield _line({"line": number, **await _answer(notes, line, options)})
    except Refused as refusal:
        yield _line({"error": refusal.message})


async def _answer(notes: Notes, line: bytes | TooLong, options: Options) -> dict[str, Any]:
    if isinstance(line, TooLong):
        return {"error": f"the line is longer than {line.longest} bytes"}
    try:
        note = BatchLine.model_validate_json(line)
    except ValidationError as error:
        return {"error": problem(error.errors(include_url=False, include_context=False, include_input=False))}
    try:
        identity = _identity(note.id)
    except Refused as refusal:
        return {"error": refusal.message}
    try:
        return {**identity, **await notes.deidentify(note.text, note.patient_id, options)}
    except Refused as refusal:
        return {**identity, "error": refusal.message}


def _identity(identity: str | None) -> dict[str, str]:
    if identity is None:
        return {}
    try:
        check_id(identity, "id")
    except CorpusError as error:
        raise Refused(422, str(error)) from None
    return {"id": identity}


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
