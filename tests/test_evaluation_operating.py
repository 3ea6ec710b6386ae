"""Thresholds: the curve against a slow reference, and the refusal to choose on what is reported."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.evaluation.curve import CURVE_VIEWS, has_scores, keep_above, trace_curve
from ensemble_deid.evaluation.operating_points import (
    KnownNotes,
    NoScoresError,
    choose_threshold,
    find_operating_points,
    report_threshold,
    threshold_from_record,
    threshold_to_record,
    without_digests,
)
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span

TEXT = "an a1 bb 22 cc 3-3 dd 44 ee 55 ff"

spans = st.builds(
    lambda start, length, label, score: Span(start, start + length, label, score),
    st.integers(0, 24),
    st.integers(1, 8),
    st.sampled_from(["DATE", "AGE", "PATIENT", "DOCTOR"]),
    st.sampled_from([0.0, 0.2, 0.2, 0.5, 0.9, 1.0]),
)
sides = st.lists(spans, max_size=6)


@settings(max_examples=40)
@given(sides, sides, sides, sides)
def test_each_point_is_what_counting_the_kept_annotations_gives(
    g1: list[Span], s1: list[Span], g2: list[Span], s2: list[Span]
) -> None:
    gold = [Document("a", TEXT, tuple(g1)), Document("b", TEXT, tuple(g2))]
    system = [Document("a", TEXT, tuple(s1)), Document("b", TEXT, tuple(s2))]
    for view in CURVE_VIEWS:
        curve = trace_curve(gold, system, view=view)
        for threshold in [0.0, 0.1, 0.2, 0.5, 0.7, 0.9, 1.0]:
            expected = count_view(gold, keep_above(system, threshold), view).total
            assert curve.at(threshold).counts == expected
        for index in range(len(curve)):
            assert curve.point(index) == curve.at(float(curve.thresholds[index]))


@settings(max_examples=40)
@given(sides, st.sampled_from([0.1, 0.2, 0.6, 1.0]))
def test_a_threshold_may_come_before_or_after_overlaps_are_dropped(given_spans: list[Span], threshold: float) -> None:
    before = drop_overlaps(span for span in given_spans if span.score >= threshold)
    after = tuple(span for span in drop_overlaps(given_spans) if span.score >= threshold)
    assert before == after


def ten_notes(prefix: str, scores: list[tuple[bool, float]]) -> tuple[list[Document], list[Document]]:
    """One annotation a note, right or wrong, with its score; every note has one gold annotation at 0-2."""
    gold, system = [], []
    for number, (right, score) in enumerate(scores):
        text = f"{prefix}{number} 22 note"
        note = Document(f"{prefix}{number}", text, (Span(0, 2, "ID"),))
        gold.append(note)
        system.append(note.with_spans([Span(0, 2, "ID", score) if right else Span(3, 5, "ID", score)]))
    return gold, system


DEV = ten_notes("d", [(True, 0.9), (True, 0.8), (False, 0.7), (True, 0.6), (True, 0.5), (False, 0.4)])
TEST = ten_notes("t", [(True, 0.9), (False, 0.85), (True, 0.6), (True, 0.4)])


def test_the_highest_threshold_that_reaches_a_sensitivity_is_chosen() -> None:
    chosen = choose_threshold(*DEV, wanted=0.5, view="strict")
    assert chosen.threshold == 0.6
    assert chosen.chosen_at is not None
    assert chosen.chosen_at.counts == Counts(3, 1, 3)
    # six notes of three tokens each
    assert (chosen.chosen_at.fn_per_1000, chosen.chosen_at.fp_per_1000) == (1000 * 3 / 18, 1000 / 18)
    unreached = choose_threshold(*DEV, wanted=0.7, view="strict")
    assert (unreached.threshold, unreached.chosen_at) == (None, None)


def test_the_highest_recall_among_precise_thresholds_is_chosen() -> None:
    chosen = choose_threshold(*DEV, rule="precision", wanted=0.8, view="strict")
    assert chosen.threshold == 0.5
    assert choose_threshold(*DEV, rule="precision", wanted=0.81, view="strict").threshold == 0.8


def test_a_threshold_is_reported_on_other_notes() -> None:
    reported = report_threshold(*TEST, choose_threshold(*DEV, wanted=0.5, view="strict"))
    assert reported.point is not None
    assert reported.point.counts == Counts(2, 1, 2)
    assert not reported.oracle


def test_choosing_on_what_is_reported_is_refused_unless_the_output_says_so() -> None:
    with pytest.raises(EvaluationError, match="chosen on development notes"):
        find_operating_points(*DEV)
    chosen = choose_threshold(*DEV, wanted=0.5)
    renamed = (
        [replace(note, id=f"other-{note.id}") for note in DEV[0]],
        [replace(note, id=f"other-{note.id}") for note in DEV[1]],
    )
    with pytest.raises(EvaluationError, match="6 of the 6 notes"):
        report_threshold(*renamed, chosen)
    assert report_threshold(*renamed, chosen, oracle=True).oracle
    with pytest.raises(EvaluationError, match="1 of the 5 notes"):
        find_operating_points(TEST[0] + DEV[0][:1], TEST[1] + DEV[1][:1], dev=DEV)
    assert find_operating_points(*DEV, oracle=True).oracle
    assert not find_operating_points(*TEST, dev=DEV, oracle=True).oracle


def test_a_guessed_note_cannot_be_found_by_hashing_it() -> None:
    text = "Seen, no change."
    notes = [Document("a", text, (Span(0, 4, "ID"),)), *DEV[0]]
    scored = [notes[0].with_spans([Span(0, 4, "ID", 0.7)]), *DEV[1]]
    record = json.dumps(threshold_to_record(choose_threshold(notes, scored, wanted=0.5)))
    spellings = {text, text.lower(), text + "\n", "".join(text.split())}
    methods = ("sha256", "sha1", "md5", "sha512", "blake2b", "blake2s", "sha3_256")
    tables = {hashlib.new(method, spelling.encode()).hexdigest() for method in methods for spelling in spellings}
    assert not [digest for digest in tables if digest[:12] in record]
    # Nor is it known from the digests of another choice.
    other = KnownNotes.of(notes[:1])
    assert not other.digests & KnownNotes.of(notes).digests
    assert other == KnownNotes.of([replace(notes[0], id="b", text=f" {text}\n", spans=())])


def test_an_exported_record_keeps_the_number_of_notes() -> None:
    exported = threshold_from_record(without_digests(threshold_to_record(choose_threshold(*DEV, wanted=0.5))))
    assert exported.notes == KnownNotes(len(DEV[0]))
    assert exported.notes.shared(DEV[0]) == 0


def test_recall_at_precision_leaves_an_imprecise_system_alone() -> None:
    at = find_operating_points(*TEST, dev=DEV, view="strict").recall_at_precision
    # as it is, the system's precision on dev is 4/6 < 0.85
    assert not at.adjusted
    assert at.reported.counts == Counts(3, 1, 1)
    at = find_operating_points(*TEST, dev=DEV, view="strict", precision=0.6, threshold=0.55).recall_at_precision
    assert at.adjusted
    assert at.reported.threshold == 0.5
    assert at.reported.counts == Counts(2, 1, 2)


def test_all_operating_points_of_the_paper() -> None:
    points = find_operating_points(*TEST, dev=DEV)
    assert [point.chosen.wanted for point in points.sensitivities] == [0.99, 0.997, 0.999, 1.0]
    assert points.as_it_is == points.curve.at(0.0)


def test_a_system_without_scores_has_no_threshold() -> None:
    gold, _ = DEV
    assert not has_scores(gold)
    with pytest.raises(EvaluationError, match="all scores are the same"):
        choose_threshold(gold, gold)
    with pytest.raises(EvaluationError, match="has no curve"):
        trace_curve(gold, gold, view="overlap")
    with pytest.raises(EvaluationError, match="sensitivity, precision"):
        choose_threshold(*DEV, rule="f1")  # type: ignore[arg-type]
    with pytest.raises(EvaluationError, match="at most 1, not 99"):
        choose_threshold(*DEV, wanted=99)


def test_notes_without_annotations_have_an_empty_curve() -> None:
    note = Document("a", "nothing here")
    curve = trace_curve([note], [note])
    assert len(curve) == 0
    assert curve.at(0.5).counts == Counts()


def test_labels_restrict_every_side() -> None:
    def relabelled(notes: list[Document], names: tuple[str, ...]) -> list[Document]:
        return [
            note.with_spans(replace(span, label=names[k % len(names)]) for span in note.spans)
            for k, note in enumerate(notes)
        ]

    names = ("DATE", "PATIENT")
    dev, test = ([relabelled(side, names) for side in sides] for sides in (DEV, TEST))
    points = find_operating_points(*test, dev=(dev[0], dev[1]), labels=["DATE"])
    only = [[note.with_spans(s for s in note.spans if s.label == "DATE") for note in side] for side in (*test, *dev)]
    assert points == replace(find_operating_points(only[0], only[1], dev=(only[2], only[3])), curve=points.curve)
    assert points.curve.gold == 2
    assert points.as_it_is.counts == Counts(2, 0, 0)
    assert find_operating_points(*test, dev=(dev[0], dev[1]), labels=["NAME"]).curve.gold == 2
    with pytest.raises(NoScoresError):
        find_operating_points(*test, dev=(dev[0], dev[1]), labels=["SSN"])
    with pytest.raises(EvaluationError, match="no label, group or category 'Nobody'"):
        find_operating_points(*test, dev=(dev[0], dev[1]), labels=["Nobody"])


def test_the_command_restricts_operating_points(
    tmp_path: Path, tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["evaluate", str(tiny_dev), str(tiny_model), "--oracle", "--resamples", "0", "--out", str(figures)]

    def point() -> dict[str, float]:
        content = json.loads(figures.read_text(encoding="utf-8"))
        found: dict[str, float] = content["operating_points"]["as_it_is"]
        scores = [s for s in content["scores"] if (s["view"], s["part"]) == ("token-binary", "total")]
        assert (found["tp"], found["fp"], found["fn"]) == tuple(scores[0][key] for key in ("tp", "fp", "fn"))
        return found

    assert main(arguments) == 0
    everything = point()
    assert main([*arguments, "--labels", "CITY"]) == 0
    assert 0 < point()["tp"] < everything["tp"]
    capsys.readouterr()
    assert main([*arguments, "--labels", "SSN"]) == 0
    said = capsys.readouterr()
    assert "--labels SSN: too few annotations" in said.err
    assert "Operating points" not in said.out
