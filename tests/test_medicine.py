"""What is not sure, or reads as medicine, becomes a tag: no invented dose, drug or abbreviation in a note."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY
from marked_notes import marked_note

from ensemble_deid import Columns, Document, RunOptions, Span, deidentify_files, deidentify_table
from ensemble_deid.cli.main import main
from ensemble_deid.cli.terminal import BAD_INPUT, NOTES_WITHHELD
from ensemble_deid.corpora.records import Record
from ensemble_deid.deidentify.cells import Cells
from ensemble_deid.deidentify.one_pass import NotePass, finish_alone, finish_together
from ensemble_deid.deidentify.project.memory import Context, remember, taught, values_of
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.surrogates.medicine import reads_as_medicine
from research.distortion import FORMS, form_of, measure

LABELS = ("DATE", "DOCTOR", "PATIENT", "AGE")
SURROGATES = Replacer.from_options("surrogate", key=KEY)


def options(**settings: float) -> RunOptions:
    return RunOptions.choose(LABELS, style="surrogate", key=KEY, settings=settings)


def scored(note: Document, *scores: float) -> Document:
    """Return the note with other scores for its spans, in their order."""
    spans = [Span(s.start, s.end, s.label, score) for s, score in zip(note.spans, scores, strict=True)]
    return note.with_spans(spans)


def values(note: Document, text: str | None) -> list[str]:
    """Return what takes the place of each span, by the text between spans."""
    assert text is not None
    found, end, position = [], 0, 0
    ends = [span.start for span in note.spans[1:]] + [len(note.text)]
    for span, after in zip(note.spans, ends, strict=True):
        position += span.start - end
        between = note.text[span.end : after]
        stop = text.index(between, position) if between else len(text)
        found.append(text[position:stop])
        position, end = stop, span.end
    return found


@pytest.mark.parametrize(
    ("marked", "written"),
    [
        ("<DOCTOR|PMH>: HTN, DM2.", "[DOCTOR?]: HTN, DM2."),
        ("AFP <DOCTOR|ng>/mL", "AFP [DOCTOR?]/mL"),
        ("take <DATE|8/2> mg <DOCTOR|SL>", "take [DATE?] mg [DOCTOR?]"),
        ("<AGE|92> M with <DOCTOR|CHF>", "90+ M with [DOCTOR?]"),
        ("<AGE|91><PATIENT|yo>", "90+[PATIENT?]"),
        ("HR <AGE|92>, BP <AGE|98>/60, <AGE|94>%", "HR [AGE?], BP [AGE?]/60, [AGE?]%"),
        ("a weight of <AGE|95> kg", "a weight of [AGE?] kg"),
        ("pain <DATE|9/10>, grip <DATE|5/5>", "pain [DATE?], grip [DATE?]"),
        ("book at <DATE|3/12>, then <DATE|6/52>", "book at [DATE?], then [DATE?]"),
        ("the <DATE|5th> metatarsal", "the [DATE?] metatarsal"),
        ("refill <DOCTOR|Norvasc>, <CITY|Singulair>", "refill [DOCTOR?], [CITY?]"),
        ("start <STREET|Augmentin 875>", "start [STREET?]"),
        ("<IDNUM|BRCA1>, <IDNUM|G2P1>, <IDNUM|L4-5>", "[IDNUM?], [IDNUM?], [IDNUM?]"),
        ("pulled the <HOSPITAL|Foley>, <DOCTOR|Weber> test", "pulled the [HOSPITAL?], [DOCTOR?] test"),
        ("Seen for <PATIENT|frank> breech", "Seen for [PATIENT?] breech"),
    ],
)
def test_medicine_becomes_a_tag(marked: str, written: str) -> None:
    assert SURROGATES.replace(marked_note(marked)).text == written


@pytest.mark.parametrize(
    "marked",
    [
        "Dr. <DOCTOR|Foley> called",
        "<DOCTOR|Norvasc>, MD",
        "dr <DOCTOR|ng> came",
        "on <DATE|8/2> he came",
        "since <DATE|3/14/2026>: 5 mg",
        "on <DATE|10/12> L knee",
        "<CITY|Columbia>, <STATE|SC> 29201",
        "-- <DOCTOR|SL>",
        "signed <DOCTOR|J.S.>",
        "<PATIENT|Mark Long> walked",
        "MRN <MEDICALRECORD|4471902>",
        "to <HOSPITAL|Lakewood General Hospital>",
    ],
)
def test_what_reads_as_its_label_has_a_surrogate(marked: str) -> None:
    note = marked_note(marked)
    written = SURROGATES.replace(note)
    assert "?" not in written.text
    assert written.text != note.text


def test_spanish_words_are_no_english_vocabulary() -> None:
    spanish = {"before": "El Sr. vive en ", "after": " desde 2014", "spanish": True}
    assert not reads_as_medicine("pan", "CITY", **spanish)
    assert reads_as_medicine("8/2", "DATE", before="toma ", after=" mg", spanish=True)


@pytest.mark.parametrize("style", ["tag", "mask", "remove", "numbered", "hash"])
def test_styles_that_invent_nothing_are_as_before(style: str) -> None:
    replacer = Replacer.from_options(style, key=KEY)
    note = marked_note("take <DATE|8/2> mg")
    assert "?" not in replacer.replace(note).text


def test_no_doubt_leaves_phi_and_none_is_left_without_a_least_score() -> None:
    note = scored(marked_note("<PATIENT|Ann Poe> saw <DOCTOR|Lee>, <AGE|93>, on <DATE|3/14/2026>"), 0.1, 0.2, 0.1, 0.79)
    assert SURROGATES.replace(note).text == "[PATIENT?] saw [DOCTOR?], [AGE?], on [DATE?]"
    everywhere = Replacer.from_options("surrogate", key=KEY, settings={"min_score": 0})
    assert "[" not in everywhere.replace(note).text
    assert "[" not in everywhere.replace(marked_note("take <DATE|8/2> mg")).text
    capped = Replacer.from_options("tag", {"AGE": "cap-age"}, key=KEY)
    assert capped.replace(scored(marked_note("<AGE|93> and <AGE|45>"), 0.2, 0.2)).text == "[AGE?] and 45"


def test_a_string_that_is_sure_anywhere_is_sure_everywhere() -> None:
    one = scored(marked_note("Dr. <DOCTOR|Strong> came; call <DOCTOR|STRONG>.", id="a"), 0.97, 0.3)
    other = scored(marked_note("Plan by <DOCTOR|Strong>, <DOCTOR|Meyers>.", id="b"), 0.3, 0.3)
    first, second = finish_together([one, other], options(), None)
    (here, loud), (there, unsure) = values(one, first.text), values(other, second.text)
    assert here == there == loud.capitalize() != "Strong"
    assert unsure == "[DOCTOR?]"
    assert values(other, finish_alone(other, options(), None).text) == ["[DOCTOR?]", "[DOCTOR?]"]
    # Another patient's notes say nothing.
    apart = Document("c", other.text, other.spans, patient_id="8")
    assert "[DOCTOR?], [DOCTOR?]" in str([*finish_together([one, apart], options(), None)][1].text)


def test_a_project_knows_that_a_later_note_makes_a_string_sure() -> None:
    chosen = options(open_ended=True)
    unsure = scored(marked_note("Plan by <DOCTOR|Strong>; <DOCTOR|PMH>: none.", id="a"), 0.3, 0.97)
    sure = scored(marked_note("Dr. <DOCTOR|Strong> came.", id="b"), 0.97)

    cells = Cells(chosen.replacer, Columns(), (64, 64))

    def memory(note: Document, passed: NotePass) -> dict[str, Any]:
        result, known = passed.finish(note), passed.known(note)
        record = Record(note.id, note.text, patient="7")
        told = remember(record, result, Context(chosen, cells, KEY, "7"), known)
        return {"patient": "7", **taught(passed.believed(note)), **told}

    def learned(*notes: Document) -> NotePass:
        passed = NotePass(chosen, None)
        for note in notes:
            passed.learn(note)
        return passed

    alone, later = memory(unsure, learned(unsure)), memory(sure, learned(unsure, sure))
    assert Context.of([alone], options=chosen, cells=cells, key=KEY).why_due(alone) is None
    together = Context.of([alone, later], options=chosen, cells=cells, key=KEY)
    assert together.why_due(alone) == "later notes change a replacement"
    assert together.why_due(later) is None
    again = memory(unsure, learned(unsure, sure))
    assert together.why_due(again) is None
    assert again["values"] == values_of(again, together.known, cells=cells, patient="7")


@pytest.mark.parametrize("wrong", [-0.1, 1.1, True, "0.5", float("nan")])
def test_a_least_score_lies_between_0_and_1(wrong: object) -> None:
    with pytest.raises(ConfigError, match="min_score is from 0 to 1"):
        Replacer.from_options("surrogate", key=KEY, settings={"min_score": wrong})  # type: ignore[dict-item]


def test_the_least_score_is_one_field_everywhere(tmp_path: Path, tiny_model: Path) -> None:
    (tmp_path / "p.toml").write_text("style = 'surrogate'\n[surrogates]\nmin_score = 0.25\n", encoding="utf-8")
    by_policy = RunOptions.choose(LABELS, policy=tmp_path / "p.toml", key=KEY)
    assert by_policy.replacer.styles == options(min_score=0.25).replacer.styles
    assert by_policy.replacer.styles.settings.min_score == 0.25
    (tmp_path / "note.txt").write_text("Seen.", encoding="utf-8")
    command = ["deidentify", str(tiny_model), str(tmp_path / "note.txt"), "--out", str(tmp_path / "out.txt"), "--quiet"]
    assert main([*command, "--set", "surrogates.min_score=0.25"]) == 0
    head = json.loads((tmp_path / "out.txt.run" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert head["settings"]["styles"]["surrogates"]["min_score"] == 0.25


def test_a_page_shows_notes_before_and_after(tmp_path: Path, tiny_model: Path) -> None:
    notes, out, page = tmp_path / "notes", tmp_path / "out", tmp_path / "pages" / "c.html"
    notes.mkdir()
    (notes / "a.txt").write_text("Seen 03/04/2020 & well.\n", encoding="utf-8")
    (notes / "b.txt").write_bytes(b"\xff\xfe\xff")
    command = ["deidentify", str(tiny_model), str(notes), "--quiet", "--out", str(out)]
    for place in (out / "c.html", tmp_path / "out.run" / "c.html"):
        assert main([*command, "--compare", str(place)]) == BAD_INPUT
        assert not place.exists()
    assert main([*command, "--compare", str(page)]) == NOTES_WITHHELD
    content = page.read_text(encoding="utf-8")
    assert "contains protected health information" in content
    assert ">03/04/2020</mark> &amp; well." in content
    assert ">[DATE]</mark> &amp; well." in content
    assert 'data-label="DATE ' in content
    assert "Withheld, and not on this page: 1." in content
    assert [path.name for path in page.parent.iterdir()] == ["c.html"]


def test_a_finished_run_is_not_compared_again(tmp_path: Path, tiny_model: Path) -> None:
    (tmp_path / "a.csv").write_text("mrn,text\n7,Seen 03/04/2020.\n", encoding="utf-8")
    arguments = tmp_path / "a.csv", tmp_path / "b.csv", tiny_model
    columns = Columns(patient="mrn")
    deidentify_table(*arguments, columns=columns, key=KEY, compare=tmp_path / "c.html")
    assert ">03/04/2020</mark>" in (tmp_path / "c.html").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="compares nothing again"):
        deidentify_table(*arguments, columns=columns, key=KEY, resume=True, compare=tmp_path / "d.html")
    (tmp_path / "note.txt").write_text("Seen.", encoding="utf-8")
    with pytest.raises(CorpusError, match="is named for two outputs"):
        deidentify_files(tmp_path / "note.txt", tmp_path / "x.txt", tiny_model, compare=tmp_path / "x.txt")


# The measurement.

NOTE = marked_note("<PATIENT|Ann Poe> takes 8 mg of Norvasc, PMH none, and walks.")


def found(*spans: tuple[str, str, float]) -> Sequence[Document]:
    """Return the note with spans of these strings."""
    places = [(NOTE.text.index(string), string, label, score) for string, label, score in spans]
    return [NOTE.with_spans(Span(start, start + len(s), label, score) for start, s, label, score in places)]


def test_false_alarms_are_counted_by_the_form_of_what_they_change() -> None:
    alarms = ("8", "ZIP", 0.3), ("Norvasc", "DOCTOR", 0.3), ("PMH", "DOCTOR", 0.9), ("walks", "DOCTOR", 0.3)
    predicted = found(("Ann Poe", "PATIENT", 0.9), *alarms)
    before, guards, after = (measure([NOTE], predicted, score) for score in (0, 0.001, 0.5))
    assert [before.changed[form] for form in FORMS] == [1, 0, 1, 1, 1]
    assert (guards.total, after.total) == (0, 0)
    assert before.words == after.words == 9
    assert (before.missed, before.phi, before.phi_tagged) == (after.missed, after.phi, after.phi_tagged) == (0, 1, 0)
    hidden = measure([NOTE], found(("Poe", "PATIENT", 0.2)), 0.5)
    assert (hidden.missed, hidden.phi, hidden.phi_tagged) == (1, 1, 1)


@pytest.mark.parametrize(
    ("text", "run", "form"),
    [
        ("took 81 mg", "81", 0),
        ("pain 9/10", "9", 0),
        ("room 81 again", "81", 1),
        ("a CBC", "CBC", 2),
        ("four ng", "ng", 2),
        ("took lisinopril", "lisinopril", 3),
        ("the garden", "garden", 4),
    ],
)
def test_forms(text: str, run: str, form: int) -> None:
    start = text.index(run)
    assert form_of(text, start, start + len(run)) == FORMS[form]
