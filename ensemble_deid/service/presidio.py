"""The routes of Presidio's REST API: the analyzer's, and the anonymizer's with its operators."""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.deidentify.one_pass import predicted_by
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.labels import to_presidio
from ensemble_deid.note.overlaps import split_overlaps
from ensemble_deid.note.rtf import DATA
from ensemble_deid.note.span import Span
from ensemble_deid.service.notes import NoteService
from ensemble_deid.service.refusal import Refused, Word

RECOGNIZER = "ensemble_deid"
OPERATORS = ("hash", "keep", "mask", "redact", "replace")
_DEFAULT = "DEFAULT"


class _Operator(BaseModel):
    """An operator; a parameter that is not known is refused, since it may be a typing error."""

    model_config = ConfigDict(extra="forbid")


class Replace(_Operator):
    """Puts `new_value`, or the entity type in angle brackets, in the place of a span."""

    type: Literal["replace"]
    new_value: Word = ""


class Redact(_Operator):
    """Takes a span out."""

    type: Literal["redact"]


class Keep(_Operator):
    """Leaves a span as it is."""

    type: Literal["keep"]


class Mask(_Operator):
    """Puts a character in the place of the first or last characters of a span; of all, where no number is given."""

    type: Literal["mask"]
    masking_char: Annotated[str, Field(min_length=1, max_length=1)] = "*"
    chars_to_mask: Annotated[int, Field(ge=1)] | None = None
    from_end: bool = False


class Hash(_Operator):
    """Puts the digest of salt and span in its place; without a salt, one is drawn for the request and forgotten."""

    type: Literal["hash"]
    hash_type: Literal["sha256", "sha512"] = "sha256"
    salt: Word | None = None


class Refuse(BaseModel):
    """Operators of Presidio that this service does not offer."""

    type: Literal["encrypt", "custom"]


Operator = Annotated[Replace | Redact | Keep | Mask | Hash | Refuse, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class Item:
    """The replacement at `[start, end)` of the new text."""

    start: int
    end: int
    entity_type: str
    text: str
    operator: str


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

    def span(self, number: int, text: str) -> Span:
        """Return the span. Raises Refused where it is empty or does not lie inside the text; `number` is its place."""
        if not 0 <= self.start < self.end <= len(text):
            raise Refused(
                422,
                f"analyzer_results[{number}]: {self.start}-{self.end} does not lie inside the text of "
                f"{len(text)} characters (0 <= start < end <= length is needed)",
            )
        return Span(self.start, self.end, self.entity_type, self.score)


class AnonymizeRequest(BaseModel):
    """The anonymizer's request."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(min_length=1)]
    analyzer_results: list[AnalyzerResult]
    anonymizers: dict[str, Operator] | None = None


def presidio_routes(notes: NoteService, *, presidio_names: bool) -> APIRouter:
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
        found = [(await notes.deidentify(text)).spans for text in texts]
        results = [
            [_result(span, name, request) for span in _chosen(text, spans, request, name)]
            for text, spans in zip(texts, found, strict=True)
        ]
        return JSONResponse(results if isinstance(request.text, list) else results[0])

    @routes.post("/anonymize")
    async def anonymize_(request: AnonymizeRequest) -> JSONResponse:
        spans = [result.span(number, request.text) for number, result in enumerate(request.analyzer_results)]
        text, items = await notes.processor.run(lambda: anonymize(request.text, spans, request.anonymizers or {}))
        return JSONResponse({"text": text, "items": [asdict(item) for item in items]})

    @routes.get("/supportedentities")
    async def supported_entities() -> list[str]:
        return sorted(set(map(name, notes.granted.names(notes.labels))))

    @routes.get("/recognizers")
    async def recognizers() -> list[str]:
        return [RECOGNIZER]

    @routes.get("/anonymizers")
    async def anonymizers() -> list[str]:
        return list(OPERATORS)

    return routes


def _chosen(text: str, spans: Iterable[Span], request: AnalyzeRequest, name: Callable[[str], str]) -> list[Span]:
    """Return the spans that the request asks for: by type (either name of it), score, and words that are no PHI.

    Data of a document that nobody has read are always among them.
    """
    wanted = set(request.entities) if request.entities else None
    allowed = set(request.allow_list or ())
    return [
        span
        for span in spans
        if span.label == DATA
        or (
            (wanted is None or span.label in wanted or name(span.label) in wanted)
            and span.score >= (request.score_threshold or 0.0)
            and text[span.start : span.end] not in allowed
        )
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


def anonymize(text: str, spans: Iterable[Span], operators: Mapping[str, Operator]) -> tuple[str, list[Item]]:
    """Return the text after the operators, and what they did, last first as Presidio lists it.

    The labels of the spans are entity types. Every character of every span is operated on: of overlapping spans the one
    with the higher score is kept whole, and of the other what lies outside it. Raises Refused for a text that no model
    reads, and for `encrypt`.
    """
    try:
        check_text(text, "the note")
    except CorpusError as error:
        raise Refused(422, str(error)) from None
    salt = secrets.token_hex(16)
    parts: list[str] = []
    items: list[Item] = []
    position = length = 0
    for span in _joined(text, split_overlaps(spans)):
        operator = operators.get(span.label) or operators.get(_DEFAULT) or Replace(type="replace")
        value = _value(operator, text[span.start : span.end], span.label, salt)
        between = text[position : span.start]
        start = length + len(between)
        length = start + len(value)
        parts += (between, value)
        items.append(Item(start, length, span.label, value, operator.type))
        position = span.end
    parts.append(text[position:])
    return "".join(parts), items[::-1]


def _joined(text: str, spans: Iterable[Span]) -> list[Span]:
    """Join neighbours of one type with nothing but white space between them, as Presidio does."""
    joined: list[Span] = []
    for span in spans:
        before = joined[-1] if joined else None
        if before and before.label == span.label and not text[before.end : span.start].strip():
            joined[-1] = replace(before, end=span.end, score=max(before.score, span.score))
        else:
            joined.append(span)
    return joined


def _value(operator: Operator, surface: str, entity_type: str, salt: str) -> str:
    match operator:
        case Replace():
            return operator.new_value or f"<{entity_type}>"
        case Redact():
            return ""
        case Keep():
            return surface
        case Mask():
            number = len(surface) if operator.chars_to_mask is None else min(operator.chars_to_mask, len(surface))
            stars = operator.masking_char * number
            return surface[: len(surface) - number] + stars if operator.from_end else stars + surface[number:]
        case Hash():
            salted = (salt if operator.salt is None else operator.salt) + surface
            return hashlib.new(operator.hash_type, salted.encode()).hexdigest()
        case Refuse():
            raise Refused(422, f"the operator {operator.type} is not offered; use one of {', '.join(OPERATORS)}")
