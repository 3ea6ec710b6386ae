"""Tokens against a tokeniser that looks at one character after another, and their properties for any text."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import TokenTable, tokenize

PIECES = [
    "a",
    "B",
    "é",
    "e\u0301",
    "\u0301",
    "7",
    "٣",
    "½",
    " ",
    "\n",
    "\r\n",
    "\u2028",
    "\x85",
    ".",
    "-",
    "𝔸",
    "ß",
    "ª",
    "\u00ad",
    "\u200b",
    "\ufeff",
    "\u0600",
]
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.one_of(st.text(CHARACTERS, max_size=40), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


def kind(character: str) -> str:
    if character.isspace():
        return "space"
    if character.isdecimal():
        return "digit"
    return "letter" if character.isalpha() or unicodedata.category(character).startswith("M") else "other"


def slow_tokens(text: str) -> list[tuple[int, int]]:
    """Join marks to letters; then cut between units by the rules."""
    units: list[str] = []
    base = ""
    for character in text:
        mark = unicodedata.category(character).startswith("M")
        if mark and base == "letter":
            units[-1] += character
        else:
            units.append(character)
        if not mark:
            base = kind(character)
    tokens: list[tuple[int, int]] = []
    start = at = 0
    for i, unit in enumerate(units):
        at += len(unit)
        here, following = unit[0], units[i + 1][0] if i + 1 < len(units) else ""
        second = units[i + 2][0] if i + 2 < len(units) else ""
        cut = not following or kind(here) != kind(following) or kind(here) == "other"
        cut = cut or (here.islower() and following.isupper())
        cut = cut or (here.isupper() and following.isupper() and bool(second) and second.islower())
        if cut:
            if kind(here) != "space":
                tokens.append((start, at))
            start = at
    return tokens


def places(tokens: TokenTable) -> list[tuple[int, int]]:
    return list(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))


@given(TEXTS)
def test_tokens_are_those_of_the_slow_tokeniser(text: str) -> None:
    assert places(tokenize([Document("a", text)])) == slow_tokens(text)


@given(TEXTS)
def test_tokens_cover_everything_but_white_space_and_never_overlap(text: str) -> None:
    found = places(tokenize([Document("a", text)]))
    covered = [i for start, end in found for i in range(start, end)]
    assert covered == [i for i, character in enumerate(text) if not character.isspace()]


@given(st.lists(TEXTS, max_size=4), st.booleans())
def test_a_batch_is_its_documents_one_after_another(texts: list[str], split_lines: bool) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    together = tokenize(documents, split_lines=split_lines)
    assert together.document_starts.tolist()[0] == 0
    assert together.document_starts.tolist()[-1] == len(together)
    lines = sentences = 0
    for d, document in enumerate(documents):
        rows = slice(int(together.document_starts[d]), int(together.document_starts[d + 1]))
        alone = tokenize([document], split_lines=split_lines)
        assert places(alone) == places(together)[rows]
        assert set(together.document[rows].tolist()) <= {d}
        assert together.line[rows].tolist() == (alone.line + lines).tolist()
        assert together.sentence[rows].tolist() == (alone.sentence + sentences).tolist()
        lines += len(np.unique(alone.line))
        sentences += len(np.unique(alone.sentence))
    assert together.words(documents) == [
        text.text[a:b] for d, text in enumerate(documents) for a, b in places(tokenize([documents[d]]))
    ]


@given(TEXTS)
def test_lines_are_what_splitlines_calls_lines(text: str) -> None:
    tokens = tokenize([Document("a", text)])
    found = [tokens.line.tolist().count(k) for k in np.unique(tokens.line)]
    assert found == [len(slow_tokens(line)) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SamLee", ["Sam", "Lee"]),
        ("DRAlberto", ["DR", "Alberto"]),
        ("12/03/2019", ["12", "/", "03", "/", "2019"]),
        ("A1b--C", ["A", "1", "b", "-", "-", "C"]),
        ("Jose\u0301Luis E\u0301lise", ["Jose\u0301", "Luis", "E\u0301lise"]),
        ("x\u200by", ["x", "\u200b", "y"]),
        ("", []),
        (" \t\r\n", []),
        ("\ud800a", ["\ud800", "a"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    documents = [Document("a", text)]
    assert tokenize(documents).words(documents) == words


def test_no_documents_have_no_tokens() -> None:
    tokens = tokenize([])
    assert len(tokens) == 0
    assert tokens.document_starts.tolist() == [0]
    assert tokens.sentence_starts.tolist() == []
