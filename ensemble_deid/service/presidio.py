"""The routes of Presidio's REST API: the analyzer's and the anonymizer's, with their requests and answers."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from ensemble_deid.deidentify.presidio_labels import predicted_by, to_presidio
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.notes import Notes
from ensemble_deid.service.operators import OPERATORS, Entity, Operator, anonymize
from ensemble_deid.service.refusal import Refused

RECOGNIZER = "ensemble_deid"


class AnalyzeRequest(BaseModel):
    """The analyzer's request. What only raises scores (`context`) or is only logged (`correlation_id`) is ignored."""

    model_config = ConfigDict(extra="forbid")

    text: str | list[str]
    language: str | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    entities: list[str] | None = None
    return_decision_process: bool | None = None
    ad_hoc_recognizers: list[Any] | None = None
    allow_list: list[str] | None = None
    allow_list_match: Literal["exact", "regex"] | None = "exact"
    context: Any = None
    correlation_id: Any = None
    regex_flags: Any = None


class AnalyzerResult(BaseModel):
    """One entity of the analyzer's answer, as the anonymizer receives it back."""

    start: int
    end: int
    # It stands in the answer, in angle brackets.
    entity_type: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,99}$")]
    score: Annotated[float, Field(ge=0, le=1)] = 1.0


class AnonymizeRequest(BaseModel):
    """The anonymizer's request."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(min_length=1)]
    analyzer_results: list[AnalyzerResult]
    anonymizers: dict[str, Operator] | None = None


def presidio_routes(notes: Notes, *, presidio_names: bool) -> APIRouter:
    """Return the routes; without `presidio_names`, entity types are the model's labels."""
    routes = APIRouter()

    def name(label: str) -> str:
        return to_presidio(label) if presidio_names else label

    @routes.post("/analyze")
    async def analyze(request: AnalyzeRequest) -> JSONResponse:
        if request.ad_hoc_recognizers:
            raise Refused(422, "ad_hoc_recognizers are not supported: what they would find would stay in the text")
        if request.allow_list and request.allow_list_match == "regex":
            raise Refused(422, "allow_list_match is supported as exact only")
        texts = request.text if isinstance(request.text, list) else [request.text]
        if not texts or not all(texts):
            raise Refused(422, "No text provided")
        found = [await notes.predict(text) for text in texts]
        results = [[_result(span, name, request) for span in _chosen(note, request, name)] for note in found]
        return JSONResponse(results if isinstance(request.text, list) else results[0])

    @routes.post("/anonymize")
    async def anonymize_(request: AnonymizeRequest) -> JSONResponse:
        entities = [Entity(e.start, e.end, e.entity_type, e.score) for e in request.analyzer_results]
        text, items = await notes.run(lambda: anonymize(request.text, entities, request.anonymizers or {}))
        return JSONResponse({"text": text, "items": [asdict(item) for item in items]})

    @routes.get("/supportedentities")
    async def supported_entities() -> list[str]:
        return sorted({name(label) for label in notes.labels})

    @routes.get("/recognizers")
    async def recognizers() -> list[str]:
        return [RECOGNIZER]

    @routes.get("/anonymizers")
    async def anonymizers() -> list[str]:
        return list(OPERATORS)

    return routes


def _chosen(note: Document, request: AnalyzeRequest, name: Callable[[str], str]) -> list[Span]:
    """Return the spans that the request asks for: by type (either name of it), score, and words that are no PHI."""
    wanted = set(request.entities) if request.entities else None
    allowed = set(request.allow_list or ())
    return [
        span
        for span in note.spans
        if (wanted is None or span.label in wanted or name(span.label) in wanted)
        and span.score >= (request.score_threshold or 0.0)
        and note.text[span.start : span.end] not in allowed
    ]


def _result(span: Span, name: Callable[[str], str], request: AnalyzeRequest) -> dict[str, Any]:
    return {
        "analysis_explanation": _explanation(span) if request.return_decision_process else None,
        "end": span.end,
        "entity_type": name(span.label),
        "score": span.score,
        "start": span.start,
    }


def _explanation(span: Span) -> dict[str, Any]:
    return {
        "recognizer": RECOGNIZER,
        "pattern_name": None,
        "pattern": None,
        "original_score": span.score,
        "score": span.score,
        "textual_explanation": f"label {span.label}, predicted by {predicted_by(span.source)}",
        "score_context_improvement": 0,
        "supportive_context_word": "",
        "validation_result": None,
        "regex_flags": None,
    }
