"""Text in its normal form: patterns and learners find the same however letters, spaces and hyphens are written."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.features.batch import plain_batch
from ensemble_deid.features.patterns import failed_examples, find_all, parse_patterns
from ensemble_deid.features.position import line_labels
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import normal_form, normalised
from ensemble_deid.note.tokens import tokenize

PATTERNS = parse_patterns(
    r"""
    name = "names"
    [[pattern]]
    name = "title"
    label = "DOCTOR"
    regex = "\\bDr\\. ([A-Z][\\w']+(?: [A-Z]\\w+)*)"
    group = 1
    [[pattern]]
    name = "capitals"
    label = "PATIENT"
    regex = '\b[A-ZÑÜÍ]{4,}\b'
    [[pattern]]
    name = "telephone"
    label = "PHONE"
    regex = '\b\d{3}-\d{4}\b'
    """
)
PIECES = ["a", "E", "é", "e\u0301", "\u0301", "u\u0308", "q\u0301\u0323", "한", "ㄱ", "\u212b", " ", "\n", "7"]
INVISIBLE = "\u00ad\u2060"
ALIKE = {
    "\u00a0": " ",
    "\u202f": " ",
    "\u3000": " ",
    "\u200b": " ",
    "\u2010": "-",
    "\u2011": "-",
    "\u2212": "-",
    "\u2019": "'",
}


@given(st.lists(st.sampled_from([*PIECES, *ALIKE, *INVISIBLE])).map("".join))
def test_every_character_stands_where_its_letter_stood(text: str) -> None:
    form = normal_form(text)
    if form is None:
        assert unicodedata.is_normalized("NFC", text)
        assert not set(text) & {*ALIKE, *INVISIBLE}
        return
    assert len(form.text) == len(form.starts) == len(form.ends)
    reached = 0
    for k, character in enumerate(form.text):
        low, high = form.original(k, k + 1)
        before = "".join(ALIKE.get(c, c) for c in text[low:high] if c not in INVISIBLE)
        assert character in unicodedata.normalize("NFC", before) or character == before
        # Nothing that shows is left out, and what follows begins at the same letter or at the next.
        assert not text[reached:low].strip(INVISIBLE)
        reached = max(reached, high)
    assert not text[reached:].strip(INVISIBLE)
    assert unicodedata.normalize("NFC", form.text) == normalised(text)


@given(st.text())
def test_a_normal_form_is_its_own(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "Seen by Dr. José Smith today.",
        "Dr. Hernán Muñoz, Dr. Müller saw her; call 555-0134.",
        "MUÑOZ and MÜLLER, then GARCÍA; Dr. O'Brien Smith\u0301",
    ],
)
def test_patterns_find_the_same_however_it_is_written(text: str) -> None:
    def found(written: str) -> list[tuple[str, str]]:
        return [(normalised(written[s.start : s.end]), s.label) for s in find_all(PATTERNS, Document("1", written))]

    expected = found(text)
    assert expected
    decomposed = unicodedata.normalize("NFD", text)
    assert found(decomposed) == expected
    assert found(text.replace(" ", "\u00a0").replace("-", "\u2011").replace("'", "\u2019")) == expected
    for span in find_all(PATTERNS, Document("1", decomposed)):
        assert not unicodedata.combining((decomposed + " ")[span.end])


def test_what_shows_nothing_hides_nothing() -> None:
    plain = "Dr. Hidalgo Smith, call 555-0134. MUÑOZ"
    hidden = "\ufeffDr.\u200e Hid\u00adal\u200dgo Smi\u00adth, call 5\u20605\u200c5-01\u00ad34. MU\u200dÑOZ\u2060"
    expected = [plain[s.start : s.end] for s in find_all(PATTERNS, Document("1", plain))]
    found = [hidden[s.start : s.end] for s in find_all(PATTERNS, Document("1", hidden))]
    assert [normalised(string) for string in found] == expected
    assert found[-1] == "5\u20605\u200c5-01\u00ad34"
    notes = [Document("plain", plain), Document("hidden", hidden)]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True)
    words = batch.table["word"].strings()
    size = len(tokenize(notes[:1]))
    # A mark at the beginning, or after a full stop, belongs to no word; no word is empty.
    assert [word for word in words[size:] if word not in "\ufeff\u200e"] == words[:size]
    assert all(words)


def test_a_zero_width_space_parts_words() -> None:
    text = "seen by\u200bDr. Hidalgo Smith\u200btoday, 555-0134\u200bFax GARCIA\u200bDOB"
    found = [text[s.start : s.end] for s in find_all(PATTERNS, Document("1", text))]
    assert found == ["Hidalgo Smith", "GARCIA", "555-0134"]


def test_sentences_end_after_what_shows_nothing_as_elsewhere() -> None:
    breaks = []
    for text in ("Seen at the hospital. He left.", "Seen at the hos\u00adpital. He left."):
        note = Document("1", text)
        breaks.append(tokenize([note], split_lines=True).sentence.tolist())
    assert breaks[0] == breaks[1]
    assert max(breaks[0]) == 1


def test_learners_see_a_name_in_one_spelling() -> None:
    texts = ("Dr. Müller, José", unicodedata.normalize("NFD", "Dr.\u00a0Müller, José"))
    notes = [Document(text, text) for text in texts]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True)
    words = batch.table["word"].strings()
    assert words[:5] == words[5:] == ["Dr", ".", "Müller", ",", "José"]
    assert batch.tokens.words(notes)[5:] != words[5:]
    assert [len(spans) for spans in batch.initial] == [1, 1]


def test_a_pattern_may_spell_out_what_the_normal_form_replaces() -> None:
    patterns = parse_patterns(
        """
        name = "typed in a word processor"
        [[pattern]]
        name = "house"
        label = "HOSPITAL"
        regex = "St\u00a0Mary\u2019s (?:Jose\u0301|N[\u2011 ]1)"
        positive = ["to «St Mary\u2019s Jos\u00e9»", "to «St\u00a0Mary's N\u20111»"]
        negative = ["to St Marys N-1"]
        [[pattern]]
        name = "laid out"
        label = "PHONE"
        flags = ["VERBOSE"]
        regex = "555 \u00a0 0[0-9]  # a blank between the numbers"
        positive = ["call «555 01»"]
        negative = ["call 55501"]
        """
    )
    assert [failed_examples(pattern) for pattern in patterns.patterns] == [[], []]
    for written in ("St Mary's José", "St\u00a0Mary\u2019s Jose\u0301"):
        assert [(s.start, s.end) for s in find_all(patterns, Document("1", written))] == [(0, len(written))]


def test_the_label_before_a_value_is_the_same_in_every_spelling() -> None:
    plain = "Médico tratante: X\nOBSERVACIÓN\nNombre: Y"
    columns = []
    for written in (plain, unicodedata.normalize("NFD", plain).replace(" ", "\u00a0")):
        notes = [Document("1", written)]
        columns.append(line_labels(notes, tokenize(notes)))
    assert columns[0] == columns[1]
    assert columns[0][1][3] == "médico tratante"
    assert columns[0][2][-1] == "observación"


def test_every_space_of_unicode_is_a_blank() -> None:
    spaces = [chr(k) for k in range(0x110000) if unicodedata.category(chr(k)) == "Zs"]
    assert {normalised(space) for space in spaces} == {" "}


def test_longer_dashes_stay() -> None:
    assert normal_form("1 \u2013 2 \u2014 3") is None
