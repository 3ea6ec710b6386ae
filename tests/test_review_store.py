"""The store of a review: decisions, undo, search, two reviewers, export, and what outlives a killed process."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.accounts import (
    Account,
    account_of,
    act_as,
    add_account,
    read_accounts,
    remove_account,
)
from ensemble_deid.service.review.edits import (
    Marked,
    Search,
    add_span,
    alter,
    decide,
    find_hits,
    finish,
    mark_all,
)
from ensemble_deid.service.review.file import Facts, ReviewFile, read_facts, settle_facts
from ensemble_deid.service.review.fill import add_note, disagreement, fill, reviewed, uncertainty
from ensemble_deid.service.review.layers import begin_layer, merge
from ensemble_deid.service.review.overview import PAGE, agreement, note_page, reviewers
from ensemble_deid.service.review.records import (
    ADJUDICATION,
    ReviewError,
    ReviewSpan,
    Status,
    read_disagreements,
    read_spans,
)
from ensemble_deid.service.review.steps import may_replay, redo, undo
from ensemble_deid.service.review.team import assign, draw, read_guideline, write_guideline

TEXT = "Ada Gil \U0001f600 saw Dr Bo Li in Rome.\nAda went home."
#       0123456 7          89...
NOTES = (
    Document("a", TEXT, (Span(0, 7, "PATIENT", 0.95), Span(17, 22, "DOCTOR", 0.55), Span(26, 30, "CITY", 0.3)), "p1"),
    Document("b", "No name but Bo  Li.", (Span(12, 14, "DOCTOR", 0.9),), "p2", {"kind": "letter"}, "S1"),
    Document("c", "Nothing.", (), "p3"),
)


def make(path: Path) -> ReviewFile:
    file = ReviewFile(path, create=True)
    settle_facts(file, Facts("0f", 0.5, ("PATIENT", "DOCTOR", "CITY")))
    with file.transaction() as database:
        for note in NOTES:
            add_note(database, note, 0.5, submodels=4)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ReviewFile]:
    made = make(tmp_path / "review.sqlite")
    yield made
    made.close()


def spans(file: ReviewFile, reviewer: str = "kim", note: int = 1) -> list[ReviewSpan]:
    with file.transaction() as database:
        begin_layer(database, reviewer, note)
        return read_spans(database, reviewer, note)


def told(file: ReviewFile, reviewer: str = "kim", note: int = 1) -> list[tuple[int, int, str, str]]:
    return [(*span.key, span.status) for span in spans(file, reviewer, note)]


def at(file: ReviewFile, start: int, reviewer: str = "kim", note: int = 1) -> int:
    (found,) = [span.id for span in spans(file, reviewer, note) if span.start == start]
    return found


def test_a_layer_begins_with_what_was_found_and_suggested(file: ReviewFile) -> None:
    assert [(s.start, s.end, s.label, s.kind, s.status) for s in spans(file)] == [
        (0, 7, "PATIENT", "found", "undecided"),
        (17, 22, "DOCTOR", "found", "undecided"),
        (26, 30, "CITY", "suggested", "undecided"),
    ]
    assert TEXT[17:22] == "Bo Li"


def test_a_single_token_is_no_submodels_vote() -> None:
    token, one = Span(0, 3, "PATIENT", 0.02, "token"), Span(0, 3, "PATIENT", 0.02, "crf")
    assert [disagreement(span, 4) for span in (token, one)] == [0.0, pytest.approx(0.8112781)]
    assert disagreement(replace(one, source="crf+neural"), 4) == 1.0


def test_uncertain_notes_come_first_and_finished_ones_last(file: ReviewFile) -> None:
    assert [uncertainty(score, 0.5) for score in (0.5, 0.75, 1.0, 0.25, 0.0)] == [1, 0.5, 0, 0.5, 0]
    assert uncertainty(1.0, 1.0) == 1
    assert uncertainty(0.0, 0.0) == 1
    with file.transaction() as database:
        assert [(line.name, line.open) for line in note_page(database, "kim").lines] == [("a", 3), ("b", 1), ("c", 0)]
        finish(database, "kim", 1, finished=True, settle=True)
        assert [(line.name, line.finished) for line in note_page(database, "kim").lines][-1] == ("a", True)
        assert note_page(database, "lee").lines[0].name == "a"


def test_disputed_notes_come_first_in_the_other_order(tmp_path: Path) -> None:
    votes = {"": 0.0, "crf": 0.811, "crf+regex": 1.0, "crf+neural+regex": 0.811, "crf+neural+regex+tbed": 0.0}
    for source, entropy in votes.items():
        assert round(disagreement(Span(0, 1, "CITY", 0.9, source), 4), 3) == entropy
    assert disagreement(Span(0, 1, "CITY", 0.9, "crf"), 1) == 0
    near = Document("near", "Rome", (Span(0, 4, "CITY", 0.5, "crf+neural+regex+tbed"),))
    divided = Document("divided", "Rome", (Span(0, 4, "CITY", 0.99, "crf+regex"),))
    file = ReviewFile(tmp_path / "r.sqlite", create=True)
    with file.transaction() as database:
        for note in (near, divided):
            add_note(database, note, 0.5, submodels=4)
        assert [line.name for line in note_page(database, "kim").lines] == ["near", "divided"]
        assert [line.name for line in note_page(database, "kim", order="disagreement").lines] == ["divided", "near"]
        assert read_disagreements(database, 2) == {(0, 4, "CITY"): 1.0}
    file.close()


def test_a_long_list_has_pages_and_each_note_its_neighbours(tmp_path: Path) -> None:
    file = ReviewFile(tmp_path / "r.sqlite", create=True)
    names = [f"n{number}" for number in range(2 * PAGE + 1)]
    with file.transaction() as database:
        for name in names:
            add_note(database, Document(name, "Rome", (Span(0, 4, "CITY", 0.9),)), 0.5, submodels=4)
        pages = [note_page(database, "kim", offset=offset) for offset in range(0, len(names), PAGE)]
        assert [line.name for page in pages for line in page.lines] == names
        assert [(page.total, page.finished, page.first_open) for page in pages] == [(len(names), 0, 1)] * 3
        around = note_page(database, "kim", around=PAGE + 1)
        assert (around.offset, around.previous, around.next) == (PAGE, PAGE, PAGE + 2)
        assert (note_page(database, "kim", around=1).previous, note_page(database, "kim", around=1).next) == (None, 2)
        assert note_page(database, "kim", around=len(names)).next is None
        # The page is another one than that of the note, whose neighbours are told all the same.
        assert note_page(database, "kim", around=1, offset=PAGE).lines[0].id == PAGE + 1
        assert note_page(database, "kim", around=1, offset=PAGE).next == 2
        assert note_page(database, "kim", around=10_000, offset=10_000).lines == ()
        begin_layer(database, "kim", 1)
        finish(database, "kim", 1, finished=True, settle=True)
        assert note_page(database, "kim").first_open == 2
        assert note_page(database, "kim", offset=2 * PAGE).lines[-1].id == 1
    file.close()


def test_a_store_of_the_first_format_goes_on(file: ReviewFile) -> None:
    with file.transaction() as database:
        begin_layer(database, "kim", 1)
        for table in ("notes", "predictions"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN disagreement")
        for table, column in (("notes", "drawn"), ("notes", "place"), ("steps", "account")):
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        for table in ("accounts", "assignments", "guidelines"):
            database.execute(f"DROP TABLE {table}")
        database.execute("DROP INDEX layers_of_note")
        database.execute("PRAGMA user_version = 1")
    file.close()
    again = ReviewFile(file.path, create=False)
    assert len(spans(again)) == 3
    with again.transaction() as database:
        assert [line.name for line in note_page(database, "kim", order="disagreement").lines] == ["a", "b", "c"]
        assert set(read_disagreements(database, 1).values()) == {0.0}
    again.close()


def test_decisions_and_their_undo(file: ReviewFile) -> None:
    begun = told(file)
    states = [begun]
    doctor, city = at(file, 17), at(file, 26)
    with file.transaction() as database:
        decide(database, "kim", 1, doctor, "rejected")
    states.append(told(file))
    with file.transaction() as database:
        alter(database, "kim", 1, city, label="PATIENT")
    states.append(told(file))
    with file.transaction() as database:
        alter(database, "kim", 1, city, end=31)
    states.append(told(file))
    with file.transaction() as database:
        add_span(database, "kim", 1, 32, 35, "PATIENT")
    states.append(told(file))
    with file.transaction() as database:
        finish(database, "kim", 1, finished=True, settle=True)
    assert told(file) == [
        (0, 7, "PATIENT", "accepted"),
        (17, 22, "DOCTOR", "rejected"),
        (26, 31, "PATIENT", "accepted"),
        (32, 35, "PATIENT", "accepted"),
    ]
    last = told(file)
    for state in reversed(states):
        with file.transaction() as database:
            assert undo(database, "kim") == 1
        assert told(file) == state
    with file.transaction() as database:
        assert undo(database, "kim") is None
        for _ in states:
            assert redo(database, "kim") == 1
        assert redo(database, "kim") is None
    assert told(file) == last
    with file.transaction() as database:
        undo(database, "kim")
        undo(database, "kim")
        decide(database, "kim", 1, doctor, "accepted")
        assert redo(database, "kim") is None
        assert undo(database, "lee") is None


def test_what_was_added_counts_as_long_as_nobody_rejects_it(file: ReviewFile) -> None:
    with file.transaction() as database:
        added = add_span(database, "kim", 3, start=0, end=7, label="CITY")
        decide(database, "kim", 3, added, "undecided")
        finish(database, "kim", 3, finished=True, settle=True)
        (note,) = reviewed(database).documents
    assert note.spans == (Span(0, 7, "CITY"),)


def test_what_changes_nothing_is_no_step(file: ReviewFile) -> None:
    doctor = at(file, 17)
    with file.transaction() as database:
        decide(database, "kim", 1, doctor, "accepted")
        decide(database, "kim", 1, doctor, "accepted")
        undo(database, "kim")
        assert undo(database, "kim") is None


def test_the_last_decision_holds_where_spans_overlap(file: ReviewFile) -> None:
    with file.transaction() as database:
        begin_layer(database, "kim", 1)
        add_span(database, "kim", 1, 4, 22, "DOCTOR")
    assert told(file) == [
        (0, 7, "PATIENT", "rejected"),
        (4, 22, "DOCTOR", "accepted"),
        (17, 22, "DOCTOR", "rejected"),
        (26, 30, "CITY", "undecided"),
    ]
    patient = at(file, 0)
    with file.transaction() as database:
        decide(database, "kim", 1, patient, "accepted")
    assert [status for *_, status in told(file)] == ["accepted", "rejected", "rejected", "undecided"]


def test_what_was_found_counts_again_once_it_is_undecided_and_rejects_what_overlaps_it(file: ReviewFile) -> None:
    patient = at(file, 0)
    with file.transaction() as database:
        add_span(database, "kim", 1, 4, 12, "DOCTOR")
        decide(database, "kim", 1, patient, "undecided")
    assert [status for *_, status in told(file)] == ["undecided", "rejected", "undecided", "undecided"]
    with file.transaction() as database:
        finish(database, "kim", 1, finished=True, settle=True)
        (note,) = reviewed(database).documents
    assert [span.key for span in note.spans] == [(0, 7, "PATIENT"), (17, 22, "DOCTOR")]
    # A suggestion does not count while it is undecided: it rejects nothing.
    city = at(file, 26)
    with file.transaction() as database:
        finish(database, "kim", 1, finished=False)
        add_span(database, "kim", 1, 24, 28, "CITY")
        decide(database, "kim", 1, city, "undecided")
    assert told(file)[-2:] == [(24, 28, "CITY", "accepted"), (26, 30, "CITY", "undecided")]


def test_an_undecided_difference_rejects_no_other(file: ReviewFile) -> None:
    lees = at(file, 17, "lee")
    with file.transaction() as database:
        begin_layer(database, "kim", 1)
        finish(database, "kim", 1, finished=True, settle=True)
        alter(database, "lee", 1, lees, start=14)
        finish(database, "lee", 1, finished=True, settle=True)
    choice = at(file, 14, ADJUDICATION)
    states: tuple[Status, ...] = ("rejected", "undecided")
    for status in states:
        with file.transaction() as database:
            decide(database, ADJUDICATION, 1, choice, status)
        assert told(file, ADJUDICATION)[-1] == (17, 22, "DOCTOR", "undecided")
    # Nothing is lost by it: both are to be decided before the end.
    with file.transaction() as database, pytest.raises(ReviewError, match="2 left"):
        finish(database, ADJUDICATION, 1, finished=True, settle=True)


def test_overlapping_spans_of_an_older_store_are_neither_accepted_nor_exported(file: ReviewFile) -> None:
    with file.transaction() as database:
        finish(database, "kim", 1, finished=True, settle=True)
        database.execute('UPDATE spans SET "end" = 20 WHERE start = 0')
        with pytest.raises(ReviewError, match=r"^a: the spans 0-20 and 17-22 overlap: .* finish the note again$"):
            reviewed(database)
        finish(database, "kim", 1, finished=False)
        with pytest.raises(ReviewError, match=r"^the spans 0-20 and 17-22 overlap: accept one of them"):
            finish(database, "kim", 1, finished=True, settle=True)
    patient = at(file, 0)
    with file.transaction() as database:
        decide(database, "kim", 1, patient, "rejected")
        finish(database, "kim", 1, finished=True, settle=True)
        assert [span.key for span in reviewed(database).documents[0].spans] == [(17, 22, "DOCTOR")]


def test_finishing_accepts_what_was_found_and_rejects_suggestions(file: ReviewFile) -> None:
    with file.transaction() as database:
        finish(database, "kim", 1, finished=True, settle=True)
        (note,) = reviewed(database).documents
    assert [status for *_, status in told(file)] == ["accepted", "accepted", "rejected"]
    assert (note.id, note.text, note.patient_id) == ("a", TEXT, "p1")
    assert [span.key for span in note.spans] == [(0, 7, "PATIENT"), (17, 22, "DOCTOR")]


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 3), (5, 4), (0, 999), (7, 8)])
def test_impossible_places_are_refused(file: ReviewFile, start: int, end: int) -> None:
    begun = told(file)
    with pytest.raises(ReviewError), file.transaction() as database:
        add_span(database, "kim", 1, start, end, "CITY")
    assert told(file) == begun


def test_spans_of_others_cannot_be_changed(file: ReviewFile) -> None:
    doctor = at(file, 17, "lee")
    with pytest.raises(ReviewError, match="no longer there"), file.transaction() as database:
        decide(database, "kim", 1, doctor, "rejected")
    assert [status for *_, status in told(file, "lee")] == ["undecided"] * 3


def test_marking_all_occurrences_is_one_step(file: ReviewFile) -> None:
    with file.transaction() as database:
        found = mark_all(database, "kim", Search("bo li"), "PATIENT")
    # In note b the doctor's first name is marked alone: the occurrence lies across it.
    assert (found.marked, found.skipped) == (1, 1)
    assert (17, 22, "PATIENT", "accepted") in told(file)
    with file.transaction() as database:
        found = mark_all(database, "kim", Search("Ada", match_case=True), "PATIENT")
        assert (found.marked, found.skipped) == (1, 1)
        undo(database, "kim")
        assert undo(database, "kim") == 1
    assert told(file) == [(*span.key, "undecided") for span in spans(file, "lee")]


@settings(max_examples=100)
def places(text: str, search: Search) -> list[tuple[int, int]]:
    return [match.span() for match in search.pattern().finditer(text)]


@given(st.lists(st.sampled_from(["Ada", "ada", "a.a", " ", "\n", "\U0001f600", "xAda", "_"]), max_size=12))
def test_search_finds_what_a_slow_search_finds(parts: list[str]) -> None:
    text = "".join(parts)
    exact = places(text, Search("Ada", whole_words=False, match_case=True))
    assert exact == [(i, i + 3) for i in range(len(text)) if text[i : i + 3] == "Ada"]
    whole = places(text, Search("Ada", match_case=True))
    alone = [
        (start, end)
        for start, end in exact
        if not (text[:start][-1:].isalnum() or text[:start][-1:] == "_")
        and not (text[end : end + 1].isalnum() or text[end : end + 1] == "_")
    ]
    assert whole == alone


def test_an_empty_search_is_refused(file: ReviewFile) -> None:
    with pytest.raises(ReviewError, match="nothing to search"), file.transaction() as database:
        mark_all(database, "kim", Search(" \n"), "CITY")


def test_two_reviewers_adjudication_and_agreement(file: ReviewFile) -> None:
    lees = at(file, 17, "lee")
    with file.transaction() as database:
        with pytest.raises(ReviewError, match="fewer than two"):
            begin_layer(database, ADJUDICATION, 1)
        finish(database, "kim", 1, finished=True, settle=True)
        alter(database, "lee", 1, lees, start=14)
        finish(database, "lee", 1, finished=True, settle=True)
        finish(database, "lee", 3, finished=True, settle=True)
        assert reviewers(database) == ["kim", "lee"]
        (pair,) = agreement(database)
        assert (pair.notes, pair.both, pair.first_only, pair.second_only, pair.f1) == (1, 1, 1, 1, 0.5)
        # Where reviewers differ, nothing is exported before it is settled.
        ready = reviewed(database)
        assert ([note.id for note in ready.documents], ready.unfinished, ready.disputed) == (["c"], 1, 1)
        assert [note.id for note in reviewed(database, reviewer="kim").documents] == ["a"]
        assert [(line.name, line.open) for line in note_page(database, ADJUDICATION).lines] == [("a", 2)]
        # Counted for all notes at once; opening the note compares its layers one by one.
        assert len(merge(database, 1).disputed) == 2
    disputed = spans(file, ADJUDICATION)
    assert [(s.start, s.end, s.kind, s.status, s.origin) for s in disputed] == [
        (0, 7, "found", "accepted", ""),
        (14, 22, "disputed", "undecided", "lee"),
        (17, 22, "disputed", "undecided", "kim"),
    ]
    with file.transaction() as database:
        with pytest.raises(ReviewError, match="2 left"):
            finish(database, ADJUDICATION, 1, finished=True, settle=True)
        with pytest.raises(ReviewError, match="adjudication"):
            undo(database, "kim")
        with pytest.raises(ReviewError, match="adjudication"):
            finish(database, "kim", 1, finished=False)
    choice = at(file, 17, ADJUDICATION)
    with file.transaction() as database:
        decide(database, ADJUDICATION, 1, choice, "accepted")
        finish(database, ADJUDICATION, 1, finished=True, settle=True)
        settled = reviewed(database)
    assert [span.key for span in settled.documents[0].spans] == [(0, 7, "PATIENT"), (17, 22, "DOCTOR")]
    assert settled.disputed == 0


def test_reviewers_who_agree_need_no_adjudication(file: ReviewFile) -> None:
    with file.transaction() as database:
        for reviewer in ("kim", "lee"):
            finish(database, reviewer, 2, finished=True, settle=True)
        (note,) = reviewed(database).documents
    assert (note.id, note.site, dict(note.metadata)) == ("b", "S1", {"kind": "letter"})
    assert [span.key for span in note.spans] == [(12, 14, "DOCTOR")]


Action = tuple[str, int, int]
STATES: dict[str, Status] = {"accept": "accepted", "reject": "rejected", "undecide": "undecided"}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "accept", "reject", "undecide", "stretch", "mark"]),
            st.integers(0, 40),
            st.integers(1, 9),
        ),
        max_size=12,
    )
)
def test_whatever_is_done_leaves_no_overlap_and_can_be_undone(tmp_path: Path, actions: list[Action]) -> None:
    path = tmp_path / "review.sqlite"
    path.unlink(missing_ok=True)
    file = make(path)
    begun = told(file)
    for kind, number, length in actions:
        here = spans(file)
        chosen = here[number % len(here)]
        try:
            with file.transaction() as database:
                if kind == "add":
                    add_span(database, "kim", 1, number, number + length, "CITY")
                elif kind == "stretch":
                    alter(database, "kim", 1, chosen.id, end=chosen.start + length)
                elif kind == "mark":
                    mark_all(
                        database, "kim", Search(("Ada", "Bo", "o", "Ada Gil")[number % 4], whole_words=False), "CITY"
                    )
                else:
                    decide(database, "kim", 1, chosen.id, STATES[kind])
        except ReviewError:
            continue
        accepted = [span for span in spans(file) if span.marked]
        assert not [1 for a in accepted for b in accepted if a.id < b.id and a.overlaps(b.start, b.end)]
    marked = [span.key for span in spans(file) if span.marked]
    with file.transaction() as database:
        finish(database, "kim", 1, finished=True, settle=True)
        exported = [span.key for span in reviewed(database).documents[0].spans]
    assert exported == marked
    with file.transaction() as database:
        while undo(database, "kim") is not None:
            pass
    assert told(file) == begun
    file.close()


def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "review.sqlite"
    make(path).close()
    program = f"""
import os, signal
from pathlib import Path
from ensemble_deid.service.review.file import ReviewFile
from ensemble_deid.service.review.edits import add_span
file = ReviewFile(Path({str(path)!r}), create=False)
with file.transaction() as database:
    add_span(database, "kim", 1, 32, 35, "PATIENT")
with file.transaction() as database:
    add_span(database, "kim", 1, 8, 9, "CITY")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    file = ReviewFile(path, create=False)
    kept = [key[:3] for key in told(file) if key[3] == "accepted"]
    assert kept == [(32, 35, "PATIENT")]
    file.close()


def test_only_stores_are_opened(tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="no such review"):
        ReviewFile(tmp_path / "none.sqlite", create=False)
    text = tmp_path / "text.sqlite"
    text.write_text("not a database " * 100, encoding="utf-8")
    with pytest.raises(ReviewError, match="not a review store"):
        ReviewFile(text, create=True)
    assert text.read_text(encoding="utf-8").startswith("not")
    damaged = make(tmp_path / "damaged.sqlite").path
    content = bytearray(damaged.read_bytes())
    content[4096::3] = b"\xff" * len(content[4096::3])
    damaged.write_bytes(content)
    with pytest.raises(ReviewError, match="damaged"), ReviewFile(damaged, create=False).transaction() as database:
        database.execute("SELECT * FROM notes").fetchall()
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE theirs (a)")
    database.close()
    with pytest.raises(ReviewError, match="another program"):
        ReviewFile(other, create=True)
    file = ReviewFile(tmp_path / "new.sqlite", create=True)
    assert (file.path.stat().st_mode & 0o777) == 0o600
    with pytest.raises(ReviewError, match="no notes yet"):
        read_facts(file)
    file.close()


def test_another_model_and_a_changed_note_are_refused(file: ReviewFile) -> None:
    with pytest.raises(ReviewError, match="another model"):
        settle_facts(file, Facts("1f", 0.5, ()))
    assert settle_facts(file, Facts("0f", 0.5, ("CITY", "WARD"))).labels == ("PATIENT", "DOCTOR", "CITY", "WARD")

    class Model:
        description = SimpleNamespace(submodels=("regex", "crf"))

        def predict_each(self, notes: list[Document], *, threshold: float, jobs: int) -> list[Document]:
            assert [note.id for note in notes] == ["d"]
            return notes

    new = Document("d", "New.")
    # What `review draw` drew is no sample of an audit: notes may be added.
    with file.transaction() as database:
        draw(database, 1, blind=True, seed=1)
    assert fill(file, [*NOTES, new], Model(), threshold=0.5, progress=lambda *_: None) == []  # type: ignore[arg-type]
    with pytest.raises(ReviewError, match="a: the note is not the one"):
        fill(file, [Document("a", "Other.")], Model(), threshold=0.5, progress=lambda *_: None)  # type: ignore[arg-type]


def test_a_note_is_finished_when_all_is_decided_and_changes_only_after_it_is_opened_again(file: ReviewFile) -> None:
    with file.transaction() as database:
        with pytest.raises(ReviewError, match="3 spans are undecided"):
            finish(database, "kim", 1, finished=True)
        finish(database, "kim", 1, finished=True, settle=True)
        with pytest.raises(ReviewError, match="open it again"):
            add_span(database, "kim", 1, 31, 34, "DOCTOR")
        assert mark_all(database, "kim", Search("home"), "CITY").skipped == 1
        # Undo reaches what was done before the note was finished, the last step first.
        assert (may_replay(database, "kim", backwards=True), may_replay(database, "kim", backwards=False)) == (
            True,
            False,
        )
        undo(database, "kim")
        assert (may_replay(database, "kim", backwards=True), may_replay(database, "kim", backwards=False)) == (
            False,
            True,
        )
        add_span(database, "kim", 1, 31, 34, "DOCTOR")


def test_kappa_counts_every_token_of_the_notes_that_both_finished(file: ReviewFile) -> None:
    with file.transaction() as database:
        for reviewer in ("kim", "lee"):
            begin_layer(database, reviewer, 3)
            if reviewer == "kim":
                add_span(database, reviewer, 3, 0, 7, "CITY")
            finish(database, reviewer, 3, finished=True)
            finish(database, reviewer, 1, finished=True, settle=True)
        finish(database, "kim", 2, finished=True, settle=True)
        (pair,) = agreement(database)
    # 12 tokens: both marked Ada, Gil, Bo, Li; kim alone "Nothing".
    assert (pair.notes, pair.both, pair.first_only) == (2, 2, 1)
    observed, expected = 11 / 12, (5 * 4 + 7 * 8) / 144
    assert pair.kappa == pytest.approx((observed - expected) / (1 - expected))


def test_a_patients_notes_are_together_and_no_text_is_in_the_list(tmp_path: Path) -> None:
    file = ReviewFile(tmp_path / "r.sqlite", create=True)
    with file.transaction() as database:
        for number in range(1000):
            score = 0.5 if number == 997 else 0.9
            note = Document(f"n{number}", "Rome " * 400, (Span(0, 4, "CITY", score),), f"p{number % 250}")
            add_note(database, note, 0.5, submodels=4)
        page = note_page(database, "kim")
    assert [line.name for line in page.lines[:5]] == ["n247", "n497", "n747", "n997", "n0"]
    assert len({line.patient for line in page.lines}) == PAGE / 4
    assert len(str(asdict(page))) < 100 * PAGE
    file.close()


def test_tokens_open_their_own_account_alone(file: ReviewFile) -> None:
    with file.transaction() as database:
        tokens = {name: add_account(database, name, role) for name, role in (("ann", "reviewer"), ("kim", "owner"))}
        assert {account_of(database, token) for token in tokens.values()} == set(read_accounts(database))
        assert account_of(database, tokens["ann"] + "x") is account_of(database, "") is None
        assert add_account(database, "ann", "reviewer") != tokens["ann"]
        assert account_of(database, tokens["ann"]) is None
        kept = database.execute("SELECT salt, hash FROM accounts").fetchall()
        assert not any(token.encode() in bytes(value) for row in kept for value in row for token in tokens.values())
        with pytest.raises(ReviewError, match="a name has"):
            add_account(database, ADJUDICATION, "owner")
        remove_account(database, "ann")
        with pytest.raises(ReviewError, match="no account"):
            remove_account(database, "ann")
        with pytest.raises(ReviewError, match="kim is the last account"):
            remove_account(database, "kim")


def searched_notes(database: sqlite3.Connection, reviewer: str) -> set[int]:
    return {hit.note for hit in find_hits(database, reviewer, Search("name")).hits} | {
        hit.note for hit in find_hits(database, reviewer, Search("Ada")).hits
    }


def test_a_third_person_settles_differences_by_name(file: ReviewFile) -> None:
    with file.transaction() as database:
        finish(database, "kim", 2, finished=True, settle=True)
        begin_layer(database, "lee", 2)
        decide(database, "lee", 2, read_spans(database, "lee", 2)[0].id, "rejected")
        finish(database, "lee", 2, finished=True)
        act_as(Account("lee", "adjudicator"))
        try:
            assert note_page(database, ADJUDICATION).lines == ()
            with pytest.raises(ReviewError, match="third person"):
                begin_layer(database, ADJUDICATION, 2)
            mine = searched_notes(database, ADJUDICATION)
            assert 2 not in mine
            # Marking all passes over what is barred.
            assert mark_all(database, ADJUDICATION, Search("name"), "PATIENT") == Marked(0, 1)
            # Whoever opens it again, or never finished it, has read it all the same.
            finish(database, "ann", 2, finished=True, settle=True)
            finish(database, "lee", 2, finished=False)
            assert note_page(database, ADJUDICATION).lines == ()
            with pytest.raises(ReviewError, match="third person"):
                begin_layer(database, ADJUDICATION, 2)
            finish(database, "lee", 2, finished=True)
            act_as(Account("mo", "adjudicator"))
            assert searched_notes(database, ADJUDICATION) == mine | {2}
            begin_layer(database, ADJUDICATION, 2)
            decide(database, ADJUDICATION, 2, read_spans(database, ADJUDICATION, 2)[0].id, "accepted")
            act_as(Account("lee", "adjudicator"))
            with pytest.raises(ReviewError, match="others' to change"):
                undo(database, ADJUDICATION)
        finally:
            act_as(None)
        row = database.execute("SELECT account FROM steps WHERE reviewer = ?", (ADJUDICATION,)).fetchone()
    assert row["account"] == "mo"


def test_assigned_notes_are_for_those_they_were_assigned_to(tmp_path: Path) -> None:
    file = ReviewFile(tmp_path / "r.sqlite", create=True)
    with file.transaction() as database:
        for number in range(12):
            add_note(database, Document(f"n{number}", "Rome.", patient_id=f"p{number // 2}"), 0.5, submodels=4)
        assert assign(database, ["kim", "lee", "mo"], each=2, seed=1) == {"kim": 8, "lee": 8, "mo": 8}
        assert assign(database, ["kim", "kim"], each=1, seed=1)["kim"] == 8
        mine = {name: {line.id for line in note_page(database, name).lines} for name in ("kim", "lee", "mo", "ann")}
        assert [len(notes) for notes in mine.values()] == [8, 8, 8, 0]
        assert all(sum(note in notes for notes in mine.values()) == 2 for note in range(1, 13))
        with pytest.raises(ReviewError, match="assigned to others"):
            begin_layer(database, "kim", min(set(range(1, 13)) - mine["kim"]))
        # A later note of a patient goes to those who have the others.
        add_note(database, Document("late", "Rome.", patient_id="p1"), 0.5, submodels=4)
        assign(database, ["ann"], each=1, seed=1)
        assert "ann" not in {name for (name,) in database.execute("SELECT reviewer FROM assignments")}
        both = [database.execute("SELECT reviewer FROM assignments WHERE note = ?", (n,)).fetchall() for n in (3, 13)]
        assert {tuple(row) for row in both[0]} == {tuple(row) for row in both[1]}
    file.close()


def test_notes_drawn_at_random_are_marked_and_may_be_read_blind(tmp_path: Path) -> None:
    file = ReviewFile(tmp_path / "r.sqlite", create=True)
    with file.transaction() as database:
        for number in range(20):
            spans = (Span(0, 4, "CITY", 0.9),)
            add_note(database, Document(f"n{number}", "Rome.", spans, f"p{number // 2}"), 0.5, submodels=4)
        begin_layer(database, "kim", 1)
        assert draw(database, 5, blind=True, seed=3) == 6
        drawn = [row["id"] for row in database.execute("SELECT id FROM notes WHERE drawn ORDER BY place")]
        assert len(drawn) == 6
        assert not set(drawn) & {1, 2}
        assert [line.id for line in note_page(database, "kim", order="drawn").lines[:6]] == drawn
        begin_layer(database, "kim", drawn[0])
        assert read_spans(database, "kim", drawn[0]) == []
        for note in (min(set(range(3, 21)) - set(drawn)), drawn[0]):
            finish(database, "kim", note, finished=True, settle=True)
        exported = [document.id for document in reviewed(database, drawn=True).documents]
        assert exported == [f"n{drawn[0] - 1}"]
        with pytest.raises(ReviewError, match="at least one"):
            draw(database, 0, blind=False, seed=3)
        with pytest.raises(ReviewError, match="only 10"):
            draw(database, 13, blind=False, seed=3)
    file.close()


def test_a_guideline_has_versions_and_nobody_overwrites_anothers(file: ReviewFile) -> None:
    with file.transaction() as database:
        assert read_guideline(database).version == 0
        write_guideline(database, "Mark wards.", after=0)
        with pytest.raises(ReviewError, match="meanwhile"):
            write_guideline(database, "Do not mark wards.", after=0)
        second = write_guideline(database, "Do not mark wards. ", after=1)
        assert (read_guideline(database), second.text, second.version) == (second, "Do not mark wards.", 2)
