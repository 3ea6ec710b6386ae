"""Our own routes: one note with every style, and many notes as a stream of JSON lines."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ensemble_deid.corpora.checks import check_id
from ensemble_deid.corpora.json_fields import refuse_unknown_keys
from ensemble_deid.corpora.jsonl import FIELDS
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement.styles import FIXED, STYLES, policies
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.parsing import strict_json
from ensemble_deid.service.guard import BATCH, Patience
from ensemble_deid.service.notes import KEYED_STYLES, NoteService
from ensemble_deid.service.refusal import Refused, Word, problem
from ensemble_deid.service.settings import ServiceSettings
from ensemble_deid.service.tokens import REPLACE, require

# Lines out of a body that arrives in pieces, and lines as an answer.


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that was not kept."""

    longest: int


class LineResponse(Response):
    """An answer that is written while the request is still being read.

    Starlette's streaming response reads the request itself, to notice a client that leaves, and so loses parts of it.
    """

    media_type = "application/x-ndjson"

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._lines = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for line in self._lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def lines(
    pieces: AsyncGenerator[bytes, None], *, longest: int, time_limit: float
) -> AsyncIterator[tuple[int, bytes | TooLong]]:
    """Yield number and content of each line that is not blank; a longer one is passed over, and `TooLong` yielded.

    No more than `longest` bytes and one piece are kept. Raises Refused when the client keeps us waiting for more than
    `time_limit` seconds in all, and what its bytes take at a slow line's speed.
    """
    kept = bytearray()
    number, too_long = 1, False
    async for piece in _timely(pieces, time_limit):
        *ended, rest = piece.split(b"\n")
        for part in ended:
            too_long = too_long or len(kept) + len(part) > longest
            if too_long:
                yield number, TooLong(longest)
            elif (line := bytes(kept + part)).strip():
                yield number, line
            kept.clear()
            number, too_long = number + 1, False
        too_long = too_long or len(kept) + len(rest) > longest
        kept += b"" if too_long else rest
    if too_long:
        yield number, TooLong(longest)
    elif kept.strip():
        yield number, bytes(kept)


async def _timely(pieces: AsyncGenerator[bytes, None], time_limit: float) -> AsyncIterator[bytes]:
    iterator, patience = pieces.__aiter__(), Patience(time_limit)
    while True:
        try:
            async with patience.wait():
                piece = await anext(iterator)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, "the lines came too slowly: the rest is not processed") from None
        patience.moved(len(piece))
        yield piece


class OptionFields(BaseModel):
    """What one note and a batch have in common; a key that is not known is refused, since it may be a typing error."""

    model_config = ConfigDict(extra="forbid")

    style: Word | None = None
    policy: Word | None = None
    scope: Word = ""
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None


class NoteRequest(OptionFields):
    """One note and how it is de-identified; `styles` has the styles of single labels."""

    text: str
    id: str | None = None
    patient_id: Word | None = None
    styles: dict[Word, Word] = Field(default_factory=dict)


class BatchQuery(OptionFields):
    """How the notes of a batch are de-identified; `set` has the styles of single labels, `LABEL=STYLE` each."""

    set: list[Annotated[str, Field(pattern="^[^=]+=")]] = Field(default_factory=list)


class BatchLine(BaseModel):
    """One line of a batch; what else a line of a corpus has is ignored and does not come back."""

    text: str
    id: str | None = None
    patient_id: Word | None = None


def own_routes(notes: NoteService, settings: ServiceSettings) -> APIRouter:
    routes = APIRouter()

    @routes.post("/v1/deidentify")
    async def deidentify(request: NoteRequest) -> JSONResponse:
        options = _options(notes, request, request.styles)
        note = await _deidentified(notes, request.text, request.patient_id, options)
        return JSONResponse({**_identity(request.id), **note})

    @routes.post(BATCH)
    async def batch(request: Request, fields: Annotated[BatchQuery, Query()]) -> LineResponse:
        styles = {label: style for label, _, style in (setting.partition("=") for setting in fields.set)}
        return LineResponse(_answers(notes, request, _options(notes, fields, styles), settings))

    return routes


def _options(notes: NoteService, fields: OptionFields, styles: Mapping[str, str]) -> RunOptions:
    """Return the options of a request. Raises Refused, without quoting them, where they name what does not exist."""
    # A policy may be a file, but none that a client names.
    if fields.policy is not None and fields.policy not in policies():
        raise Refused(422, f"policy: unknown; known are {', '.join(policies())}")
    lists = notes.granted.lists
    for style in filter(None, (fields.style, *styles.values())):
        # The operator, not a client, chooses what is installed.
        if style not in STYLES and not style.startswith(FIXED):
            raise Refused(422, f"style or styles: unknown; {_known_styles(notes)}")
    try:
        options = RunOptions.choose(
            # A new name may be for a label of lists that this request may not have applied.
            {*notes.labels, *notes.defaults.lists.labels},
            style=fields.style,
            styles=styles,
            policy=fields.policy,
            settings=None if fields.min_score is None else {"min_score": fields.min_score},
            key=notes.defaults.replacer.key,
            scope=fields.scope,
            lists=lists,
            recognizers=notes.defaults.recognizers,
            rename=notes.defaults.replacer.styles.names or None,
            accept_unfit=notes.defaults.accept_unfit,
            least_recall=notes.defaults.least_recall,
            threshold=fields.threshold,
        )
    except ConfigError:
        raise Refused(422, f"style or styles: unknown; {_known_styles(notes)}") from None
    if not KEYED_STYLES.isdisjoint(options.replacer.styles.used):
        require(REPLACE, "style, styles or policy: surrogates and hashes depend on the service's key")
    return options


def _known_styles(notes: NoteService) -> str:
    known = f"styles are {', '.join(STYLES)} and text:WORDS, some for single labels only, and not all with --rename"
    return f"{known}; labels are {', '.join(notes.labels)}"


async def _deidentified(notes: NoteService, text: str, patient: str | None, options: RunOptions) -> dict[str, Any]:
    """Return the new text, and the spans with their offsets in both texts. Raises Refused."""
    result = await notes.deidentify(text, patient=patient, options=options)
    made = result.to_dict()
    known = {} if options.lists.known is None else {"known_left": made["known_left"]}
    remark = {} if result.remark is None else {"remark": result.remark}
    return {"text": made["text"], "spans": made["spans"], **known, **remark}


async def _answers(
    notes: NoteService, request: Request, options: RunOptions, settings: ServiceSettings
) -> AsyncIterator[bytes]:
    """Yield a line for each line that is not blank, as soon as it is processed."""
    source = lines(request.stream(), longest=settings.max_body, time_limit=settings.arrival_limit)
    try:
        async for number, line in source:
            if notes.processor.stopping:
                yield _line({"line": number, "error": "the service is stopping: this line and all after it are left"})
                return
            yield _line({"line": number, **await _answer(notes, line, options)})
    except Refused as refusal:
        yield _line({"error": refusal.message})


async def _answer(notes: NoteService, line: bytes | TooLong, options: RunOptions) -> dict[str, Any]:
    if isinstance(line, TooLong):
        return {"error": f"the line is longer than {line.longest} bytes"}
    try:
        entry = strict_json(line)
        if isinstance(entry, dict):
            refuse_unknown_keys(entry, FIELDS, "the line")
        note = BatchLine.model_validate(entry)
    except CorpusError as error:
        return {"error": str(error)}
    except ValidationError as error:
        return {"error": problem(error.errors(include_url=False, include_context=False, include_input=False))}
    except json.JSONDecodeError:
        return {"error": "the line is not valid JSON"}
    except ValueError as error:
        return {"error": f"the line: {error}"}
    identity: dict[str, str] = {}
    try:
        identity = _identity(note.id)
        return {**identity, **await _deidentified(notes, note.text, note.patient_id, options)}
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
