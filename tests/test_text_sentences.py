"""Where lines fall into sentences, and where they must not."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import ABBREVIATIONS, tokenize


def sentences(text: str) -> list[str]:
    tokens = tokenize([Document("a", text)], split_lines=True)
    bounds = [*tokens.sentence_starts.tolist(), len(tokens)]
    return [text[tokens.start[a] : tokens.end[b - 1]] for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He came. She left! Why? Yes", ["He came.", "She left!", "Why?", "Yes"]),
        ("Aged 51. Lives alone", ["Aged 51.", "Lives alone"]),
        ("(see above). Then", ["(see above).", "Then"]),
        ("at 3 p.m. Monday", ["at 3 p.m. Monday"]),
        ("John F. Kennedy", ["John F. Kennedy"]),
        ("no stop.Next", ["no stop.Next"]),
        ("it was. and so on", ["it was. and so on"]),
        ("one line\nAnother one", ["one line", "Another one"]),
        ("dose . Then", ["dose .", "Then"]),
        ("a", ["a"]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize("abbreviation", sorted(ABBREVIATIONS))
def test_no_split_after_an_abbreviation(abbreviation: str) -> None:
    for form in (abbreviation, abbreviation.capitalize(), abbreviation.upper()):
        assert len(sentences(f"seen in {form}. Alberto 5")) == 1


@given(st.lists(st.sampled_from(["Dr.", "Avda.", "Smith", "came.", "St.", "7.", "?", "x)", ".", "\n"]), max_size=12))
def test_sentences_lie_within_lines_and_hold_all_tokens(parts: list[str]) -> None:
    text = " ".join(parts)
    tokens = tokenize([Document("a", text)], split_lines=True)
    assert (tokens.sentence[1:] - tokens.sentence[:-1] >= tokens.line[1:] - tokens.line[:-1]).all()
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
