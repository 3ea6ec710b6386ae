"""A span as plain data, for other tools."""

import json

import pytest

from ensemble_deid.note.span import Span

TEXT = "Seen by Dr. Strong."
SPAN = Span(12, 18, "DOCTOR", 0.97, "crf")


def test_a_span_as_a_dictionary_has_the_keys_of_hugging_face() -> None:
    assert SPAN.to_dict() == {"entity_group": "DOCTOR", "score": 0.97, "start": 12, "end": 18}
    assert list(SPAN.to_dict(text=TEXT)) == ["entity_group", "score", "word", "start", "end"]
    assert SPAN.to_dict(text=TEXT)["word"] == TEXT[12:18] == "Strong"
    assert json.loads(json.dumps(SPAN.to_dict())) == SPAN.to_dict()


def test_the_text_of_another_note_is_refused() -> None:
    assert Span(0, 4, "DATE").to_dict(text="Seen")["word"] == "Seen"
    with pytest.raises(ValueError, match="reaches outside a text of 4 characters") as raised:
        SPAN.to_dict(text="Seen")
    assert "Seen" not in str(raised.value)
