"""Known identifiers, allow and deny lists: every form of a value is found, where it stands, and nothing besides."""

import re
import unicodedata
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_keys import KEY

from ensemble_deid.deidentify.known.identifiers import KnownIdentifiers
from ensemble_deid.deidentify.known.names import Certainty, Typos, within_one_edit
from ensemble_deid.deidentify.known.site_lists import LEFT, MATCHED, MISSED, UNKNOWN, SiteLists
from ensemble_deid.deidentify.known.table import StringIndex
from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

LABELS = ("PATIENT", "DOCTOR", "MEDICALRECORD", "PHONE", "STREET", "CITY", "ZIP", "DATE", "HOSPITAL")


def known(folder: Path, *rows: str) -> KnownIdentifiers:
    path = folder / "known.csv"
    path.write_text("\n".join(["patient_id,kind,value", *rows]) + "\n", encoding="utf-8")
    return KnownIdentifiers.read(path, labels=LABELS)


def found(identifiers: KnownIdentifiers, text: str, patient: str | None = "7") -> list[str]:
    """Return the strings of all matches but weak ones, in text order."""
    matches = [m for m in identifiers.find(text, patient) if m.certainty is not Certainty.WEAK]
    return [text[m.start : m.end] for m in sorted(matches, key=lambda m: (m.start, m.end))]


@pytest.mark.parametrize(
    ("value", "text", "wanted"),
    [
        ("John Q. Okonkwo", "Seen: OKONKWO,JOHN today", ["OKONKWO,JOHN"]),
        ("John Q. Okonkwo", "Mr. Okonkwo's wife", ["Okonkwo"]),
        ("John Q. Okonkwo", "J. Okonkwo and okonkwo j", ["J. Okonkwo", "okonkwo"]),
        ("John Q. Okonkwo", "Johnny Okonkwo", ["Johnny Okonkwo"]),
        ("John Q. Okonkwo", "john q. okonkwo", ["john q. okonkwo"]),
        ("John Q. Okonkwo", "Okonkow and Okonko", ["Okonkow", "Okonko"]),
        ("John Q. Okonkwo", "Hohn Okonkwo and Jon Okonkwo", ["Okonkwo", "Jon Okonkwo"]),
        ("John Q. Okonkwo", "johnokonkwo@example.org", ["johnokonkwo"]),
        ("García-López, Ñandú", "GARCIA LOPEZ, nandu", ["GARCIA LOPEZ, nandu"]),
        ("Garcia", "Garci\u0301a.", ["Garci\u0301a"]),
        ("Garcia", "Gar\u00adci\u200da\u00ad.", ["Gar\u00adci\u200da\u00ad"]),
        ("Garcia", "Garcia\u200bseen", ["Garcia"]),
        ("María de la Cruz", "Maria de la Cruz", ["Maria de la Cruz"]),
        ("Siobhan O'Brien", "OBRIEN, S.", ["OBRIEN, S"]),
        ("Siobhan O’Brien", "O'Brien's", ["O'Brien"]),
        ("Angus McTavish", "Mc Tavish", ["Mc Tavish"]),
        ("William Long", "He will long for May. Long waits.", ["Long"]),
        ("William Long", "Long day for Bill.", ["Long", "Bill"]),
        ("Wei Ng", "Ng has an NG tube", ["Ng"]),
        ("DO, MINH T", "Ms. Do came. They do that; DO NOT wait. Minh Do, DO", ["Do", "Minh Do"]),
        ("Nguyen Van Do", "Ms. Do came.", ["Do"]),
        ("Don Bell", "Don signed; don gloves.", ["Don"]),
        ("Das, Amit", "Mr. Das came, was das ist.", ["Das"]),
        ("Van Johnson", "Van drove the van.", ["Van"]),
        ("Van Johnson, MD", "Van drove the van.", ["Van"]),
        ("Tran, Van Minh", "Van drove the van.", ["Van"]),
        ("Bin Wang", "Bin emptied the bin.", ["Bin"]),
        ("Vance, JD", "Seen: J. D., Jd Vance", ["Jd Vance"]),
        ("Dyke, Van", "Van drove the van.", ["Van"]),
        ("Van Dyke, Van", "Van drove the van.", ["Van"]),
        ("Иванов, Пётр", "ИВАНОВ пришел. Петр иванов", ["ИВАНОВ", "Петр иванов"]),
        ("ТАМАРА, АННА", "Тамара болеет. Анна нет.", ["Тамара", "Анна"]),
        ("Вера Носова", "Нет. ВЕРА пришла. Вера болеет.", ["ВЕРА", "Вера"]),
        ("Παπαδόπουλος Νίκος", "ΠΑΠΑΔΟΠΟΥΛΟΣ ΝΙΚΟΣ", ["ΠΑΠΑΔΟΠΟΥΛΟΣ ΝΙΚΟΣ"]),
        ("ΓΑΒΡΙΗΛ, ΑΝΝΑ", "Ο Γαβριήλ ήρθε. Η Άννα.", ["Γαβριήλ", "Άννα"]),
        ("Đặng, Hòa", "Mrs. Dang came, ĐẶNG", ["Dang", "ĐẶNG"]),
        ("Łoś, Jan", "Mr. Los, ŁOŚ", ["Los", "ŁOŚ"]),
        ("Yildiz, Can", "Yıldız, YILDIZ, YILDİZ", ["Yıldız", "YILDIZ", "YILDİZ"]),
        ("Van Dyke, Bob", "Van Gogh of De Leon. Mr. Van Dyke", ["Dyke"]),
        ("de Leon", "De novo, de Leon", ["Leon"]),
        ("María de la Cruz", "La vie de la Cruz. De La Cruz", ["Cruz", "Cruz"]),
        ("Bell, Ann MD, PhD", "MD to see. Ann Bell, MD", ["Ann Bell"]),
    ],
)
def test_a_name_is_found_in_every_form(tmp_path: Path, value: str, text: str, wanted: list[str]) -> None:
    assert found(known(tmp_path, f'7,name,"{value}"'), text) == wanted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(("Garcia-Lopez, Ana", "Garcialopez"), ("Van Dyke, Bob", "VanDyke"), ("O Brien, Ann", "O'Brien")),
        *(("De La Cruz, Ana", "Delacruz"), ("De La Cruz, Ana", "LaCruz"), ("El-Sayed, Ali", "Elsayed")),
        *(("Mc Tavish, Jo", "McTavish"), ("Jo Mc Tavish", "McTavish"), ("Le Blanc, Jo", "LeBlanc")),
        *(("Smith, Mary Ann", "Maryann"), ("Ana Garcia Lopez", "garcialopez")),
    ],
)
def test_a_name_of_several_words_may_be_written_as_one(tmp_path: Path, value: str, text: str) -> None:
    assert found(known(tmp_path, f'7,name,"{value}"'), f"Ms. {text} and {text} came.") == [text, text]
    assert found(known(tmp_path, f',staff,"{value}"'), f"Ms. {text} and {text} came.") == [text, text]


@pytest.mark.parametrize(("value", "text"), [("Okonkwo, Rose Mary", "Rosemary"), ("Okonkwo, Jo Hanna H", "Johannah")])
def test_words_of_a_name_are_not_joined_to_another_word(tmp_path: Path, value: str, text: str) -> None:
    assert found(known(tmp_path, f'7,name,"{value}"'), f"{text} came.") == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Adaeze Okonkwo saw him.", ["Adaeze Okonkwo"]),
        ("OKONKWO to review", ["OKONKWO"]),
        ("Dr. Okonkow, Dr Will", ["Okonkow", "Will"]),
        ("Will follow up. Long wait, will long remain", []),
        ("seen by Will Long", ["Will Long"]),
        ("seen by W. Long", ["W. Long"]),
        ("Foley catheter; uses a Walker.", ["Foley"]),
    ],
)
def test_staff_do_not_take_away_ordinary_words(tmp_path: Path, text: str, wanted: list[str]) -> None:
    staff = known(tmp_path, ",staff,Dr. Adaeze Okonkwo MD", ",staff,Will Long", ',staff,"Foley, Ann"', ",staff,Walker")
    assert found(staff, text) == wanted
    assert found(staff, text, None) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "text", "wanted"),
    [
        ("mrn", "0012345", "MRN 12345, #00-12345; 912345, 12345.6", ["12345", "00-12345"]),
        ("mrn", "A123456", "a 123-456 or 123456", ["a 123-456", "123456"]),
        (
            "phone",
            "(555) 555-0142",
            "+1 555.555.0142, 555-0142, 5555550142",
            ["1 555.555.0142", "555-0142", "5555550142"],
        ),
        ("phone", "+49 30 5550142", "030/5550142", ["030/5550142"]),
        ("phone", "251-555-0138", "2\n5\n1\n-\n5\n5\n5\n-\n0\n1\n3\n8", ["2\n5\n1\n-\n5\n5\n5\n-\n0\n1\n3\n8"]),
        ("phone", "251-555-0138", "251\n\n555-0138", ["555-0138"]),
        (
            "address",
            "12 N. Oak Street, Springfield, IL 62704",
            "12 N Oak St., SPRINGFEILD 62704",
            ["12 N Oak St", "SPRINGFEILD", "62704"],
        ),
        ("address", "12 Oak Street", "on Oak Str, then oak st.", ["oak st"]),
        ("address", "350 5th Ave", "350 5th, 350 Fifth Av; the 5th floor", ["350 5th", "350 Fifth Av"]),
        ("address", "9 First St", "9 1st Street; the 91st percentile", ["9 1st Street"]),
        ("address", "9 21st St", "at 9 21st Street", ["9 21st Street"]),
        ("address", "PO Box 123, Lyndale", "P.O. Box 123; box 123, Box 1234", ["P.O. Box 123", "box 123"]),
        ("address", "RR 18 Box 123 Lyndale IL 62704", "box 123, Lyndale; RR 18", ["box 123", "Lyndale"]),
        (
            "address",
            "9 Oak St, ADAVILLE IL 62704",
            "Adaville 62704-1188, Adaville, IL",
            ["Adaville", "62704-1188", "Adaville, IL"],
        ),
        ("address", "Adaville West Virginia 25301", "Adaville, West wing", ["Adaville"]),
        ("address", "Washington D.C. 20001", "in Washington", ["Washington"]),
        ("address", "Port Virginia", "has a Port in Virginia", []),
        ("address", "West Virginia 25301", "West wing", []),
        ("address", "New York, NY 10118-0110", "New York 10118, York", ["New York", "10118"]),
        ("zip", "02139", "02139-1234, 02139-12345; 02139-1234-5", ["02139-1234"]),
        ("zip", "02139-1234", "02139 or 02139-5555", ["02139", "02139-5555"]),
        ("mrn", "48213", "48213-1234", []),
        ("email", "a.b@example.org", "A.B@EXAMPLE.ORG", ["A.B@EXAMPLE.ORG"]),
        ("zip", "62704-1234", "627041234", ["627041234"]),
    ],
)
def test_other_values_are_found_without_regard_to_separators(
    tmp_path: Path, kind: str, value: str, text: str, wanted: list[str]
) -> None:
    assert found(known(tmp_path, f'7,{kind},"{value}"'), text) == wanted


FORMS = (
    *("%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%m-%d-%y", "%B %d, %Y", "%d %b %Y", "%d-%b-%y", "%b. %d, '%y", "%Y%m%d"),
    *("%m%d%Y", "%d of %B %Y", "%B %dth, %Y", "%Y-%m-%dT10:30", "%d de %B de %Y", "%m%d%y", "%Y %b %d"),
)


@settings(max_examples=60)
@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), st.sampled_from(FORMS), st.booleans(), st.booleans())
def test_a_birth_date_is_found_in_every_form(
    tmp_path_factory: pytest.TempPathFactory, day: date, form: str, zeros: bool, upper: bool
) -> None:
    identifiers = known(tmp_path_factory.getbasetemp(), f"7,birthdate,{day}")
    written = day.strftime(form)
    if not zeros and not written.isdecimal():
        written = re.sub(r"\b0(?=\d\b)", "", written)
    text = f"DOB {written.upper() if upper else written}."
    matches = identifiers.find(text, "7")
    assert [(m.start, m.label, m.certainty) for m in matches] == [(4, "DATE", Certainty.WHOLE)]
    assert matches[0].end == len(text) - (7 if "T" in form else 1)
    assert not identifiers.find(text, "8")


@pytest.mark.parametrize(
    "text", ["3/5/1951", "3/6/1950", "1950", "March 5", "3/5", "May 5, 1950", "13/5/1950", "3/5\n\n1950"]
)
def test_other_days_are_not_the_birth_date(tmp_path: Path, text: str) -> None:
    assert found(known(tmp_path, "7,birthdate,1950-03-05"), text) == []
    assert found(known(tmp_path, "7,birthdate,1950-03-05T00:00:00"), "5/3/50") == ["5/3/50"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Mr. J.O. came", ["J.O."]),
        ("pt J. O. came, Patient: J.Q.O.", ["J. O.", "J.Q.O."]),
        ("pt J.\u00a0O. came, Patient: J.\u00adQ.\u200bO.", ["J.\u00a0O.", "J.\u00adQ.\u200bO."]),
        ("Patient O.J.", ["O.J."]),
        ("Mr. JO came", ["JO"]),
        ("J.O. (MRN 0048213) came", ["J.O.", "0048213"]),
        ("J.O., seen on a fine day. No other words of him.", []),
        ("J.O., of whom nothing is said, not even in these many words: MRN 0048213", ["0048213"]),
        ("pt JO; JO 0048213; a J.X. 0048213; j.o. 0048213", ["0048213", "0048213", "0048213"]),
        ("Mr. P.T. came", []),
    ],
)
def test_initials_count_only_beside_other_evidence(tmp_path: Path, text: str, wanted: list[str]) -> None:
    identifiers = known(tmp_path, "7,name,John Q. Okonkwo", "7,mrn,0048213", ",staff,Paula Tamm")
    assert [string.rstrip(".") for string in found(identifiers, text)] == [string.rstrip(".") for string in wanted]


@pytest.mark.parametrize(("value", "last"), [("BELL, ANNA M.", "B"), ("Bell Jr., Anna M.", "B"), ("Anna M. Bell", "B")])
def test_initials_are_those_of_the_name_as_it_is_spoken(tmp_path: Path, value: str, last: str) -> None:
    identifiers = known(tmp_path, f'7,name,"{value}"')
    assert found(identifiers, f"pt A.{last}. came, pt A.M.{last}. too") == [f"A.{last}", f"A.M.{last}"]
    assert found(identifiers, "pt B.M. came, pt A.M. came") == []


def test_what_is_known_of_one_patient_is_not_searched_in_the_notes_of_another(tmp_path: Path) -> None:
    identifiers = known(tmp_path, "7,name,Adaeze Okonkwo", ",hospital,Lindenhof")
    assert found(identifiers, "Okonkwo, Lindenhof", "8") == ["Lindenhof"]
    assert found(identifiers, "Okonkwo", None) == []


def slow_distance(a: str, b: str) -> int:
    """Return the number of edits, with exchanged neighbours as one (optimal string alignment), by its definition."""
    if not a or not b:
        return len(a) + len(b)
    least = min(slow_distance(a[1:], b) + 1, slow_distance(a, b[1:]) + 1, slow_distance(a[1:], b[1:]) + (a[0] != b[0]))
    if len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0]:
        least = min(least, slow_distance(a[2:], b[2:]) + 1)
    return least


@given(st.text("ab", max_size=5), st.text("ab", max_size=5))
def test_one_edit_is_what_the_definition_says(a: str, b: str) -> None:
    assert within_one_edit(a, b) == (slow_distance(a, b) <= 1)


@given(st.lists(st.text("abc", min_size=1, max_size=8), max_size=8), st.text("abc", min_size=1, max_size=8))
def test_typos_are_those_of_a_comparison_with_every_word(words: list[str], word: str) -> None:
    near = sorted({w for w in words if len(w) > 5 and w != word and within_one_edit(word, w)})
    assert Typos(words).near(word) == near


def slow_strings(values: list[str], text: str) -> set[tuple[int, int]]:
    """Return the longest occurrence of a value of 7 characters or more at each word, by trying all of them."""
    words = Words.of(text)
    occurrences: set[tuple[int, int]] = set()
    for first in range(len(words)):
        fitting = []
        for last in range(first, len(words)):
            gaps = [text[words.ends[k] : words.starts[k + 1]] for k in range(first, last)]
            value = "".join(words.folded[first : last + 1])
            if value in values and all(len(gap.strip()) < 4 and len(gap) < 7 and gap.count("\n") < 2 for gap in gaps):
                fitting.append(last)
        if fitting:
            occurrences.add((first, max(fitting)))
    return occurrences


@given(
    st.lists(st.text("1a", min_size=7, max_size=9), max_size=4),
    st.lists(st.sampled_from(["1", "1a", "aa", "11a1", "a1a1a1a", "-", " ", "\n", ". ", "-----"]), max_size=30),
)
def test_strings_are_found_as_a_slow_search_finds_them(values: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    index = StringIndex((value, number) for number, value in enumerate(values))
    assert {(first, last) for first, last, _ in index.find(Words.of(text))} == slow_strings(values, text)


@given(st.text(max_size=60))
def test_words_have_the_offsets_of_what_they_stand_for(text: str) -> None:
    words = Words.of(text)
    position = 0
    for number, (folded, start, end) in enumerate(zip(words.folded, words.starts, words.ends, strict=True)):
        assert position <= start < end <= len(words.text)
        assert folded
        assert compacted(words.text[start:end]) == folded or not words.text[start:end].isascii()
        first, after = words.original(number, number)
        assert 0 <= first < after <= len(text)
        position = start
    assert words.compact == "".join(words.folded)


DIGITS = st.text("0123456789", min_size=7, max_size=10).filter(lambda number: number[0] != "0")


@settings(max_examples=60)
@given(DIGITS, st.lists(st.sampled_from(["", "-", " ", ".", ") ", "/", "\n"]), min_size=10, max_size=10), st.booleans())
def test_a_number_is_found_whatever_separates_its_digits(
    tmp_path_factory: pytest.TempPathFactory, number: str, separators: list[str], upper: bool
) -> None:
    identifiers = known(tmp_path_factory.getbasetemp(), f"7,mrn,{number}")
    written = "".join(digit + gap for digit, gap in zip(number, separators, strict=False)).rstrip("-. )/\n")
    text = f"{'MRN' if upper else 'Id:'} {written} was read"
    (match,) = identifiers.find(text, "7")
    assert (match.start, match.end) == (4, 4 + len(written))


SURNAMES = st.sampled_from(["Okonkwo", "Wójcicki", "Ibáñez", "Nguyễnová", "Szymańska", "Featherstonehaugh"])


@st.composite
def variants(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a surname, and a way to write it: with another case, without accents, with one typing error."""
    name = draw(SURNAMES)
    written = draw(st.sampled_from([str, str.upper, str.lower, lambda s: unicodedata.normalize("NFD", s)]))(name)
    if draw(st.booleans()):
        decomposed = unicodedata.normalize("NFD", written)
        written = "".join(c for c in decomposed if not unicodedata.combining(c))
    if draw(st.booleans()) and unicodedata.normalize("NFC", written) == written:
        at = draw(st.integers(1, len(written) - 2))
        edits = (
            written[:at] + written[at + 1 :],
            written[:at] + "x" + written[at:],
            written[:at] + "x" + written[at + 1 :],
            written[:at] + written[at + 1] + written[at] + written[at + 2 :],
        )
        written = draw(st.sampled_from(edits))
    return name, written


@settings(max_examples=100)
@given(variants(), st.sampled_from(["", "Seen: ", "…ß ", "“"]), st.sampled_from(["", ".", "'s wife", "\n"]))
def test_a_variant_of_a_name_is_found_with_its_offsets(
    tmp_path_factory: pytest.TempPathFactory, variant: tuple[str, str], before: str, after: str
) -> None:
    name, written = variant
    identifiers = known(tmp_path_factory.getbasetemp(), f"7,name,{name}")
    matches = identifiers.find(before + written + after, "7")
    assert [(m.start, m.end) for m in matches] == [(len(before), len(before) + len(written))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "known.csv: is empty"),
        ("patient,kind,value\n", "known.csv:1: there is no column 'patient_id'"),
        ("patient_id,kind,value\n7,name,Zyxw\n7,nickname,Zyxw\n", "known.csv:3: the kind is none of name, relative"),
        ("patient_id,kind,value\n,name,Zyxw\n", "known.csv:2: this kind of identifier needs a patient_id"),
        ("patient_id,kind,value\n7,mrn,12\n", "known.csv:2: the value has 2 letters and digits; 4 are needed"),
        ("patient_id,kind,value\n7,name,4 A\n", "known.csv:2: no part of the name has two letters"),
        ('patient_id,kind,value\n7,name,"ab\ncd"\n7,name\n', "known.csv:4: the row has 2 cells, the header 3"),
        ('patient_id,kind,value\n7,name,"Zyxw"v\n', "known.csv:2: the row's quotes"),
        ("patient_id,kind,value\n7,name,Zyxw\0\n", "known.csv: byte 33 is NUL"),
    ],
)
def test_errors_name_file_and_line_and_quote_nothing(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "known.csv").write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=re.escape(message)) as error:
        KnownIdentifiers.read(tmp_path / "known.csv", labels=LABELS)
    assert "Zyxw" not in str(error.value)


def test_errors_of_allow_and_deny_lists(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    for content, message in (
        ("label,value\nno label,Zyxw\n", ":2: its type is none"),
        ("label,value\nCITY,.\n", ":2: the value"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(CorpusError, match=re.escape(f"{path}{message}")):
            SiteLists.read(deny=path, labels=LABELS)
    path.write_text("# nothing\n\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="has no entries"):
        SiteLists.read(allow=path, labels=LABELS)
    with pytest.raises(ConfigError, match="strict"):
        SiteLists.read(allow=path, strict=True, labels=LABELS)


@pytest.fixture
def lists(tmp_path: Path) -> SiteLists:
    (tmp_path / "allow.txt").write_text("# devices\nSt. Jude\nOkonkwo clip\n", encoding="utf-8")
    (tmp_path / "deny.tsv").write_text("label\tvalue\nHOSPITAL\tUnit 7-West\n", encoding="utf-8")
    rows = ("8,relative,Jude Ames", "7,name,May Okonkwo", '7,phone,"(555) 555-0142"', ",staff,Ann Lindqvist")
    return SiteLists(
        known(tmp_path, *rows),
        SiteLists.read(allow=tmp_path / "allow.txt", labels=LABELS).allow,
        SiteLists.read(deny=tmp_path / "deny.tsv", labels=LABELS).deny,
    )


def spans(document: Document) -> list[tuple[str, str]]:
    return [(document.text[span.start : span.end], span.label) for span in document.spans]


def marked(text: str, *found: tuple[str, str], patient: str | None = "7") -> Document:
    places = ((text.index(surface), surface, label) for surface, label in found)
    return Document("n", text, tuple(Span(at, at + len(s), label, 0.9) for at, s, label in places), patient_id=patient)


def test_lists_change_the_spans_of_a_note(lists: SiteLists) -> None:
    counts: Counter[str] = Counter()
    note = marked(
        "Okonkwo clip, ST JUDE valve, unit 7 west. Call 555 555 0142, May 3, Lindqvist of Bern.",
        ("Okonkwo clip", "HOSPITAL"),
        ("ST JUDE", "HOSPITAL"),
        ("May 3", "DATE"),
        ("Lindqvist of Bern", "HOSPITAL"),
    )
    assert spans(lists.apply(note, counts)) == [
        ("Okonkwo clip", "PATIENT"),
        ("unit 7 west", "HOSPITAL"),
        ("555 555 0142", "PHONE"),
        ("May 3", "DATE"),
        ("Lindqvist of Bern", "HOSPITAL"),
    ]
    assert counts["allow list: line 2 kept"] == 1
    assert counts["allow list: line 3 kept"] == 0
    assert counts["deny list: line 2 removed"] == 1
    assert (counts[MATCHED], counts[MISSED], counts[UNKNOWN]) == (4, 1, 0)
    # The list of known identifiers wins over what is allowed.
    assert spans(lists.apply(marked("St. Jude", ("St. Jude", "HOSPITAL")))) == []
    assert spans(lists.apply(marked("St. Jude", ("St. Jude", "HOSPITAL"), patient="8"))) == [("St. Jude", "PATIENT")]
    assert not any("Jude" in name or "Okonkwo" in name for name in counts)


def test_a_deny_list_ignores_case_and_strokes(tmp_path: Path) -> None:
    (tmp_path / "deny.csv").write_text("label,value\nCITY,Møllerby\nCITY,Анна\n", encoding="utf-8")
    lists = SiteLists.read(deny=tmp_path / "deny.csv", labels=LABELS)
    for text in ("in MOLLERBY", "in mollerby", "из Самары АННА", "из Самары анна"):
        assert len(lists.places(Document("n", text, ()))) == 1


def test_no_lists_change_nothing() -> None:
    note = marked("Anna Bell", ("Anna", "PATIENT"), ("Anna Bell", "DOCTOR"))
    assert SiteLists().apply(note) is note


def test_the_output_is_searched(lists: SiteLists) -> None:
    note = marked("Okonkwo saw Lindqvist, 555-0142", ("Lindqvist", "DOCTOR"))

    def left(style: str, document: Document, **styles: str) -> int:
        replacer = Replacer.from_options(style, styles, key=KEY)
        taken = lists.taken("7")
        return lists.left(document, replacer.replace(document, taken=taken), replacer)[LEFT]

    assert left("tag", note) == 2
    assert left("tag", lists.apply(note)) == 0
    assert left("surrogate", lists.apply(note)) == 0
    # Staff may stay where their label does; the patient under a label that is not the patient's may not.
    assert left("tag", lists.apply(note), DOCTOR="keep") == 0
    other = marked("May Okonkwo", ("May Okonkwo", "HOSPITAL"))
    assert left("tag", other, HOSPITAL="keep") == 1
    assert left("tag", lists.apply(other), HOSPITAL="keep") == 0


def kept(lists: SiteLists, text: str, surface: str, label: str, **styles: str) -> tuple[str, int]:
    """Return what becomes of a text in which the model found one string, and how many identifiers are left in it."""
    start = text.index(surface)
    replacer = Replacer.from_options("tag", styles, key=KEY)
    note = Document("a", text, (Span(start, start + len(surface), label, 0.9),), patient_id="7")
    done = replacer.replace(lists.apply(note, hides=replacer.styles.hides), taken=lists.taken("7"))
    return done.text, lists.left(note, done, replacer)[LEFT]


@pytest.mark.parametrize(
    ("surface", "label", "style", "new"),
    [
        ("Bell 3/4/2019", "DATE", "keep", "[PATIENT]"),
        ("Bell 3/4/2019", "DATE", "year", "[PATIENT]"),
        ("Bell 3/4/2019", "DATE", "tag", "[DATE]"),
        ("Bell 45", "AGE", "keep", "[PATIENT]"),
        ("Bell 45", "AGE", "cap-age", "[PATIENT]"),
        ("Bell 62704", "ZIP", "keep", "[PATIENT]"),
        ("Bell 62704", "CITY", "keep", "[PATIENT]"),
        ("3 Bell St", "CITY", "keep", "[PATIENT]"),
        ("Okonkwo 3/4/2019", "DATE", "keep", "[DOCTOR]"),
        ("Okonkwo 45", "AGE", "keep", "[DOCTOR]"),
        ("May 3", "DATE", "keep", "May 3"),
        ("May 3, 2019", "DATE", "year", "2019"),
        ("May 45", "AGE", "keep", "[PATIENT]"),
        ("Okonkwo", "CITY", "keep", "Okonkwo"),
        ("Lyndale", "CITY", "keep", "Lyndale"),
        ("Lyndale", "PATIENT", "tag", "[PATIENT]"),
        ("Ann of Lyndale", "PATIENT", "tag", "[PATIENT]"),
    ],
)
def test_no_known_name_is_handed_out_under_a_label_that_shows_its_spans(
    tmp_path: Path, surface: str, label: str, style: str, new: str
) -> None:
    rows = ('7,name,"BELL, ANNA MAY"', ",staff,Adaeze Okonkwo", "7,city,Lyndale")
    lists = SiteLists(known(tmp_path, *rows))
    # Known places may be handed out here, but not a name that has become one span with one of them.
    text, left = kept(lists, f"Seen {surface} here", surface, label, **{"CITY": "keep", label: style})
    assert text == f"Seen {new} here"
    assert left == 0


def test_a_known_name_that_is_kept_is_counted(tmp_path: Path) -> None:
    lists = SiteLists(known(tmp_path, '7,name,"BELL, ANNA MAY"', ",staff,Adaeze Okonkwo"))
    replacer = Replacer.from_options("tag", {"DATE": "keep", "CITY": "keep"}, key=KEY)

    def left(text: str, label: str) -> int:
        note = Document("a", text, (Span(0, len(text), label),), patient_id="7")
        return lists.left(note, replacer.replace(note), replacer)[LEFT]

    assert [left("Bell 3/4/2019", "DATE"), left("Okonkwo 3/4/2019", "DATE"), left("Bell", "CITY")] == [1, 1, 1]
    assert [left("May 3", "DATE"), left("Okonkwo", "CITY"), left("Will 3/4/2019", "DATE")] == [0, 0, 0]


def test_a_long_staff_list_is_searched_at_once(tmp_path: Path) -> None:
    """The number of look-ups depends on the words of the text, not on the number of names."""
    rows = [
        f",staff,{chr(97 + k % 26)}uz{k:05d}".translate(str.maketrans("0123456789", "qvxzjkwypf")) for k in range(5000)
    ]
    identifiers = known(tmp_path, *rows)
    matcher = identifiers._everywhere._names
    assert len(matcher.people) == 5000
    text = " ".join(["the patient was seen"] * 300)
    assert found(identifiers, text) == []
    assert len(matcher._seen) == 4


BROKEN = {
    "a line-end hyphen": "Seen: Okon-\nkwo today.",
    "a line-end hyphen in capitals": "SEEN: OKON-\nKWO TODAY.",
    "a zero-width space": "Seen: Oko\u200bnkwo today.",
    "a grapheme joiner": "Seen: Oko\u034fnk\u034fwo today.",
    "dots": "Seen: O.k.o.n.k.w.o today.",
    "middle dots": "Seen: O·k·o·n·k·w·o today.",
    "letter-spacing": "Seen: O k o n k w o today.",
    "letters one a line": "Seen:\nO\nk\no\nn\nk\nw\no\ntoday.",
    "Cyrillic letters": "Seen: \u041e\u043a\u043en\u043aw\u043e today.",
    "a zero for o": "Seen: 0konkw0 today.",
    "a zero inside": "Seen: Ok0nkwo today.",
    "a blank inside": "Seen: Oko nkwo today.",
    "a hyphen inside": "Seen: Oko-nkwo today.",
    "entities": "Seen: &#79;konkwo today.",
    "tags": "Seen: <b>Oko</b>nkwo today.",
    "full-width": "Seen: \uff2f\uff4b\uff4f\uff4e\uff4b\uff57\uff4f today.",
    "a record number with a comma": "Record 48,213 is hers.",
    "a record number with a full stop": "Record 48.213 is hers.",
    "a record number with a slash": "Record 48/213 is hers.",
    "a record number in Arabic digits": "Record \u0664\u0668\u0662\u0661\u0663 is hers.",
    "a record number in full-width digits": "Record \uff14\uff18\uff12\uff11\uff13 is hers.",
    "a record number with l for 1": "Record 482l3 is hers.",
    "a Roman month": "Born 5-III-1950 in town.",
    "a Roman day": "Born V.III.1950 in town.",
    "a German date": "Born 5. März 1950 in town.",
    "a German date without an umlaut": "Born 05. Maerz 1950 in town.",
    "a French date": "Born 5 mars 1950 in town.",
    "an Italian date": "Born 5 mar. 1950 in town.",
    "a Portuguese date": "Born 5 de março de 1950 in town.",
    "a Dutch date": "Born 5 mrt 1950 in town.",
    "a date in words": "Born on the fifth of March, nineteen fifty, in town.",
    "a date in words, month first": "Born March fifth nineteen hundred and fifty in town.",
    "a date with a year in words": "Born March 5, nineteen-fifty in town.",
    "a date in Spanish words": "Born el cinco de marzo de mil novecientos cincuenta in town.",
    "a date with en dashes": "Born 5\u20133\u20131950 in town.",
}


@pytest.mark.parametrize("form", BROKEN)
def test_what_is_known_is_found_however_it_is_broken(tmp_path: Path, form: str) -> None:
    identifiers = known(tmp_path, "7,name,Adaeze Okonkwo", "7,mrn,48213", "7,birthdate,1950-03-05")
    text = BROKEN[form]
    matches = [match for match in identifiers.find(text, "7") if match.certainty > Certainty.WEAK]
    assert matches
    rest = text
    for match in reversed(matches):
        rest = rest[: match.start] + "[X]" + rest[match.end :]
    kept = set(re.sub(r"[\W_]+", " ", rest).split())
    assert kept <= {"X", *"Seen SEEN today TODAY Record is hers Born on the el in town b".split()}
    assert not [match for match in identifiers.find(rest, "7") if match.certainty > Certainty.WEAK]


@pytest.mark.parametrize("text", ["1º de março de 1950", "1er mars 1950", "Ersten März 1950", "primo marzo 1950"])
def test_the_first_of_a_month_has_a_word_of_its_own(tmp_path: Path, text: str) -> None:
    assert found(known(tmp_path, "7,birthdate,1950-03-01"), text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        *("He may or may not come.", "They met at one.", "Born 5/1950.", "Room 48 and 213 beds."),
        *("Pressure 148/213.", "the fifth of March 1951"),
    ],
)
def test_what_is_not_known_is_left(tmp_path: Path, text: str) -> None:
    rows = ("7,name,Ina Mayor", "7,name,Vera Atone", "7,mrn,48213", "7,birthdate,1950-03-05")
    identifiers = known(tmp_path, *rows)
    assert not [match for match in identifiers.find(text, "7") if match.certainty > Certainty.WEAK]
