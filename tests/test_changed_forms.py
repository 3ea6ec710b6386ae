"""Notes in changed forms, end to end: what is known, found or repeated is replaced whole, and nothing else changes."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_keys import KEY
from marked_notes import marked_note

from benchmarks.forms import FORMS
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.known.words import compacted
from ensemble_deid.deidentify.one_pass import HARD_FORM, DeidentificationResult, finish_alone
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import read
from ensemble_deid.note.span import Span

LABELS = ("PATIENT", "DOCTOR", "MEDICALRECORD", "PHONE", "CITY", "DATE")
NOTE = marked_note(
    "Seen by Dr. <DOCTOR|Hidalgo> in the clinic, MRN <MEDICALRECORD|4821377>.\n"
    "Her brother <PATIENT|Edward Tamblyn> drove her from <CITY|Springfield>, blood pressure was stable.\n"
    "Call <PHONE|251-555-0138> when the labs are back. <PATIENT|Tamblyn> and <DOCTOR|Hidalgo> agree with the plan.\n"
)
KNOWN = ("7,name,Edward Tamblyn", "7,mrn,4821377", "7,phone,251-555-0138", ",staff,Dr. Hidalgo", "7,city,Springfield")
STYLES = ("tag", "mask", "remove", "surrogate")
# Their characters stand for one of the note's each, and are replaced together or not at all.
SOLID = (
    "HTML numeric entities",
    "HTML named entities, escaped twice",
    "full-width",
    "mathematical bold",
    "acute on every letter",
    "stroke through every letter",
    "Cyrillic look-alikes",
    "superscript digits",
    "Arabic-Indic digits",
)
LOOSE = (
    "U+200B inside words",
    "U+200B between letters of PHI",
    "U+034F inside words",
    "letter-spaced PHI",
    "letter-spaced",
    "letters of PHI one a line",
    "dots between letters of PHI",
    "PHI cut at line ends",
    "PHI reversed by U+202E",
    "tags around words of PHI",
    "<br> and &nbsp;",
    "blanks inside numbers",
    "%20 for blanks",
)


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> SiteLists:
    path = tmp_path_factory.mktemp("known") / "known.csv"
    path.write_text("\n".join(["patient_id,kind,value", *KNOWN]) + "\n", encoding="utf-8")
    return SiteLists.read(known=path, strict=True, labels=LABELS)


def options(style: str, lists: SiteLists | None = None) -> RunOptions:
    return RunOptions(replacer=Replacer.from_options(style, key=KEY), lists=lists or SiteLists())


def check_the_rest_is_untouched(text: str, result: DeidentificationResult) -> None:
    assert result.text is not None
    at = new_at = 0
    for span in result.replaced:
        assert text[at : span.start] == result.text[new_at : span.new_start]
        at, new_at = span.end, span.new_end
    assert text[at:] == result.text[new_at:]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("form", [*SOLID, *LOOSE])
def test_known_identifiers_are_replaced_whole(form: str, style: str, lists: SiteLists) -> None:
    written = FORMS[form](NOTE, random.Random(0))
    result = finish_alone(Document("n", written.text, patient_id="7"), options(style, lists), None)
    assert result.error is None
    check_the_rest_is_untouched(written.text, result)
    replaced = bytearray(len(written.text))
    for span in result.spans:
        replaced[span.start : span.end] = b"\1" * (span.end - span.start)
    for span in NOTE.spans:
        for at in range(span.start, span.end):
            if NOTE.text[at].isalnum():
                low, high = written.places[at]
                assert any(replaced[low:high]), (span, written.text[low:high])
    if form in SOLID:
        assert all(len(set(replaced[low:high])) == 1 for low, high in written.places)
    left = compacted(read(result.text or "").text)
    assert not [value for value in ("tamblyn", "hidalgo", "4821377", "springfield", "5550138") if value in left]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("form", [*SOLID, *LOOSE])
def test_what_was_found_once_is_replaced_wherever_it_is_repeated(form: str, style: str) -> None:
    """The model finds each name at one of its two places only, in the form in which it stands there."""
    written = FORMS[form](NOTE, random.Random(0))
    names = [span for span in NOTE.spans if span.label in ("PATIENT", "DOCTOR")]

    def in_form(span: Span) -> Span:
        places = [place for k in range(span.start, span.end) for place in written.places[k]]
        start = min(places)
        return Span(start, start + len(written.text[start : max(places)].rstrip()), span.label)

    found = list(map(in_form, names[-2:]))
    result = finish_alone(Document("n", written.text, tuple(found), patient_id="7"), options(style), None)
    assert result.error is None
    check_the_rest_is_untouched(written.text, result)
    left = compacted(read(result.text or "").text)
    assert "tamblyn" not in left
    assert "hidalgo" not in left


@given(
    st.lists(st.sampled_from(sorted(FORMS)), max_size=3),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 40)), max_size=4),
    st.sampled_from(STYLES),
    st.integers(0, 9),
)
@settings(max_examples=60)
def test_whatever_the_forms_the_rest_is_untouched(
    lists: SiteLists, chain: list[str], found: list[tuple[int, int]], style: str, seed: int
) -> None:
    text = NOTE.text
    for name in chain:
        text = FORMS[name](Document("n", text), random.Random(seed)).text
    spans: list[Span] = []
    for start, size in sorted(found):
        if start >= (spans[-1].end if spans else 0) and start + size <= len(text):
            spans.append(Span(start, start + size, "PATIENT"))
    result = finish_alone(Document("n", text, tuple(spans), patient_id="7"), options(style, lists), None)
    if result.error is not None:
        assert "known identifiers are left in the output" in result.error
        return
    check_the_rest_is_untouched(text, result)
    assert all(any(s.start <= span.start and span.end <= s.end for s in result.spans) for span in spans)
    assert not {"Tamblyn", "4821377", "Springfield"} & set(read(result.text or "").text.split())


def test_a_hard_form_is_counted_and_changes_no_other_note(tiny_model: Path) -> None:
    model = Deidentifier.load(tiny_model)
    notes = [Document("1", NOTE.text), Document("2", NOTE.text.upper())]
    both = model.predict(notes, threshold=0.2)
    for note, found in zip(notes, both, strict=True):
        (alone,) = model.predict([note], threshold=0.2)
        assert [span.key for span in alone.spans] == [span.key for span in found.spans]
    results = model.pipe([note.text for note in notes], accept_unfit=True)
    assert [result.counts.get(HARD_FORM, 0) for result in results] == [0, 1]
