"""Text with accents inside its letters, and what reads it: patterns and words find the same in NFD as in NFC."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.features.batch import plain_batch
from ensemble_deid.features.patterns import find_all, parse_patterns
from ensemble_deid.text.composed import compose
from ensemble_deid.text.document import Document

PATTERNS = parse_patterns(
    r"""
    name = "names"
    [[pattern]]
    name = "title"
    label = "DOCTOR"
    regex = '\bDr\. ([A-Z]\w+(?: [A-Z]\w+)*)'
    group = 1
    [[pattern]]
    name = "capitals"
    label = "PATIENT"
    regex = '\b[A-ZÑÜÍ]{4,}\b'
    """
)
PIECES = [
    "a",
    "E",
    "n",
    "é",
    "e\u0301",
    "\u0301",
    "\u0303",
    "u\u0308",
    "q\u0301\u0323",
    "한",
    "ㄱ",
    "Å",
    " ",
    "\n",
    "7",
]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_every_character_stands_where_its_letter_stood(text: str) -> None:
    composed = compose(text)
    if composed is None:
        assert unicodedata.is_normalized("NFC", text)
        return
    assert len(composed.text) == len(composed.starts) == len(composed.ends)
    reached = 0
    for k, character in enumerate(composed.text):
        low, high = composed.original(k, k + 1)
        assert character in unicodedata.normalize("NFC", text[low:high]) or text[low:high] == character
        # Nothing is left out, and what follows begins at the same letter or at the next.
        assert low <= reached
        reached = max(reached, high)
    assert reached == len(text)
    assert unicodedata.normalize("NFC", composed.text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    "text",
    [
        "Seen by Dr. José Smith today.",
        "Dr. Hernán Muñoz, Dr. Müller saw her.",
        "MUÑOZ and MÜLLER, then GARCÍA; Dr. Smith\u0301",
    ],
)
def test_patterns_find_the_same_names_whichever_way_accents_are_written(text: str) -> None:
    decomposed = unicodedata.normalize("NFD", text)
    found = {
        form: [(unicodedata.normalize("NFC", form[s.start : s.end]), s.label) for s in find_all(PATTERNS, _note(form))]
        for form in (unicodedata.normalize("NFC", text), decomposed)
    }
    whole, apart = found.values()
    assert whole
    assert whole == apart
    for span in find_all(PATTERNS, _note(decomposed)):
        assert not unicodedata.combining((decomposed + " ")[span.end])


def test_learners_see_a_name_in_one_spelling() -> None:
    notes = [_note("Dr. Müller, José"), _note(unicodedata.normalize("NFD", "Dr. Müller, José"))]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True)
    words = batch.table["word"].strings()
    half = len(words) // 2
    assert words[:half] == words[half:] == ["Dr", ".", "Müller", ",", "José"]
    assert batch.tokens.words(notes)[half:] != words[half:]
    assert len(batch.initial[0]) == len(batch.initial[1]) == 1


def _note(text: str) -> Document:
    return Document("1", text)
