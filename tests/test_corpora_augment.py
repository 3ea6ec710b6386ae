"""Copies whose form is changed: every change keeps the gold offsets."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.corpora import augment as form
from ensemble_deid.corpora.augment import CHANGES, augment_corpus, copies_for_training
from ensemble_deid.corpora.augment_words import bare_names, cardinal, date_in_words, dictated, ordinal, refilled_names
from ensemble_deid.corpora.edits import Edit, apply_edits
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.lexicon import learn_lexicon
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize

HEADER = "North Clinic\nName: Ada Quill  Date: 03/04/2071\n\n"
BODY = "Seen on 03/05/2071 by Dr. Strong. She feels well.\nPhone: (555) 555-0123. Nothing else hurts today.\n"


def marked(text: str, *surfaces: tuple[str, str], name: str = "101-01", site: str = "S01") -> Document:
    spans = [
        Span(match.start(), match.end(), label)
        for surface, label in surfaces
        for match in re.finditer(re.escape(surface), text)
    ]
    return Document(name, text, tuple(sorted(spans)), patient_id=name[:3], site=site)


NOTE = marked(
    HEADER + BODY,
    ("Ada Quill", "PATIENT"),
    ("03/04/2071", "DATE"),
    ("03/05/2071", "DATE"),
    ("Strong", "DOCTOR"),
    ("(555) 555-0123", "PHONE"),
)
OTHER = marked(
    "CHART 7\n\nSeen 12.11.2070, tel 555 555 0199.",
    ("7", "IDNUM"),
    ("12.11.2070", "DATE"),
    ("555 555 0199", "PHONE"),
    name="202-01",
    site="S02",
)


def surfaces(note: Document) -> list[tuple[str, str]]:
    return [(span.label, note.text[span.start : span.end]) for span in sorted(note.spans)]


@st.composite
def notes_with_edits(draw: st.DrawFn) -> tuple[Document, list[Edit], list[str]]:
    """Build a note of alternating plain and marked parts, edits inside of parts, and the parts after the edits."""
    parts, edits, after, spans, place = [], [], [], [], 0
    for k in range(draw(st.integers(1, 6))):
        part = draw(st.text("ab \n", min_size=1, max_size=6))
        if k % 2:
            spans.append(Span(place, place + len(part), "DATE"))
        low = draw(st.integers(0, len(part)))
        high = draw(st.integers(low, len(part)))
        text = draw(st.text("xyz", max_size=3))
        # An insertion at a span's edge belongs to what is outside of the span.
        if draw(st.booleans()) and (low < high or (k % 2 == 0 and 0 < low < len(part))):
            if k % 2 and high - low == len(part) and text == "":
                spans.pop()
                after.append("")
            else:
                after.append(part[:low] + text + part[high:])
            edits.append(Edit(place + low, place + high, text))
        else:
            after.append(part)
        parts.append(part)
        place += len(part)
    return Document("n", "".join(parts), tuple(spans)), edits, after


@given(notes_with_edits())
def test_spans_follow_edits(case: tuple[Document, list[Edit], list[str]]) -> None:
    note, edits, after = case
    changed = apply_edits(note, edits[::-1])
    assert changed.text == "".join(after)
    marked_parts = [part for k, part in enumerate(after) if k % 2 and part]
    assert [text for _, text in surfaces(changed)] == marked_parts


def test_edits_that_cut_spans_or_each_other_are_refused() -> None:
    note = Document("n", "Ada Quill came", (Span(0, 9, "PATIENT"),))
    for edits in ([Edit(7, 12, "x")], [Edit(0, 12, "x")], [Edit(0, 3, ""), Edit(2, 4, "")], [Edit(10, 99, "")]):
        with pytest.raises(ValueError, match="edit"):
            apply_edits(note, edits)
    assert apply_edits(note, [Edit(0, 10, "")]) == Document("n", "came", ())
    assert surfaces(apply_edits(note, [Edit(0, 0, "Ms. "), Edit(9, 9, ".")])) == [("PATIENT", "Ada Quill")]


ALPHABET = "Aa1 .:/\nß"


@given(
    st.lists(st.tuples(st.text(ALPHABET, min_size=1, max_size=8), st.sampled_from(["", "DATE", "PHONE"])), max_size=8),
    st.sampled_from(sorted(CHANGES)),
    st.integers(0, 5),
)
def test_a_change_keeps_the_letters_of_what_is_marked(parts: list[tuple[str, str]], change: str, seed: int) -> None:
    spans, place = [], 0
    for text, label in parts:
        if label and text.strip() == text:
            spans.append(Span(place, place + len(text), label))
        place += len(text)
    note = Document("101-01", "".join(text for text, _ in parts), tuple(spans), patient_id="101", site="S01")
    (copy, _) = augment_corpus([note, OTHER], changes=[change], copies=1, seed=seed)
    assert (copy.group, copy.site, copy.id) == ("101", "S01", "101-01-a1")
    for span in copy.spans:
        assert copy.text[span.start : span.end].strip() == copy.text[span.start : span.end] != ""
    if change in (
        "labels",
        "wrap",
        "case",
        "noise",
        "formats",
        "bare-names",
        "other-names",
        "dictation",
        "bars",
        "scan",
    ):
        assert [span.label for span in sorted(copy.spans)] == [span.label for span in sorted(note.spans)]
    if change in ("labels", "wrap", "case", "bars"):
        plain = [re.sub(r"\s", " ", text).lower() for _, text in surfaces(note)]
        assert [re.sub(r"\s", " ", text).lower() for _, text in surfaces(copy)] == plain


def test_headers_are_exchanged_with_their_marks() -> None:
    changed = form.exchange_header(NOTE, OTHER)
    assert changed.text == "CHART 7\n\n" + BODY
    assert surfaces(changed) == [("IDNUM", "7"), *surfaces(NOTE)[2:]]
    assert form.exchange_header(NOTE, marked("no blank line")) == NOTE
    cut = Document("n", "a\n\nb", (Span(0, 4, "DATE"),))
    assert form.header_end(cut) == 0


def test_numbers_get_another_sites_punctuation() -> None:
    formats = form.number_formats([NOTE, OTHER], other_than=NOTE)
    changed = apply_edits(NOTE, form.reformatted(NOTE, formats, np.random.default_rng(1)))
    assert [text for _, text in surfaces(changed)] == [
        "Ada Quill", "03.04.2071", "03.05.2071", "Strong", "555 555 0123"
    ]  # fmt: skip


def test_field_names_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "DROPPED_FIELD_NAMES", 1.1)
    changed = apply_edits(NOTE, form.dropped_labels(NOTE, np.random.default_rng(1)))
    assert "Name:" not in changed.text
    assert "Phone:" not in changed.text
    assert "Date:" in changed.text, "it does not begin its line"
    assert surfaces(changed) == surfaces(NOTE)


def test_sentences_are_dropped_with_their_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(form, "DROPPED_SENTENCES", 1.1)
    assert apply_edits(NOTE, form.dropped_sentences(NOTE, rng)).text.strip() == ""
    monkeypatch.setattr(form, "DROPPED_SENTENCES", 0.5)
    kept = {len(apply_edits(NOTE, form.dropped_sentences(NOTE, rng)).spans) for _ in range(20)}
    assert len(kept) > 2


def test_lines_are_wrapped_and_joined() -> None:
    note = marked("one two three four five six seven " * 8 + "\nlast, words\nare joined")
    found = {apply_edits(note, form.rewrapped(note, np.random.default_rng(seed))).text for seed in range(8)}
    assert {text.replace("\n", " ") for text in found} == {note.text.replace("\n", " ")}
    assert any("words are" in text for text in found)
    assert any(max(map(len, text.split("\n"))) < 112 for text in found)


def test_typing_errors_are_few_and_never_at_an_edge_of_a_mark() -> None:
    note = marked(BODY * 20, ("Strong", "DOCTOR"))
    edits = form.typing_errors(note, np.random.default_rng(1))
    assert 2 < len(edits) < 40
    assert len(apply_edits(note, edits).spans) == 20


def test_case_is_folded_in_whole_or_in_names() -> None:
    found = {form.folded_case(NOTE, np.random.default_rng(seed)).text for seed in range(12)}
    names = NOTE.text.replace("Ada Quill", "ada quill").replace("Strong", "strong")
    assert found == {NOTE.text.lower(), NOTE.text.upper(), names}
    assert form.folded_case(Document("n", "Große"), np.random.default_rng(0)).text in {"große", "GROßE", "Große"}


def test_the_seed_decides_and_each_copy_differs() -> None:
    first = augment_corpus([NOTE, OTHER], changes=list(CHANGES), copies=3, seed=1)
    assert first == augment_corpus([NOTE, OTHER], changes=list(CHANGES)[::-1], copies=3, seed=1)
    assert len({note.text for note in first}) > 3
    assert [note.id for note in first[:3]] == ["101-01-a1", "202-01-a1", "101-01-a2"]


@pytest.mark.parametrize(
    ("changes", "copies", "message"),
    [(["case", "colour"], 1, "not colour"), ([], 1, "not none"), (["case"], 0, "at least 1")],
)
def test_bad_options(changes: list[str], copies: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        augment_corpus([NOTE], changes=changes, copies=copies, seed=1)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus([NOTE, OTHER], tmp_path / "notes.jsonl", "jsonl")
    out = tmp_path / "more.jsonl"
    arguments = ["corpus", "augment", str(tmp_path / "notes.jsonl"), "--changes", "case,wrap", "--format", "jsonl"]
    assert main([*arguments, "--copies", "2", "--out", str(out)]) == 0
    assert "4 notes" in capsys.readouterr().out
    copies = read_corpus(out).documents
    assert [note.id for note in copies] == ["101-01-a1", "202-01-a1", "101-01-a2", "202-01-a2"]
    assert copies[0].metadata["changes"] == "wrap, case"
    assert main([*arguments[:4], "colour", "--out", str(out)]) == 2


class Always:
    """A generator that always draws the lowest value, so that every change with a probability is made."""

    def random(self, size: int | None = None) -> object:
        return 0.0 if size is None else np.zeros(size)

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> object:
        value = 0 if high is None else low
        return value if size is None else np.full(size, value)


def test_names_lose_what_announces_them_in_prose_alone() -> None:
    text = (
        "Attending: Dr. Ada Quill, MD\nWas seen today with Dr. Ada Quill, RN, and Mr. Bo de Vos; later Quill agreed.\n"
    )
    note = marked(text, ("Ada Quill", "DOCTOR"), ("Bo de Vos", "PATIENT"))
    changed = apply_edits(note, bare_names(note, Always()))  # type: ignore[arg-type]
    assert changed.text == "Attending: Dr. Ada Quill\nWas seen today with Quill, and Vos; later Quill agreed.\n"
    assert [surface for _, surface in surfaces(changed)] == ["Ada Quill", "Quill", "Vos"]


def test_a_refilled_name_is_the_same_in_the_whole_note() -> None:
    note = marked("Saw Quill. Ada Quill and Strong; Quill left.", ("Ada Quill", "PATIENT"), ("Strong", "DOCTOR"))
    note = replace(note, spans=(*note.spans, Span(4, 9, "PATIENT"), Span(33, 38, "PATIENT")))
    changed = apply_edits(note, refilled_names(note, np.random.default_rng(3)))
    found = [changed.text[span.start : span.end] for span in sorted(changed.spans)]
    assert found[0] == found[3]
    assert found[1] == "Ada Quill"


def test_numbers_dates_and_names_are_said() -> None:
    note = marked(
        "Quill seen 3/14/2071. Call 555-0102.", ("Quill", "PATIENT"), ("3/14/2071", "DATE"), ("555-0102", "PHONE")
    )
    changed = apply_edits(note, dictated(note, Always()))  # type: ignore[arg-type]
    assert [surface for _, surface in surfaces(changed)] == [
        "Q-U-I-L-L",
        "March fourteenth twenty seventy one",
        "five five five oh one oh two",
    ]
    assert " period Call " in changed.text


@pytest.mark.parametrize("surface", ["13/1/2071", "3/32", "May 3", "0/1/71"])
def test_other_dates_are_left(surface: str) -> None:
    assert date_in_words(surface) is None


def test_numbers_in_words() -> None:
    assert [ordinal(day) for day in (1, 20, 21, 30, 31)] == [
        "first", "twentieth", "twenty first", "thirtieth", "thirty first",
    ]  # fmt: skip
    assert len({cardinal(number) for number in range(100)}) == 100
    assert date_in_words("7/4/05") == "July fourth twenty oh five"


def test_bars_stay_outside_of_what_is_marked() -> None:
    note = marked("Name Ada  Quill  seen", ("Ada  Quill", "PATIENT"))
    changed = apply_edits(note, form.barred(note, np.random.default_rng(0)))
    assert changed.text == "Name | Ada  Quill | seen"


def test_a_scan_misreads_some_characters_inside_marks_too() -> None:
    note = marked("Olello " * 300, ("Olello", "PATIENT"))
    edits = form.scanned(note, np.random.default_rng(1))
    assert 10 < len(edits) < 200
    assert len(apply_edits(note, edits).spans) == 300


def test_training_copies_are_drawn_note_by_note_and_keep_their_patient() -> None:
    notes = [replace(NOTE, id=f"{k}-01", patient_id=str(k)) for k in range(100, 200)]
    copies = copies_for_training(notes, share=0.3, changes=("bare-names", "other-names", "form"), seed=13)
    assert 15 < len(copies) < 45
    assert all(copy.is_copy and copy.id == f"{copy.patient_id}-01-a1" for copy in copies)
    assert not any(note.is_copy for note in notes)
    fewer = copies_for_training(notes[:50], share=0.3, changes=("form",), seed=13)
    assert [c.id for c in fewer] == [c.id for c in copies if int(c.patient_id or 0) < 150]
    assert copies_for_training(notes, share=0.0, changes=("form",), seed=13) == []
    texts = {copy.text for copy in copies_for_training(notes, share=1.0, changes=("form",), seed=13)}
    assert {NOTE.text.upper(), NOTE.text.lower()} <= texts
    assert any(" | " in text for text in texts)


def test_the_lexicon_learns_nothing_from_copies() -> None:
    copy = replace(NOTE, id="300-01-a1", text=NOTE.text.replace("Strong", "Moshka"), metadata={"copy": "1"})
    tokens = tokenize([NOTE, copy])
    lower = [word.lower() for word in tokens.words([NOTE, copy])]
    lexicon = learn_lexicon([NOTE, copy], tokens, lower)
    assert {"strong", "moshka"} & set(lexicon.words) == {"strong"}
