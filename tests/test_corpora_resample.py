"""Resampled copies: offsets stay true, nothing of the original stays, a patient stays consistent."""

import re
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.resample import resample_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.affixes import name_tokens
from ensemble_deid.surrogates.date_forms import is_day_first

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
@settings(max_examples=60)
def test_offsets_stay_true_and_no_string_stays(originals: list[Document], seed: int) -> None:
    copies = resample_corpus(originals, copies=1, seed=seed)
    for original, copy in zip(originals, copies, strict=True):
        assert [span.label for span in copy.spans] == [span.label for span in original.spans]
        shift = cursor = 0
        for old, new in zip(original.spans, copy.spans, strict=True):
            assert new.start == old.start + shift
            assert original.text[cursor : old.start] == copy.text[cursor + shift : new.start]
            surface = original.text[old.start : old.end]
            # An age may be the only one of its form, and what has neither letters nor digits tells nothing.
            stays = old.label == "AGE" or not any(map(str.isalnum, surface))
            assert stays or surface != copy.text[new.start : new.end]
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


def test_what_has_no_surrogate_becomes_another_value_of_the_corpus() -> None:
    sexes = [marked((sex, "SEXO_SUJETO_ASISTENCIA"), name=f"{i}-01") for i, sex in enumerate(["mujer", "Varón"])]
    assert [values(note) for note in resample_corpus(sexes, copies=1, seed=1)] == [["varón"], ["mujer"]]
    ages = [
        marked((age, "AGE"), name=f"{i}-01") for i, age in enumerate(["45", "97", "3 months", "Forty-two", "sixty-one"])
    ]
    fresh = [values(note) for note in resample_corpus(ages, copies=1, seed=1)]
    assert fresh == [["97"], ["45"], ["3 months"], ["sixty-one"], ["forty-two"]]


def test_dates_stay_dates_and_as_far_apart_even_where_they_show_a_great_age() -> None:
    note = marked(("4/2/1911", "DATE"), " ", ("94", "AGE"), " ", ("5/4/2005", "DATE"), " ", ("not a date", "DATE"))
    for seed in range(10):
        born, _, seen, other = values(resample_corpus([note], copies=1, seed=seed)[0])
        days = [date(int(year), int(month), int(day)) for month, day, year in (d.split("/") for d in (born, seen))]
        assert days[1] - days[0] == date(2005, 5, 4) - date(1911, 4, 2)
        assert other in ("4/2/1911", "5/4/2005")


def test_the_order_of_day_and_month_is_told_by_the_corpus() -> None:
    assert is_day_first(iter(["14/05/2016", "3/4/2016"]))
    assert not is_day_first(iter(["05/14/2016", "3/4/2016"]))
    notes = [marked(("14/05/2016", "DATE"), name="1-01"), marked(("03/04/2016", "DATE"), " ", ("3 April 2016", "DATE"))]
    for seed in range(10):
        day, written = values(resample_corpus(notes, copies=1, seed=seed)[1])
        assert int(day[:2]) == int(written.split()[0])


def test_at_least_one_copy_is_made() -> None:
    with pytest.raises(ConfigError, match="copies must be at least 1"):
        resample_corpus([], copies=0, seed=1)
