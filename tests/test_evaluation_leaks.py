"""What leaks, and how large a rate may be that was not seen."""

import pytest

from ensemble_deid.evaluation.bootstrap import Share, clopper_pearson_upper, rule_of_three
from ensemble_deid.evaluation.leaks import LeakView, NotesWithErrors, leaks_of_pairs
from ensemble_deid.evaluation.pairs import EvaluationError, pair_documents
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey


def note(id: str, text: str, *keys: SpanKey, patient: str | None = None, kind: str | None = None) -> Document:
    spans = tuple(Span(start, end, label) for start, end, label in keys)
    return Document(id, text, spans, patient, {} if kind is None else {"kind": kind})


def find_leaks(gold: list[Document], system: list[Document]) -> LeakView:
    return leaks_of_pairs(pair_documents(gold, system))


ADA = "Ada Gil, b. 1/2/31"


def test_any_uncovered_letter_or_digit_is_a_leak_whatever_the_label() -> None:
    gold = [note("a", ADA, (0, 7, "PATIENT"), (12, 18, "DATE"))]
    # the blank in the name and the slashes of the date need not be covered
    system = [note("a", ADA, (0, 3, "CITY"), (4, 7, "AGE"), (12, 13, "ID"), (14, 15, "ID"), (16, 17, "ID"))]
    leaks = find_leaks(gold, system)
    assert leaks.total.phi == Share(1, 2)
    assert leaks.missed_whole == Share(0, 2)
    assert leaks.characters == Share(1, 10)
    assert leaks.by_label["PATIENT"].phi == Share(0, 1)
    assert leaks.by_label["DATE"].phi == Share(1, 1)


def test_characters_of_overlapping_gold_count_once_and_marks_alone_can_leak() -> None:
    gold = [note("a", "Ada Gil --", (0, 7, "PATIENT"), (4, 7, "PATIENT"), (8, 10, "OTHER"))]
    leaks = find_leaks(gold, [note("a", "Ada Gil --", (0, 3, "PATIENT"))])
    assert leaks.characters == Share(5, 8)
    assert leaks.missed_whole == Share(2, 3)


def test_notes_and_patients_with_a_leak() -> None:
    gold = [
        note("a", ADA, (0, 7, "PATIENT"), (12, 18, "DATE"), patient="p"),
        note("b", ADA, (0, 7, "PATIENT"), patient="p"),
        note("c", ADA, (12, 18, "DATE"), patient="q"),
        note("d", ADA, patient="r"),
    ]
    system = [note("a", ADA), note("b", ADA), note("c", ADA, (12, 18, "DATE")), note("d", ADA)]
    leaks = find_leaks(gold, system)
    assert (leaks.total.notes, leaks.total.patients) == (Share(2, 4), Share(1, 3))
    assert (leaks.by_label["DATE"].notes, leaks.by_label["DATE"].patients) == (Share(1, 2), Share(1, 2))
    assert leaks.by_errors == (
        NotesWithErrors(1, 1, 1, 1, 0.5, 1.0),
        NotesWithErrors(2, 1, 2, 3, 1.0, 2.0),
    )


def test_coverage_is_that_of_the_paper() -> None:
    # Murugadoss et al. 2021, table 5: 525 notes with one error, 80 with two, the other errors in fewer notes.
    rest = [(3, 10), (4, 6), (5, 6), (6, 2), (7, 2), (8, 2), (9, 3), (10, 1)]
    gold, system = [], []
    for errors, notes in [(1, 525), (2, 80), *rest]:
        for i in range(notes):
            id = f"{errors}-{i}"
            gold.append(note(id, "x " * errors, *((2 * k, 2 * k + 1, "AGE") for k in range(errors))))
            system.append(note(id, "x " * errors))
    # 848 errors at a recall of 99.4% are about 141,333 annotations
    text = "y " * 140_485
    keys = [(2 * k, 2 * k + 1, "AGE") for k in range(140_485)]
    leaks = find_leaks([*gold, note("found", text, *keys)], [*system, note("found", text, (0, len(text), "AGE"))])
    found = [row.coverage for row in leaks.by_errors]
    expected = [0.9978, 0.9989, 0.9991, 0.9992, 0.9994, 0.9995, 0.9996, 0.9997, 0.9999, 1]
    assert found == pytest.approx(expected, abs=1e-4)


def test_kinds_of_notes() -> None:
    gold = [
        note("a", ADA, (0, 7, "PATIENT"), kind="letter"),
        note("b", ADA, (0, 7, "PATIENT"), kind="letter"),
        note("c", ADA, (0, 7, "PATIENT")),
    ]
    rows = find_leaks(gold, [note("a", ADA), note("b", ADA, (0, 7, "CITY")), note("c", ADA, (0, 7, "CITY"))]).by_kind
    assert [(row.kind, row.missed, row.phi, row.notes) for row in rows] == [
        ("letter", 1, 2, Share(1, 2)),
        (None, 0, 1, Share(0, 1)),
    ]
    assert find_leaks([note("a", ADA)], [note("a", ADA)]).by_kind == ()


def test_bounds_of_a_rate() -> None:
    assert clopper_pearson_upper(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert rule_of_three(100) == 0.03
    assert clopper_pearson_upper(0, 300) == pytest.approx(rule_of_three(300), rel=0.01)
    # Table value: 95% one-sided upper limit of 2 in 20 is 28.3%
    assert clopper_pearson_upper(2, 20) == pytest.approx(0.283, abs=5e-4)
    assert clopper_pearson_upper(4, 4) == 1.0
    assert rule_of_three(2) == 1.0
    share = Share(0, 50)
    assert (share.share, share.three_in_n) == (0.0, 0.06)
    assert (Share(1, 50).three_in_n, Share(0, 0).upper, Share(0, 0).share) == (None, None, None)
    for count, total in [(1, 0), (-1, 3), (4, 3)]:
        with pytest.raises(EvaluationError):
            clopper_pearson_upper(count, total)
