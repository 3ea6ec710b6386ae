"""Resampled copies: offsets stay true, nothing of the original stays, a patient stays consistent."""

import ast
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.resample import resample_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import Span
from ensemble_deid.seeds import generator
from ensemble_deid.surrogates.ages import AgeShift
from ensemble_deid.surrogates.codes import CodeMap
from ensemble_deid.surrogates.dates import DateShift, is_day_first
from ensemble_deid.surrogates.patient import ENGLISH, Origins
from ensemble_deid.surrogates.persons import PersonMap, name_tokens
from ensemble_deid.surrogates.source import ValueSource

pytest.importorskip("faker")
PACKAGE = Path(__file__).parents[1] / "ensemble_deid"
SURFACES = [
    "Ada Strong", "STRONG, ADA", "strong", "SamLee", "O'Brien-McDonald", "J. R. Núñez", "KL", "R", "II", "5/4/2091",
    "05/04/91", "4/5", "May", "Mondays", "the 7th", "Feb 29, 2088", "31-Jan-2070", "winter of 2061", "Christmas Eve",
    "'70s", "2040s", "20880229", "13/45", "Lent", "70", "three", "Forty-two", "029", "newborn", "4 West", "GPUH", "St.",
    "1400 S. Oak St, Apt 2R", "US-491", "WA", "N.H.", "new york", "U.S.", "98362", "a@b.example", "http://x.example/1",
    "10.0.0.1", "x4471", "(360) 555-0148", "900-12-4471", "004-31-77", "V00-418", "4", "00", "?!", "½", "日本", "ß",
    "ǅ", "kstrong4", "welder", "I-55", "P.O. Box 88", "of the", "a", "\u0130", "Åse\nLindqvist",
]  # fmt: skip


@st.composite
def notes(draw: st.DrawFn) -> list[Document]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        text, spans = "", []
        for surface, label, between in draw(
            st.lists(
                st.tuples(
                    st.one_of(st.sampled_from(SURFACES), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
                    st.sampled_from((*I2B2_TYPES, "FECHAS", "UNHEARD")),
                    st.text(max_size=5),
                ),
                max_size=6,
            )
        ):
            text += between
            spans.append(Span(len(text), len(text) + len(surface), label))
            text += surface
        made.append(Document(f"7-{number:02d}", text, tuple(spans), patient_id="7"))
    return made


@given(originals=notes(), seed=st.integers(0, 5))
@settings(max_examples=150)
def test_offsets_stay_true_and_no_string_stays(originals: list[Document], seed: int) -> None:
    copies = resample_corpus(originals, copies=1, seed=seed)
    for original, copy in zip(originals, copies, strict=True):
        assert [span.label for span in copy.spans] == [span.label for span in original.spans]
        shift = cursor = 0
        for old, new in zip(original.spans, copy.spans, strict=True):
            assert new.start == old.start + shift
            assert original.text[cursor : old.start] == copy.text[cursor + shift : new.start]
            assert original.text[old.start : old.end] != copy.text[new.start : new.end]
            shift, cursor = new.end - old.end, old.end
        assert original.text[cursor:] == copy.text[cursor + shift :]


def marked(*pieces: str | tuple[str, str], name: str = "7-01") -> Document:
    text, spans = "", []
    for piece in pieces:
        if isinstance(piece, tuple):
            spans.append(Span(len(text), len(text) + len(piece[0]), piece[1]))
            text += piece[0]
        else:
            text += piece
    return Document(name, text, tuple(spans), patient_id=name[:1])


def values(document: Document) -> list[str]:
    return [document.text[span.start : span.end] for span in document.spans]


def test_one_seed_gives_one_corpus_and_copies_differ() -> None:
    notes = [marked("Ms. ", ("Ada Strong", "PATIENT"), " on ", ("5/4/2091", "DATE")), marked("x", name="8-01")]
    once = resample_corpus(notes, copies=2, seed=3)
    assert once == resample_corpus(notes, copies=2, seed=3)
    assert once != resample_corpus(notes, copies=2, seed=4)
    assert [note.id for note in once] == ["7-01-c1", "8-01-c1", "7-01-c2", "8-01-c2"]
    assert [note.group for note in once] == ["7", "8", "7", "8"]
    assert values(once[0]) != values(once[2])
    assert once[0].metadata["copy"] == "1"


def test_a_person_keeps_one_name_in_every_note_of_the_patient() -> None:
    first = marked(("STRONG, ADA", "PATIENT"), " Mrs. ", ("Strong", "PATIENT"), " ", ("ada", "PATIENT"), name="7-01")
    second = marked(
        ("A. Strong", "PATIENT"), " ", ("astrong@x.example", "EMAIL"), " ", ("Ada\nStrong", "DOCTOR"), name="7-02"
    )
    for seed in range(5):
        one, two = (values(note) for note in resample_corpus([first, second], copies=1, seed=seed))
        family, given_name = re.fullmatch(r"(\S+), (\S+)", one[0]).groups()  # type: ignore[union-attr]
        assert family.isupper()
        assert family[0] != "S"
        assert given_name[0] != "A"
        assert one[1].upper() == family
        assert one[2].upper() == given_name
        assert one[2].islower()
        assert (two[0][0], two[0][3:].upper()) == (given_name[0], family)
        assert two[-1].upper() == f"{given_name}\n{family}"


def test_numbers_are_the_same_however_they_are_written() -> None:
    note = marked(
        ("88-02-1949", "MEDICALRECORD"), " ", ("88021949", "MEDICALRECORD"), " ", ("1949", "MEDICALRECORD"), " ",
        ("900-12-4471", "SSN"), " ", ("(360) 555-0148 x22", "PHONE"), " ", ("GS84-20917", "IDNUM"),
    )  # fmt: skip
    for seed in range(5):
        dashed, plain, last, ssn, phone, code = values(resample_corpus([note], copies=1, seed=seed)[0])
        assert re.fullmatch(r"\d\d-\d\d-\d{4}", dashed)
        assert dashed.replace("-", "") == plain
        assert plain.endswith(last)
        assert re.fullmatch(r"9\d\d-\d\d-\d{4}", ssn)
        assert re.fullmatch(r"\([1-9]\d\d\) 555-\d{4} x\d\d", phone)
        assert re.fullmatch(r"[A-Z]{2}\d\d-\d{5}", code)


def test_dates_keep_their_form_and_distance() -> None:
    forms = ("%m/%d/%Y", "%Y-%m-%d", "%B %d, %Y", "%d-%b-%Y", "%m-%d-%y", "%d %B %Y", "%A, %B %d, %Y")
    unpadded = re.compile(r"(?<=[a-z] )0|^0(?=\d [A-Z]|\d-[A-Z])")
    day = date(2077, 3, 14)
    for seed in range(20):
        shift = DateShift(generator(seed, "dates"))
        moved = date.fromordinal(day.toordinal() + shift.days)
        for form in forms:
            fresh = shift.replace(day.strftime(form), year=2077)
            # Beside the name of a month, 14 does not tell whether 4 would have been written 04.
            assert fresh == unpadded.sub("", moved.strftime(form))
        assert shift.replace("3/14", year=2077) == f"{moved.month}/{moved.day}"
        assert shift.replace("MARCH 2077", year=2077).isupper()


@pytest.mark.parametrize(
    "surface",
    [
        "May", "may", "SEPT", "Sun", "mondays", "2077", "'77", "the 2040s", "fall", "Winter 2080", "Christmas",
        "late May",
        "New Year’s Eve", "5/2088", "3rd", "Sat 2/29", "16 de mayo de 2016", "early '70s", "Ash Wednesday", "feb 98",
    ],
)  # fmt: skip
def test_no_part_of_a_date_stays(surface: str) -> None:
    for seed in range(60):
        moved = DateShift(generator(seed, "dates")).replace(surface, year=2088)
        assert moved.casefold() != surface.casefold()
        assert moved.islower() == surface.islower()


def test_weekdays_follow_the_dates() -> None:
    for seed in range(20):
        shift = DateShift(generator(seed, "dates"))
        moved = date.fromordinal(date(2078, 8, 18).toordinal() + shift.days)
        assert shift.replace("Thursdays", year=2078) == moved.strftime("%As")
        assert shift.replace("Thu, Aug 18, 2078", year=2078) == moved.strftime("%a, %b ") + f"{moved.day}, {moved.year}"


def test_the_order_of_day_and_month_is_told_by_the_corpus() -> None:
    assert is_day_first(iter(["14/05/2016", "3/4/2016"]))
    assert not is_day_first(iter(["05/14/2016", "3/4/2016"]))
    shift = DateShift(generator(1, "dates"), day_first=True)
    moved = date.fromordinal(date(2016, 5, 4).toordinal() + shift.days)
    assert shift.replace("04/05/2016", year=2016) == moved.strftime("%d/%m/%Y")


def test_ages_stay_ages() -> None:
    for seed in range(20):
        shift = AgeShift(generator(seed, "ages"))
        assert int(shift.replace("70")) - 70 == shift.years
        assert shift.replace("40", following="s") in ("30", "50")
        assert shift.replace("1") == "2"
        assert abs(int(shift.replace("109"))) <= 110
        assert shift.replace("Forty-two")[0].isupper()
        assert shift.replace("forty two") != "forty two"
        assert shift.replace("diez") in ("nueve", "once")
        assert len(shift.replace("029")) == 3


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("SamLee", ["Sam", "Lee"]),
        ("Mary McDonald", ["Mary", "McDonald"]),
        ("O'Brien-DeSouza", ["O'Brien", "DeSouza"]),
        ("J.R.Núñez", ["J", "R", "Núñez"]),
        ("LEE", ["LEE"]),
        ("MUÑOZ GARCÍA, JOSÉ", ["MUÑOZ", "GARCÍA", "JOSÉ"]),
        ("MÜLLER", ["MÜLLER"]),
        ("SamÁlvarez", ["Sam", "Álvarez"]),
    ],
)
def test_names_fall_into_parts(name: str, parts: list[str]) -> None:
    assert [name[start:end] for start, end in name_tokens(name)] == parts


def test_initials_and_log_in_names_follow_the_person() -> None:
    for seed in range(10):
        source = ValueSource(generator(seed, "x"), home="en_US", origins=("en_US",))
        persons = PersonMap(source, ["Hope Adeyemi", "HA"])
        given_name, family = persons.replace("Hope Adeyemi").split()
        assert persons.replace("HA") == given_name[0] + family[0]
        assert persons.replace_handle("hadeyemi7") == f"{given_name[0]}{family}7".lower().replace("'", "")
        assert persons.replace_handle("klm42") is None


def test_every_last_digit_changes() -> None:
    for seed in range(200):
        codes = CodeMap(generator(seed, "codes"))
        assert codes.replace("12-9", "IDNUM")[-1] != "9"
        assert codes.replace("4", "IDNUM") != "4"
        assert codes.replace("10.0.0.1", "IPADDR") != "10.0.0.1"


def test_places_keep_their_generic_words_and_abbreviations_follow() -> None:
    note = marked(
        ("Great Prairie University Hospital", "HOSPITAL"), " ", ("GPUH", "HOSPITAL"), " ", ("IL", "STATE"), " ",
        ("Illinois", "STATE"), " ", ("12 Elm St", "STREET"), " ", ("Elm St", "STREET"),
    )  # fmt: skip
    for seed in range(10):
        long, short, abbreviated, state, street, part = values(resample_corpus([note], copies=1, seed=seed)[0])
        assert long.startswith("Great ")
        assert long.endswith(" University Hospital")
        assert short == f"G{long.split()[1][0]}UH"
        assert len(abbreviated) == 2
        assert len(state) > 3
        assert street.endswith(part)
        assert part.endswith(" St")


def test_overlapping_spans_are_replaced_as_one() -> None:
    note = Document("n", "Ada Strong Hospital!", (Span(0, 10, "PATIENT"), Span(4, 19, "HOSPITAL")))
    (copy,) = resample_corpus([note], copies=1, seed=1)
    (span,) = copy.spans
    assert (span.start, span.label, copy.text[span.end :]) == (0, "HOSPITAL", "!")
    assert "Strong" not in copy.text


def test_other_values_come_from_the_corpus() -> None:
    pieces = [marked((sex, "SEXO_SUJETO_ASISTENCIA"), name=f"{i}-01") for i, sex in enumerate(["mujer", "Varón"])]
    assert [values(note) for note in resample_corpus(pieces, copies=1, seed=1)] == [["varón"], ["mujer"]]


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(ConfigError, match="copies must be at least 1"):
        resample_corpus([], copies=0, seed=1)
    note = marked(("Ada Strong", "PATIENT"))
    with pytest.raises(ConfigError, match="Faker has no locale 'xx_XX'"):
        resample_corpus([note], copies=1, seed=1, origins=Origins("en_US", ("xx_XX",)))


def test_pools_are_the_same_in_every_process_and_in_any_order() -> None:
    code = """
import sys
from ensemble_deid.seeds import generator
from ensemble_deid.surrogates.source import ValueSource
source = ValueSource(generator(1, "x"), home="it_IT", origins=("it_IT",))
drawn = {name: getattr(source, name)("X") for name in sys.argv[1:]}
source = ValueSource(generator(1, "x"), home="it_IT", origins=("it_IT",))
print([[source.city("X"), source.job("X"), source.state("X")] for _ in range(5)])
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, *order],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed, order in [("1", ("city", "job", "state")), ("2", ("state", "job", "city"))]
    }
    assert len(outputs) == 1


def test_names_are_of_several_origins() -> None:
    assert len(set(ENGLISH.names)) >= 10


def test_no_feature_or_tagger_shares_the_source_of_the_names() -> None:
    """A gazetteer from Faker would know the resampled names before it has seen them: the score would be a mirage."""
    importers = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(module.split(".")[0] == "faker" for module in modules):
                importers.append(path.relative_to(PACKAGE).parts[0])
            if any(module.startswith("ensemble_deid.surrogates") for module in modules):
                assert path.relative_to(PACKAGE).parts[0] in ("corpora", "surrogates", "deidentify", "cli")
    assert set(importers) == {"surrogates"}
