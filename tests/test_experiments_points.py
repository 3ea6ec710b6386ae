"""The operating points that training offers, and the thresholds that false positives allow."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.config import load_config
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.curve import just_below, keep_above, trace_curve
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.operating_points import (
    choose_threshold,
    find_point,
    threshold_from_record,
    threshold_to_record,
)
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns
from ensemble_deid.stacking.context import CandidateContext
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.training.thresholds import OF_TRAINING, freeze_threshold
from ensemble_deid.training.train import Trained, train
from ensemble_deid.training.training_notes import refuse_useless
from ensemble_deid.training.training_points import training_points


def scored(found: list[tuple[int, float]], words: int = 10) -> tuple[list[Document], list[Document]]:
    """Return a note of one-letter words, of which the even ones are PHI, and an answer: (word, score)."""
    text = " ".join("x" for _ in range(words))
    gold = Document("a", text, tuple(Span(2 * k, 2 * k + 1, "ID") for k in range(0, words, 2)))
    return [gold], [gold.with_spans(Span(2 * k, 2 * k + 1, "ID", score) for k, score in found)]


def test_the_highest_recall_within_the_false_positives() -> None:
    gold, system = scored([(0, 0.9), (1, 0.8), (2, 0.7), (3, 0.6), (5, 0.5), (4, 0.4)])
    points = {n: choose_threshold(gold, system, rule="false-positives", wanted=n).threshold for n in (0, 100, 200, 300)}
    # 0.6 is within 200, too, but finds no more than 0.7 does.
    assert points == {0: 0.9, 100: 0.7, 200: 0.7, 300: 0.4}
    _, nothing = scored([(1, 0.9), (0, 0.4)])
    assert choose_threshold(gold, nothing, rule="false-positives", wanted=99).threshold is None


@given(
    st.lists(st.tuples(st.integers(0, 19), st.sampled_from([0.1, 0.2, 0.5, 0.9])), unique_by=lambda f: f[0]),
    st.sampled_from([0, 50, 100, 333.3, 1000]),
)
def test_no_other_threshold_finds_more_within_the_bound(found: list[tuple[int, float]], bound: float) -> None:
    gold, system = scored(found, words=20)
    curve = trace_curve(gold, system)
    allowed = [curve.point(k) for k in range(len(curve)) if (curve.point(k).fp_per_1000 or 0) <= bound]
    point = find_point(curve, rule="false-positives", wanted=bound)
    best = max((p.counts.tp for p in allowed), default=None)
    assert (None if point is None else point.counts.tp) == best
    if point is not None:
        assert point in allowed
        assert point.counts.fp == min(p.counts.fp for p in allowed if p.counts.tp == best)


@pytest.mark.parametrize(("rule", "wanted"), [("false-positives", -1), ("false-positives", 1001), ("precision", 5)])
def test_targets_out_of_bounds_are_refused(rule: str, wanted: float) -> None:
    with pytest.raises(EvaluationError, match="must be"):
        choose_threshold(*scored([(0, 0.9), (1, 0.8)]), rule=rule, wanted=wanted)  # type: ignore[arg-type]


def test_the_record_of_such_a_threshold_comes_back() -> None:
    chosen = choose_threshold(*scored([(0, 0.9), (1, 0.8)]), rule="false-positives", wanted=15)
    assert threshold_from_record(json.loads(json.dumps(threshold_to_record(chosen)))) == chosen


# Training


def trained(folder: Path, *overrides: str) -> Trained:
    patterns = folder / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    settings = [f"{key}={value}" for key, value in {**tiny_stack.SETTINGS, "regex.patterns": str(patterns)}.items()]
    config = load_config(overrides=[*settings, *overrides], submodels=["regex", "crf"], folds=2, jobs=1)
    notes = [*tiny_stack.notes(), tiny_stack.note("z", "Seen by Bell Irons on 01/02/2019, not by him.", patient="9")]
    return train(notes, tiny_stack.notes(400, patients=2), config=config, report=lambda step: None)


def test_each_point_is_what_evaluation_says_of_its_threshold(tmp_path: Path) -> None:
    loose = trained(tmp_path, "stack.max_false_positives=200")
    by_name = {point.name: point for point in loose.points.points}
    assert set(by_name) == {"f1", "recall"}
    assert loose.points.frozen == "f1"
    assert loose.ensemble.stacker.threshold == by_name["f1"].threshold == loose.ensemble.stacker.cv_threshold
    recall, f1 = by_name["recall"], by_name["f1"]
    assert recall.tokens.fp_per_1000 is not None
    assert recall.tokens.fp_per_1000 <= 200
    assert recall.tokens.counts.tp >= f1.tokens.counts.tp
    dev = tiny_stack.notes(400, patients=2)
    for point in (recall, f1):
        spans = loose.ensemble.predict(dev, PredictionOptions(threshold=point.threshold))
        found = [document.with_spans(s) for document, s in zip(dev, spans, strict=True)]
        assert point.dev is not None
        assert evaluate(dev, found, resamples=0).score("strict").counts == point.dev[0]
        assert evaluate(dev, found, resamples=0).score("token-binary").counts == point.dev[1].counts
    record = loose.manifest.choices["operating_point"]
    assert record["frozen"] == "f1"
    assert record["points"]["recall"]["threshold"] == recall.threshold
    # Cross-validation measured the same F1.
    assert loose.ensemble.stacker.cv_f1 == pytest.approx(f1.strict.f1)


def test_recall_first_is_frozen_when_it_is_asked_for(tmp_path: Path) -> None:
    overrides = ("stack.max_false_positives=200", 'stack.operating_point="recall"')
    first = trained(tmp_path, *overrides)
    assert first.points.frozen == "recall"
    assert first.ensemble.stacker.threshold == first.points.threshold <= first.ensemble.stacker.cv_threshold
    save_model(first.ensemble, first.stacking_dataset, first.manifest, tmp_path / "model")
    assert load_model(tmp_path / "model")[0].stacker.threshold == first.points.threshold
    # `threshold --reset` comes back to the one that was frozen.
    assert first.manifest.figures[OF_TRAINING] == first.points.threshold


def test_too_many_false_positives_everywhere_is_said(tiny_model: Path) -> None:
    wrong = [note.with_spans([Span(0, 3, "DATE")]) for note in tiny_stack.notes(400, patients=2)]
    with pytest.raises(ModelError, match=r"reaches 0 false positives in 1000 tokens .*: the fewest are \d+\.\d\d, at"):
        freeze_threshold(tiny_model, wrong, rule="false-positives", wanted=0)


def dataset_of(gold: Document, words: list[int]) -> StackingDataset:
    """Return candidates for words of a note, by one submodel that chose none of them."""
    rows, zeros = np.array(words, np.int32), np.zeros(len(words), np.int32)
    confidence = np.full((len(words), 1), 0.5)
    table = CandidateTable(
        ("ID",), ("crf",), zeros, 2 * rows, 2 * rows + 1, zeros, confidence, np.zeros((len(words), 1), bool)
    )
    counts, groups = zeros.astype(np.int64), ["a"] * len(words)
    context = CandidateContext(
        np.zeros((len(words), 8)), {}, counts, counts, groups, groups, NamedColumns.none(len(words))
    )
    return StackingDataset(table, context, table.is_gold([gold.spans]), table.is_phi([gold.spans]), len(gold.spans))


@pytest.mark.parametrize(
    ("cv_threshold", "bound", "expected"),
    [
        (0.65, 100, just_below(0.4)),
        (0.65, 0, 0.65),
        # The best F1 is below, within the bound: the recall is the same here, and higher elsewhere.
        (0.35, 100, 0.35),
        (0.35, 0, just_below(0.8)),
        (0.35, 200, 0.35),
    ],
)
def test_recall_first_takes_the_lowest_threshold_that_can_help(
    cv_threshold: float, bound: float, expected: float
) -> None:
    # Words 0, 2, 4 and so on are PHI; 8 was never proposed.
    gold, _ = scored([])
    words, probability = [0, 1, 2, 3, 4, 6], np.array([0.9, 0.6, 0.8, 0.1, 0.5, 0.4])
    config = load_config(overrides=[f"stack.max_false_positives={bound}"]).stack
    points = training_points(gold, dataset_of(gold[0], words), probability, cv_threshold=cv_threshold, config=config)
    assert {point.name: point.threshold for point in points.points} == {"f1": cv_threshold, "recall": expected}
    by_name = {point.name: point for point in points.points}
    kept = probability >= expected
    right, wrong = int(kept[[0, 2, 4, 5]].sum()), int(kept[[1, 3]].sum())
    assert by_name["recall"].strict == Counts(right, wrong, 5 - right)


def test_what_is_scored_beside_the_candidates_is_on_the_curve() -> None:
    gold, _ = scored([])
    given: list[list[Span]] = []

    def others(resolved: Sequence[Sequence[Span]]) -> list[list[Span]]:
        given.extend(map(list, resolved))
        return [[Span(16, 17, "ID", 0.01)]]

    config = load_config().stack
    dataset = dataset_of(gold[0], [0, 2])
    plain = training_points(gold, dataset, np.array([0.9, 0.8]), cv_threshold=0.5, config=config)
    points = training_points(gold, dataset, np.array([0.9, 0.8]), cv_threshold=0.5, config=config, others=others)
    assert [[(span.start, span.score) for span in spans] for spans in given] == [[(0, 0.9), (4, 0.8)]]
    assert (plain.curve.thresholds.tolist(), plain.curve.tp.tolist()) == ([0.9, 0.8], [1, 2])
    assert (points.curve.thresholds.tolist(), points.curve.tp.tolist()) == ([0.9, 0.8, 0.01], [1, 2, 3])


def test_a_bound_that_nothing_keeps_within_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # What the pattern proposes is wrong in one note of each patient, and all of it looks the same.
    corpus = tmp_path / "train"
    lines = [
        {
            "id": str(k),
            "patient_id": str(k // 4),
            "text": "on 03/04/2019",
            "spans": [{"start": 3, "end": 13, "label": "DATE"}] if k % 4 else [],
        }
        for k in range(16)
    ]
    corpus.mkdir()
    (corpus / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    arguments = [*tiny_stack.settings(tmp_path), "--submodels=regex", "--recall-first"]
    assert main(["train", str(corpus), "--out", str(tmp_path / "model"), *arguments]) == 0
    said = capsys.readouterr()
    assert "no threshold keeps within stack.max_false_positives: the one with the best F1 is frozen" in said.err
    assert "best F1, frozen into the model" in said.out
    assert read_manifest(tmp_path / "model").choices["operating_point"]["frozen"] == "f1"


def test_train_prints_both_points(tmp_path: Path, tiny_train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*tiny_stack.settings(tmp_path), "--submodels=regex,tbed", "--recall-first"]
    assert main(["train", str(tiny_train), "--out", str(tmp_path / "model"), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  best F1" in lines
    assert "  recall first (up to 15 false positives in 1000 tokens), frozen into the model" in lines
    assert sum(line.startswith("    training, out of fold") for line in lines) == 2


def test_a_threshold_and_an_operating_point_contradict() -> None:
    with pytest.raises(ConfigError, match=r"stack\.threshold and stack\.operating_point: give one"):
        load_config(overrides=["stack.threshold=0.4", 'stack.operating_point="recall"'])


def test_a_configured_threshold_is_a_point_of_its_own(tmp_path: Path) -> None:
    result = trained(tmp_path, "stack.threshold=0.35")
    assert result.points.frozen == "given"
    assert result.ensemble.stacker.threshold == 0.35


def test_a_threshold_that_is_stored_keeps_the_span_it_was_chosen_for_beside_other_notes(
    tmp_path: Path, tiny_model: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    dev = tiny_stack.notes(400, patients=2)
    scored_dev = Deidentifier.load(model).predict(dev, threshold=0.0)
    chosen = choose_threshold(dev, scored_dev, rule="sensitivity", wanted=0.9)
    frozen = freeze_threshold(model, dev, rule="sensitivity", wanted=0.9)
    assert chosen.chosen_at is not None
    assert frozen.chosen_at is not None
    assert frozen.chosen_at.counts == chosen.chosen_at.counts
    assert threshold_from_record(read_manifest(model).figures["threshold"]) == frozen
    # As their last digits are beside other notes.
    others = [
        note.with_spans(replace(span, score=span.score * (1 - 1e-11)) for span in note.spans) for note in scored_dev
    ]
    threshold = load_model(model)[0].stacker.threshold
    assert threshold == frozen.threshold == frozen.chosen_at.threshold
    assert trace_curve(dev, keep_above(others, threshold)).at(0.0).counts == chosen.chosen_at.counts


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--sensitivity", "0.9"], "token recall"),
        (["--max-false-positives", "5"], "0.00 false positives in 1000 tokens"),
    ],
)
def test_a_model_is_given_such_a_threshold(
    tmp_path: Path, tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str], option: list[str], said: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    assert main(["model", "threshold", str(model), str(tiny_dev), "--few", *option]) == 0
    assert said in capsys.readouterr().out
    record = threshold_from_record(read_manifest(model).figures["threshold"])
    assert record.wanted == float(option[1])
    assert load_model(model)[0].stacker.threshold == record.threshold


def test_a_bound_below_zero_is_refused(tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "threshold", str(tiny_model), str(tiny_dev), "--few", "--max-false-positives", "-1"]) == 2
    assert "must be between 0 and 1000, not -1" in capsys.readouterr().err


def test_a_model_that_learned_nothing_is_not_saved() -> None:
    gold = [Document(str(n), "Ann Lee", (Span(0, 7, "PATIENT"),)) for n in range(60)]
    found = [note.with_spans([Span(0, 7, "PATIENT", 0.9)] if n < 1 else ()) for n, note in enumerate(gold)]
    curve = trace_curve(gold, found)
    with pytest.raises(ModelError, match="finds 0 of the 120 PHI tokens"):
        refuse_useless(curve, threshold=0.95)
    # Two of 120 tokens are little, but something.
    refuse_useless(curve, threshold=0.5)
