"""Presidio's anonymizer operators: each by hand, and that no character of an entity is ever left."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ensemble_deid.note.span import Span
from ensemble_deid.service.presidio import AnalyzerResult, Operator, anonymize
from ensemble_deid.service.refusal import Refused

_OPERATOR: TypeAdapter[Operator] = TypeAdapter(Operator)
TEXT = "Ann Poe, 309-555-0142"
PERSON, PHONE = Span(0, 7, "PERSON", 0.9), Span(9, 21, "PHONE_NUMBER", 0.8)


def changed(operators: dict[str, dict[str, Any]], *entities: Span, text: str = TEXT) -> str:
    made = {name: _OPERATOR.validate_python(fields) for name, fields in operators.items()}
    return anonymize(text, entities, made)[0]


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        ({"type": "replace"}, "<PERSON>"),
        ({"type": "replace", "new_value": ""}, "<PERSON>"),
        ({"type": "replace", "new_value": "someone"}, "someone"),
        ({"type": "redact"}, ""),
        ({"type": "keep"}, "Ann Poe"),
        ({"type": "mask"}, "*******"),
        ({"type": "mask", "masking_char": "#", "chars_to_mask": 3}, "### Poe"),
        ({"type": "mask", "masking_char": "#", "chars_to_mask": 3, "from_end": True}, "Ann ###"),
        ({"type": "mask", "masking_char": "#", "chars_to_mask": 99, "from_end": True}, "#######"),
        ({"type": "hash", "salt": "s"}, hashlib.sha256(b"sAnn Poe").hexdigest()),
        ({"type": "hash", "hash_type": "sha512", "salt": ""}, hashlib.sha512(b"Ann Poe").hexdigest()),
    ],
)
def test_each_operator(operator: dict[str, Any], wanted: str) -> None:
    assert changed({"PERSON": operator}, PERSON) == f"{wanted}, 309-555-0142"
    assert changed({"DEFAULT": operator}, PERSON) == f"{wanted}, 309-555-0142"
    assert changed({"PHONE_NUMBER": operator}, PERSON) == "<PERSON>, 309-555-0142"


def test_a_hash_without_salt_cannot_be_looked_up() -> None:
    twice = "Ann Poe Ann Poe"
    entities = (Span(0, 7, "A", 1.0), Span(8, 15, "B", 1.0))
    first, second = changed({"DEFAULT": {"type": "hash"}}, *entities, text=twice).split()
    assert first == second != hashlib.sha256(b"Ann Poe").hexdigest()
    assert first not in changed({"DEFAULT": {"type": "hash"}}, *entities, text=twice)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "mask", "chars_to_mask": 0},
        {"type": "mask", "chars_to_mask": -3},
        {"type": "mask", "masking_char": ""},
        {"type": "mask", "masking_char": "**"},
        {"type": "hash", "hash_type": "md5"},
        {"type": "shout"},
        {},
    ],
)
def test_parameters_that_would_leave_text_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        _OPERATOR.validate_python(fields)


def test_what_is_refused() -> None:
    for operator in ("encrypt", "custom"):
        with pytest.raises(Refused, match=f"the operator {operator} is not offered"):
            changed({"DEFAULT": {"type": operator, "key": "k" * 16}}, PERSON)
    for start, end in ((0, 22), (-1, 3), (3, 3)):
        with pytest.raises(Refused, match=r"analyzer_results\[1\]: "):
            AnalyzerResult(start=start, end=end, entity_type="A").span(1, TEXT)
    with pytest.raises(Refused, match="NUL"):
        changed({}, text="\0")


def test_overlaps_go_to_the_higher_score_and_neighbours_are_joined() -> None:
    def types(*entities: Span) -> str:
        return changed({}, *entities, text="John Smith Lee")

    assert types(Span(0, 10, "NAME", 0.8), Span(0, 4, "FIRST", 0.8), Span(5, 10, "LAST", 0.6)) == "<NAME> Lee"
    assert types(Span(0, 10, "NAME", 0.5), Span(5, 14, "PLACE", 0.9)) == "<NAME><PLACE>"
    assert types(Span(0, 14, "NAME", 0.5), Span(5, 10, "PLACE", 0.9)) == "<NAME><PLACE><NAME>"
    assert types(Span(0, 4, "NAME", 0.5), Span(5, 10, "NAME", 0.9)) == "<NAME> Lee"
    assert types(Span(0, 4, "NAME", 0.5), Span(0, 4, "NAME", 0.5)) == "<NAME> Smith Lee"


_ENTITIES = st.lists(
    st.tuples(st.integers(0, 19), st.integers(1, 9), st.sampled_from("ABC"), st.sampled_from([0.2, 0.5, 0.9]))
)


@given(_ENTITIES)
def test_every_character_of_every_entity_goes(drawn: list[tuple[int, int, str, float]]) -> None:
    text = "abcdefghij klmnopqrs"
    entities = [Span(start, min(20, start + length), kind, score) for start, length, kind, score in drawn]
    covered = {k for entity in entities for k in range(entity.start, entity.end)}
    left = "".join(c for k, c in enumerate(text) if k not in covered)
    redacted, items = anonymize(text, entities, {"DEFAULT": _OPERATOR.validate_python({"type": "redact"})})
    # White space between two entities of one type goes with them.
    assert redacted.replace(" ", "") == left.replace(" ", "")
    replaced, items = anonymize(text, entities, {})
    assert [replaced[item.start : item.end] for item in items] == [item.text for item in items]
    assert [item.start for item in items] == sorted((item.start for item in items), reverse=True)
