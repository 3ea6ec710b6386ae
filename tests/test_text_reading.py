"""A note as it is read: the map to its text, and the forms that are undone."""

import base64
import binascii
import html
import itertools
import unicodedata

import pytest
from bounded_work import calls, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.features.batch import plain_batch
from ensemble_deid.features.columns import line_labels
from ensemble_deid.features.pattern_text import failed_examples
from ensemble_deid.features.patterns import PatternSet, find_all, parse_patterns
from ensemble_deid.model.options import BATCH_SIZE, LOWERED, threshold_factor
from ensemble_deid.note import reading as reading_module
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import ALIKE as TABLE
from ensemble_deid.note.folding import visible
from ensemble_deid.note.reading import ROUNDS, Reading, as_read, read
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize


def normalised(text: str) -> str:
    """Return a text with plain blanks, hyphens and apostrophes, in NFC, and without invisible characters."""
    return unicodedata.normalize("NFC", visible(text).translate(TABLE))


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


FORMED = [
    *PIECES, *ALIKE, *INVISIBLE, "Smith ", "S m i t h", "S.m.i.t.h", "J\no\nh\nn ", "&#83;", "&amp;", "lt;", "<b>",
    "</b>", "<a href='x@y.z'>", "%20", "%C3%A9", "=3D", "=\n", "\u202e", "\u202c", "\uff33", "\U0001d400", "\u0430",
    "Sm\u0456th", "\u3164", "\u0664", "\u2074", "Ada_Strong", "|", "-\n", "4 / 2 / 2071", "\u2013", "{\\rtf1 ",
    "\\par ", "\\'e9", "\\u233?", "}", "QWRhIFN0cm9uZyBsaXZlcyBpbiBTcHJpbmdmaWVsZCBub3cgYW5kIHRoZW4g", "\u0301\u0336",
]  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(FORMED), max_size=14).map("".join))


def forms_beneath(reading: Reading) -> bool:
    return any(name.startswith("nested") for name in reading.forms)


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_every_character_of_a_reading_stands_for_some_of_the_text(text: str) -> None:
    reading = read(text)
    size = len(reading.text)
    if reading.starts is None or reading.ends is None:
        assert size == len(text)
        return
    assert len(reading.starts) == len(reading.ends) == size
    places = [reading.original(k, k + 1) for k in range(size)]
    assert all(0 <= low < high <= len(text) for low, high in places)
    if reading.in_order:
        assert places == sorted(places)
        assert all(before[1] <= after[1] for before, after in itertools.pairwise(places))
    else:
        assert "\u202e" in text or forms_beneath(reading) or reading.forms
    for start, end in itertools.combinations(range(0, size + 1, max(1, size // 6)), 2):
        parts = places[start:end]
        assert reading.original(start, end) == (min(low for low, _ in parts), max(high for _, high in parts))


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_a_reading_is_its_own_reading(text: str) -> None:
    reading = read(text)
    if not forms_beneath(reading):
        assert read(reading.text).text == reading.text


@given(TEXTS, st.data())
@settings(max_examples=200, deadline=None)
def test_spans_go_there_and_back(text: str, data: st.DataObject) -> None:
    reading = read(text)
    if not reading.text:
        return
    start = data.draw(st.integers(0, len(reading.text) - 1))
    end = data.draw(st.integers(start + 1, len(reading.text)))
    (span,) = reading.original_spans([Span(start, end, "NAME")])
    here = reading.here(span.start, span.end)
    assert here is not None
    assert here[0] <= start
    assert end <= here[1]
    pieces = [Span(k, k + 1, "NAME") for k in range(len(reading.text))]
    back = reading.original_spans(pieces)
    assert all(one.end <= other.start for one, other in itertools.pairwise(back))


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once


def found_in(text: str, patterns: PatternSet = PATTERNS) -> list[Span]:
    reading = read(text)
    return sorted(reading.original_spans(find_all(patterns, Document("1", reading.text))))


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
        return [(normalised(written[s.start : s.end]), s.label) for s in found_in(written)]

    expected = found(text)
    assert expected
    decomposed = unicodedata.normalize("NFD", text)
    assert found(decomposed) == expected
    assert found(text.replace(" ", "\u00a0").replace("-", "\u2011").replace("'", "\u2019")) == expected
    for span in found_in(decomposed):
        assert not unicodedata.combining((decomposed + " ")[span.end])


def test_what_shows_nothing_hides_nothing() -> None:
    plain = "Dr. Hidalgo Smith, call 555-0134. MUÑOZ"
    hidden = "\ufeffDr.\u200e Hid\u00adal\u200dgo Smi\u00adth, call 5\u20605\u200c5-01\u00ad34. MU\u200dÑOZ\u2060"
    expected = [plain[s.start : s.end] for s in found_in(plain)]
    found = [hidden[s.start : s.end] for s in found_in(hidden)]
    assert [normalised(string) for string in found] == expected
    assert found[1] == "5\u20605\u200c5-01\u00ad34"
    notes = [as_read(Document("plain", plain)), as_read(Document("hidden", hidden))]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True)
    words = batch.table["word"].strings()
    size = len(tokenize(notes[:1]))
    # A mark at the beginning, or after a full stop, belongs to no word; no word is empty.
    assert [word for word in words[size:] if word not in "\ufeff\u200e"] == words[:size]
    assert all(words)


def test_a_zero_width_space_parts_words() -> None:
    text = "seen by\u200bDr. Hidalgo Smith\u200btoday, 555-0134\u200bFax GARCIA\u200bDOB"
    found = [text[s.start : s.end] for s in found_in(text)]
    assert found == ["Hidalgo Smith", "555-0134", "GARCIA"]


def test_sentences_end_after_what_shows_nothing_as_elsewhere() -> None:
    breaks = []
    for text in ("Seen at the hospital. He left.", "Seen at the hos\u00adpital. He left."):
        note = as_read(Document("1", text))
        breaks.append(tokenize([note], split_lines=True).sentence.tolist())
    assert breaks[0] == breaks[1]
    assert max(breaks[0]) == 1


def test_learners_see_a_name_in_one_spelling() -> None:
    texts = ("Dr. Müller, José", unicodedata.normalize("NFD", "Dr.\u00a0Müller, José"))
    notes = [as_read(Document(text, text)) for text in texts]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True)
    words = batch.table["word"].strings()
    assert words[:5] == words[5:] == ["Dr", ".", "Müller", ",", "José"]
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
        assert [(s.start, s.end) for s in found_in(written, patterns)] == [(0, len(written))]


def test_the_label_before_a_value_is_the_same_in_every_spelling() -> None:
    plain = "Médico tratante: X\nOBSERVACIÓN\nNombre: Y"
    columns = []
    for written in (plain, unicodedata.normalize("NFD", plain).replace(" ", "\u00a0")):
        notes = [as_read(Document("1", written))]
        columns.append(line_labels(notes, tokenize(notes)))
    assert columns[0] == columns[1]
    assert columns[0][1][3] == "médico tratante"
    assert columns[0][2][-1] == "observación"


def test_every_space_of_unicode_is_a_blank() -> None:
    spaces = [chr(k) for k in range(0x110000) if unicodedata.category(chr(k)) == "Zs"]
    assert {normalised(space) for space in spaces} == {" "}


def test_longer_dashes_stay() -> None:
    assert read("1 \u2013 2 \u2014 3").text == "1 \u2013 2 \u2014 3"


def test_what_shows_nothing_is_told_from_signs() -> None:
    assert visible("\u00ad\u034f\u061c\u115f\u180e\u200c\u200d\u200e\u202a\u2060\u206f\u3164\ufe0f\ufeff") == ""
    # An Arabic sign that stands before a number shows, as white space, accents and controls are none of these.
    signs = "a0 \n\t\u00a0\u0301\u0600\x00\u200b\ud800"
    assert visible(signs) == signs


PLAIN = "Seen by Dr. Hidalgo Smith on 4/2/2071, MRN 4821377.\nHer brother Edward Okonkwo drove from Springfield."


def escaped(text: str) -> str:
    return "".join(f"&#{ord(c)};" if c.isalnum() else c for c in text)


def look_alike(text: str) -> str:
    return text.translate(
        str.maketrans("aeopcyxHOCEi", "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u041d\u041e\u0421\u0415\u0456")
    )


WRITTEN = {
    "entities": escaped(PLAIN),
    "entities of entities": html.escape(escaped(PLAIN)),
    "full-width": "".join(chr(ord(c) + 0xFEE0) if c.isalnum() else c for c in PLAIN),
    "mathematical": "".join(chr(0x1D41A + ord(c) - 97) if c.islower() else c for c in PLAIN),
    "U+200B inside words": PLAIN.replace("dal", "da\u200bl").replace("kon", "ko\u200bn").replace("rin", "ri\u200bn"),
    "U+034F": "\u034f".join(PLAIN),
    "U+3164 for blanks": PLAIN.replace(" ", "\u3164"),
    "reversed": PLAIN.replace("Smith", "\u202ehtimS\u202c").replace("4821377", "\u202e7731284\u202c"),
    "a stroke through every letter": "\u0336".join(PLAIN),
    "an accent on every letter": "".join(c + "\u0301" if c.isalpha() else c for c in PLAIN),
    "look-alikes": look_alike(PLAIN),
    "Arabic-Indic digits": PLAIN.translate({ord(str(k)): 0x660 + k for k in range(10)}),
    "superscripts": PLAIN.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")),
    "letter-spaced": PLAIN.replace("Smith", "S m i t h").replace("Okonkwo", "O k o n k w o"),
    "all letter-spaced": " ".join(PLAIN),
    "dots": PLAIN.replace("Smith", "S.m.i.t.h").replace("Okonkwo", "O.k.o.n.k.w.o"),
    "one letter a line": "\n".join(PLAIN),
    "cut at line ends": PLAIN.replace("Hidal", "Hidal-\n").replace("Okon", "Okon-\n  "),
    "underscores": PLAIN.replace(" ", "_"),
    "tags": PLAIN.replace("Smith", "<b>Sm</b>ith").replace("Edward", "<name>Edward</name>"),
    "line breaks of HTML": PLAIN.replace("\n", "<br>").replace(" ", "&nbsp;"),
    "percent": PLAIN.replace(" ", "%20").replace("/", "%2F"),
    "quoted-printable": PLAIN.replace("drove ", "dro=\nve=20").replace("/", "=2F") + " a=3Db",
    "RTF": "{\\rtf1\\ansi{\\fonttbl{\\f0 Arial;}}\\f0 " + PLAIN.replace("\n", "\\par\n").replace("Smith", "{\\b Smith}")
    + "}",
    "base64": base64.encodebytes(PLAIN.encode()).decode(),
    "slashes of fractions": PLAIN.replace("/", "\u2044"),
    "blanks in a date": PLAIN.replace("/", " / "),
}  # fmt: skip


@pytest.mark.parametrize("form", WRITTEN)
def test_forms_are_undone(form: str) -> None:
    reading = read(WRITTEN[form])
    words = reading.text.removesuffix(" a=b").split()
    assert words == PLAIN.split()
    assert reading.forms
    covered = {
        WRITTEN[form][slice(*reading.original(at, at + len(name)))]
        for name in ("Smith", "Okonkwo")
        if (at := reading.text.index(name)) >= 0
    }
    # Nothing of a name is outside its place, and little else is inside.
    rest = WRITTEN[form]
    for string in covered:
        assert 5 <= len(string) <= 80
        rest = rest.replace(string, "\x00")
    assert "Smith" not in read(rest).text


@pytest.mark.parametrize(
    "text",
    [
        "ALLERGIES: A B C D E F\nx 5 x 4, p.r.n. and b.i.d., e.g. q.h.s. U.S.A.F.",
        "Mail <ada.strong@clinic.example> from <Aurelia>, p<0.05 and >0.01; AT&T; R&S;",
        "HCT=70 WBC=16 T=98 ==========================================",
        "RR=20\nMRN=2148213\nDOB=2041-03-14\nCO2=20",
        "C:\\tab\\b\\i\\f1\n5\\'10 and 5\\'11, was 5\\'8; he said \\'bad\\', \\'dead\\', \\'aching\\'\nDOB",
        "EF 50%20 mg, 95%25; methotrexate/cytarabine/hydrocortisone",
        "C|P 5|M 1|1 O|O\nName|Value|Unit|Range\nsodium|140|mmol/L|135-145",
        "WBC 10\u2079/L, 3 m\u00b2, TNF\u03b1 and IFN\u03b3, 5 \u00b5g, 3\u20135 days",
        "Apgar 5 7 9, strength 5 5 5 5 5, id 12 days, NHS number 943 476 5919, account of 3 to 5 10 and 20",
        "MRN 4821377 12 days, MR # 10/20 30, phone 020 7946 0155, weights 48 213 07; LA 2 0 0 0 1",
        "70 / 63 / 56 Gy; 22.05.66 21:10; phone 251-555-0138",
        "Jos\u00e9 Nguy\u1ec5n, M\u00fcller \u2014 \u0141ukasz",
    ],
)
def test_ordinary_text_is_its_own_reading(text: str) -> None:
    reading = read(text)
    assert (reading.text, reading.starts, dict(reading.forms)) == (text, None, {})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("MRN: 48 213 07, seen", "4821307"),
        ("Medical Record No. 48 213 07\n", "4821307"),
        ("acct # 0 0 4 4 1 7 3", "0044173"),
        ("Trenton, NJ 0 7 7 0 0.", "07700"),
        ("zip code 0 7 7 0 0", "07700"),
        ("zip code 0 7 7 0 1 and 0 4 9 3 1 8 4 6", "04931846"),
        ("policy MM7 0 9 3 1 8 4 6", "70931846"),
        ("Tel: 0 2 5 5 5 0 1 3 4 (home)", "025550134"),
        ("Philhealth 01-8 9 5 4 8 0 3 6 6-9", "01-895480366-9"),
    ],
)
def test_a_labelled_number_with_blanks_is_one_number(text: str, number: str) -> None:
    reading = read(text)
    at = reading.text.index(number)
    low, high = reading.original(at, at + len(number))
    assert text[low:high].replace(" ", "") == number
    assert set(reading.forms) == {"blanks in numbers"}


@pytest.mark.parametrize("text", ["GAD-7 16/21 (3 3 3 2 2 1 2)", "Strength 5 5 5 5 5", "Claim 31 000 619 of the board"])
def test_scores_and_groups_of_digits_stay(text: str) -> None:
    assert read(text).text == text


@pytest.mark.parametrize("separator", [" ", "\n"])
def test_columns_of_a_table_with_letters_apart_keep_their_places(separator: str) -> None:
    table = (
        "Name                    Seen by\nEdward Okonkwo          Hidalgo Smith\nAda Strong              Edward Lorne"
    )
    assert read(separator.join(table)).text == table


def test_what_an_attribute_says_is_read() -> None:
    assert "ada@strong.example" in read('<a href="mailto:ada@strong.example">her</a>').text.replace("mailto:", " ")
    assert "blue" not in read('<span style="color:blue">Ada</span>').text


def test_the_author_of_rtf_is_read_and_its_fonts_are_not() -> None:
    text = r"{\rtf1{\fonttbl{\f0 Times;}}{\info{\author Ada Strong}}\pard Seen by M\'fcller and Mu\u241?oz.}"
    assert read(text).text.split() == "Ada Strong Seen by Müller and Muñoz.".split()


def test_rtf_is_read_after_plain_lines_and_in_parts() -> None:
    said = r"Seen by Dr. Jos\'e9 Pe\'f1a.\par Patient {\b Muri\'eb}l Br\'fbl\'e9, MRN 4821\b 3077\b0\par "
    words = "Seen by Dr. Jos\u00e9 Pe\u00f1a.\nPatient Muri\u00ebl Br\u00fbl\u00e9, MRN 48213077\n"
    assert read(f"Type: RTF\nC:\\x {{y}}\n{{\\rtf1 {said}}}").text == f"Type: RTF\nC:\\x {{y}}\n{words}"
    assert read("x\n{\\rtf1 Jos\\'e9}").text == "x\nJos\u00e9"
    assert read(said).text == words
    assert read(f"{said}}}{{\\rtf1 Jos\\'e9}}").text == f"{words}Jos\u00e9"
    picture = "4a" * 200
    assert read(f"Type: RTF\n{{\\rtf1 {{\\pict {picture}}}}}").unread == len(picture)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"Andr\u233\'e9", "Andr\u00e9"),
        (r"Andr\u233?", "Andr\u00e9"),
        (r"Andr\u233e", "Andr\u00e9"),
        (r"Andr\uc2\u233\'c3\'a9", "Andr\u00e9"),
        ("Andr\\u233\r\n\\'e9", "Andr\u00e9"),
        (r"Dvo\u345\'f8\u225\'e1", "Dvo\u0159\u00e1"),
    ],
)
def test_a_character_of_rtf_has_its_fallback_with_it(written: str, name: str) -> None:
    text = f"{{\\rtf1\\uc1 {written} x}}"
    reading = read(text)
    assert reading.text == f"{name} x"
    assert text[slice(*reading.original(0, len(name)))] == written


def test_lower_case_becomes_usual_case() -> None:
    text = "seen by dr okonkwo in the clinic, blood pressure stable, will return to springfield in june."
    reading = read(text)
    assert "Dr Okonkwo in the" in reading.text
    assert set(reading.forms) == {"lower case"}
    assert read(text, usual_case=False).text == text


WORDS = "seen by dr okonkwo in the clinic Springfield &#109;ay 3 4 2071 \u202estable , .".split(" ")


@given(st.lists(st.sampled_from([*WORDS, "\n", "  "]), max_size=60), st.booleans())
def test_what_is_kept_is_what_is_read(words: list[str], lower: bool) -> None:
    text = " ".join(words).lower() if lower else " ".join(words)
    for usual_case in (True, False, True):
        afresh, _ = reading_module._read(text, usual_case)
        kept = read(text, usual_case=usual_case)
        assert (kept.text, kept.forms, kept.unread) == (afresh.text, afresh.forms, afresh.unread)
        assert kept.original_spans([Span(0, len(kept.text), "X")] if kept.text else []) == afresh.original_spans(
            [Span(0, len(afresh.text), "X")] if afresh.text else []
        )


def test_forms_that_are_not_undone_are_told() -> None:
    capitals = "SEEN BY DR OKONKWO IN THE CLINIC, BLOOD PRESSURE STABLE, WILL RETURN TO SPRINGFIELD IN JUNE."
    assert (read(capitals).text, set(read(capitals).forms)) == (capitals, {"capitals"})
    assert threshold_factor(read(capitals)) < threshold_factor(read(capitals.title())) == 1


def test_a_few_letters_of_the_other_case_change_no_form() -> None:
    note = "\n".join([PLAIN] * 3)
    assert set(read(f"{note.upper()}\nASPIRIN 81 mg").forms) == {"capitals"}
    reading = read(f"{note.lower()}\nBP")
    assert set(reading.forms) == {"lower case"}
    assert "Hidalgo" in reading.text
    assert reading.text.endswith("\nBP")
    # A long sentence has one capital, and lines of it begin with small letters.
    ordinary = (
        "The patient was seen in the clinic for follow up of her hypertension and denies chest pain,\n"
        "shortness of breath, nausea and vomiting, and will return in three months for another visit.\n"
    )
    assert read(ordinary).forms == {}


def test_every_form_that_lowers_the_threshold_is_told() -> None:
    prose = "Mr Edward Okonkwo was seen by Dr Smith in the clinic on 4/2/2071 with fever and a cough since June. " * 3
    written = {
        "letters apart": " ".join(prose.replace(" ", "  ")),
        "blanks in numbers": prose.replace("4/2/2071", "4 / 2 / 2071"),
        "misread characters": "Patlent: Edward 0konkwo, seen by Dr Srnitb witb fcver, c0ugh, l2 dose5 of amoxicil1in.",
        "one word a line": "\n".join(prose.split()),
        "two columns": "\n".join(f"{prose[k : k + 30]:40}{prose[k + 60 : k + 90]}" for k in range(0, 200, 10)),
        "lower case": prose.lower(),
        "capitals": prose.upper(),
    }
    assert written.keys() == LOWERED.keys()
    for form, text in written.items():
        reading = read(text)
        assert form in reading.forms, form
        assert threshold_factor(reading) <= LOWERED[form] < 1, form


def test_numbers_stay_in_quoted_printable() -> None:
    said = "He said caf=C3=A9, 5=E2=80=9310 days.\nMRN=2148213 DOB=23/3/2041"
    assert read(said).text == "He said caf\u00e9, 5\u201310 days.\nMRN=2148213 DOB=23/3/2041"


def test_what_a_scanner_misread_is_repaired() -> None:
    text = (
        "Patlent: Edward 0konkwo, seen by Dr Srnitb witb fcver, c0ugh and l2 dose5 of amoxicil1in. MRN 48O213O. Stab1e."
    )
    reading = read(text)
    assert "Edward Okonkwo, seen by Dr Smith with fever, cough and 12 doses of amoxicillin. MRN 4802130" in reading.text
    assert set(reading.forms) == {"misread characters"}
    at = reading.text.index("Smith")
    low, high = reading.original(at, at + 5)
    assert text[low:high] == "Srnitb"
    # Abbreviations are no evidence, and neither is a single word.
    for ordinary in ("vanc, panc, vasc, misc and CBC on 3l, O2 and B12", "Seen by Dr Srnitb with fever and cough."):
        assert read(ordinary).text == ordinary


def test_two_columns_are_read_one_after_the_other() -> None:
    left = ["Seen by Dr Edward", "Okonkwo for a cough", "of three weeks,", "no fever, will", "return in June"]
    right = ["Sister: Ada Strong", "of Springfield, who", "may be called at any", "time", ""]
    text = "Clinic note\n" + "".join(f"{a:24}{b}".rstrip() + "\n" for a, b in zip(left, right, strict=True))
    reading = read(text)
    assert reading.text == "\n".join(["Clinic note", *left, *right[:-1], ""])
    assert set(reading.forms) == {"two columns"}
    at = reading.text.index("Edward")
    found = reading.original_spans([Span(at, at + len("Edward\nOkonkwo"), "DOCTOR")])
    assert [text[span.start : span.end] for span in found] == ["Edward", "Okonkwo"]
    table = "".join(f"{name:24}{value:8}{unit}\n" for name, value, unit in [("Sodium", "139", "mmol/l")] * 9)
    assert read(table).text == table
    # The left column is the longer one, and no line end is after its last word.
    unended = read(text.removesuffix("\n"))
    assert unended.text == reading.text
    at = unended.text.index("June\nSister")
    assert [text[slice(*unended.original(at + k, at + k + 4))] for k in (0, 5)] == ["June", "Sist"]


def test_encoded_text_that_is_not_read_is_counted() -> None:
    block = base64.b64encode(bytes(range(256))).decode()
    reading = read(f"See attachment:\n{block}\n")
    assert reading.unread > 300
    assert read(PLAIN).unread == 0


def test_a_uuencoded_file_is_counted_and_its_name_is_read() -> None:
    data = (PLAIN * 5).encode()
    lines = "".join(binascii.b2a_uu(data[k : k + 45]).decode() for k in range(0, len(data), 45))
    reading = read(f"See attachment:\r\nbegin 644 smith.txt\n{lines}`\nend\nRegards")
    assert reading.unread == len(lines)
    assert reading.text == "See attachment:\r\nbegin 644 smith.txt\n`\nend\nRegards"
    for ordinary in ("begin 100 mg daily\nASPIRIN 81 MG\nBP 120/80\n", "begin 644 tests\n"):
        assert (read(ordinary).text, read(ordinary).unread) == (ordinary, 0)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("=?UTF-8?B?Wm/DqyBCcm9udMOr?=", "Zo\u00eb Bront\u00eb"),
        ("=?ISO-8859-1?Q?Jos=E9_Pe=F1a?=", "Jos\u00e9 Pe\u00f1a"),
        ("=?utf-8*en?q?Jos=C3=A9_?=\r\n =?utf-8?q?Pe=C3=B1a?=", "Jos\u00e9 Pe\u00f1a"),
        ("=?iso-8859-2?Q?=A3ukasz?=", "\u0141ukasz"),
    ],
)
def test_words_of_mail_heads_are_decoded(written: str, name: str) -> None:
    reading = read(f"From: {written} <zb@example.com>")
    assert reading.text == f"From: {name} <zb@example.com>"
    low, high = reading.original(6, 6 + len(name))
    assert f"From: {written} <"[low:high] == written


@pytest.mark.parametrize("written", ["=?gb2312?B?1cXI/Q==?=", "=?UTF-8?B?Wm!?=", "=?UTF-8?Q?=E9?=", "=?utf-8?q?=00?="])
def test_a_word_of_a_mail_head_that_is_not_read_is_counted(written: str) -> None:
    assert read(f"From: {written}").unread == len(written)


def test_nesting_is_bounded() -> None:
    text = "Ada Strong & Co <x>"
    for _ in range(ROUNDS + 3):
        text = html.escape(text)
    reading = read(text)
    assert forms_beneath(reading)
    assert reading.unread == len(text)


def test_spans_of_training_notes_go_into_the_reading() -> None:
    text = "Seen by &#83;mith and Jo\u00adnes."
    note = as_read(Document("1", text, (Span(8, 17, "DOCTOR"), Span(22, 28, "DOCTOR"))))
    assert [note.text[span.start : span.end] for span in note.spans] == ["Smith", "Jones"]


@pytest.mark.parametrize(
    "piece",
    [
        *("&#x26;", "&amp;#38;", "a\u0301\u0301\u0336", "%26", "<a <b ", "S m i t h ", "a ", "a\n", "\u200b", "\u202e"),
        *("\u0430", "A" * 77, "A" * 76 + "\n", "{\\rtf1 {", "=3D", "a_", "a.", "- ", "4 / ", '<a x="', "&", "=\n"),
        *("4a ", "\\'4a", "{\\rtf1 \\pict 4a\n", "<b a ", "<b a='1' >", "A" * 17 + "\n", "&#1", "\\u-9 "),
        *("1 ", "-\n", "\u3164a", "<!--", "\\", "a-", "_", "Ab_", "=?a?q?", "=?a?q??= ", "begin 644 a\nA12\n"),
    ],
)
def test_hostile_text_is_work_in_proportion_to_length(piece: str) -> None:
    read("seen by somebody else, lists of words are read once " * 3)
    # Multiples of four, so that base64 is whole.
    number = 4 * (500 // len(piece))
    small, large = (calls(lambda times=times: read(piece * times)) for times in (number, 4 * number))
    assert large < 6 * small
    # What the calls do inside is not counted.
    with no_hang():
        read(piece * (100_000 // len(piece)))


def test_the_readings_of_a_batch_in_lower_case_are_kept() -> None:
    said = "seen by dr okonkwo in the clinic, blood pressure stable, will return to springfield in june."
    texts = [f"{k} days ago {said}" for k in range(BATCH_SIZE)]
    assert all("lower case" in read(text).forms for text in texts)
    before = reading_module._read_kept.cache_info().misses
    assert all("lower case" in read(text).forms for text in texts)
    assert reading_module._read_kept.cache_info().misses == before


def test_a_text_found_ordinary_elsewhere_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "_ordinary", set())
    plain = "Mr. Ordinary was seen on 3/4/2019 for a cough."
    other = "Ms. Ünusual was se\u200ben on 3/4/2019 for a cough."
    shouted = "SEEN BY DR OKONKWO IN THE CLINIC, BLOOD PRESSURE STABLE, WILL RETURN TO SPRINGFIELD IN JUNE."
    assert [reading_module.is_ordinary(text) for text in (plain, other, "", shouted)] == [True, False, True, False]
    before = [read(text) for text in (plain, other)]
    reading_module.remember_ordinary([plain])
    monkeypatch.setattr(reading_module, "_read_kept", lambda text, usual_case: pytest.fail("read again"))
    found = read(plain)
    assert (
        (found.text, found.starts, found.forms, found.unread) == (plain, None, {}, 0) == (before[0].text, None, {}, 0)
    )
    with pytest.raises(pytest.fail.Exception):
        read(other)
    monkeypatch.setattr(reading_module, "_MOST_ORDINARY", 1)
    reading_module.remember_ordinary(["another"])
    assert reading_module._ordinary == {reading_module._digest("another")}
    assert not reading_module.is_ordinary("word " * 5_000)
