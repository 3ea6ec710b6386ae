"""Presidio's anonymizer operators on a text and the spans that a client names."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.errors import CorpusError
from ensemble_deid.service.refusal import Refused

OPERATORS = ("hash", "keep", "mask", "redact", "replace")
_DEFAULT = "DEFAULT"


class _Operator(BaseModel):
    """An operator; a parameter that is not known is refused, since it may be a typing error."""

    model_config = ConfigDict(extra="forbid")


class Replace(_Operator):
    """Puts `new_value`, or the entity type in angle brackets, in the place of a span."""

    type: Literal["replace"]
    new_value: str = ""


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
    salt: str | None = None


class Refuse(BaseModel):
    """Operators of Presidio that this service does not offer."""

    type: Literal["encrypt", "custom"]


Operator = Annotated[Replace | Redact | Keep | Mask | Hash | Refuse, Field(discriminator="type")]


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A span that a client names."""

    start: int
    end: int
    type: str
    score: float


@dataclass(frozen=True, slots=True)
class Item:
    """What stands at `[start, end)` of the new text."""

    start: int
    end: int
    entity_type: str
    text: str
    operator: str


def anonymize(text: str, entities: Iterable[Entity], operators: Mapping[str, Operator]) -> tuple[str, list[Item]]:
    """Return the text after the operators, and what they did, last first as Presidio lists it.

    Every character of every entity is operated on: of overlapping entities the one with the higher score is kept whole,
    and of the other what lies outside it. Raises Refused for a text that no model reads, an entity outside
    it, and `encrypt`.
    """
    try:
        check_text(text, "the note")
    except CorpusError as error:
        raise Refused(422, str(error)) from None
    salt = secrets.token_hex(16)
    parts: list[str] = []
    items: list[Item] = []
    position = length = 0
    for entity in _joined(text, _disjoint(_checked(text, entities))):
        operator = operators.get(entity.type) or operators.get(_DEFAULT) or Replace(type="replace")
        value = _value(operator, text[entity.start : entity.end], entity.type, salt)
        between = text[position : entity.start]
        start = length + len(between)
        length = start + len(value)
        parts += (between, value)
        items.append(Item(start, length, entity.type, value, operator.type))
        position = entity.end
    parts.append(text[position:])
    return "".join(parts), items[::-1]


def _checked(text: str, entities: Iterable[Entity]) -> list[Entity]:
    found = list(entities)
    for number, entity in enumerate(found):
        if not 0 <= entity.start < entity.end <= len(text):
            raise Refused(
                422,
                f"analyzer_results[{number}]: {entity.start}-{entity.end} does not lie inside the text of "
                f"{len(text)} characters (0 <= start < end <= length is needed)",
            )
    return found


def _disjoint(entities: Sequence[Entity]) -> list[Entity]:
    """Return parts of entities that do not overlap and cover the same characters, in text order.

    At each place the entity with the highest score counts, then the longest, then the first.
    """
    waiting = sorted(set(entities), reverse=True)
    places = sorted({place for entity in waiting for place in (entity.start, entity.end)})
    covering: list[tuple[float, int, Entity]] = []
    parts: list[tuple[Entity, int, int]] = []
    for start, end in pairwise(places):
        while waiting and waiting[-1].start == start:
            entity = waiting.pop()
            heappush(covering, (-entity.score, entity.start - entity.end, entity))
        while covering and covering[0][2].end <= start:
            heappop(covering)
        if not covering:
            continue
        best = covering[0][2]
        if parts and parts[-1][0] is best and parts[-1][2] == start:
            parts[-1] = (best, parts[-1][1], end)
        else:
            parts.append((best, start, end))
    return [replace(entity, start=start, end=end) for entity, start, end in parts]


def _joined(text: str, entities: Iterable[Entity]) -> list[Entity]:
    """Join neighbours of one type with nothing but white space between them, as Presidio does."""
    joined: list[Entity] = []
    for entity in entities:
        before = joined[-1] if joined else None
        if before and before.type == entity.type and not text[before.end : entity.start].strip():
            joined[-1] = replace(before, end=entity.end, score=max(before.score, entity.score))
        else:
            joined.append(entity)
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
