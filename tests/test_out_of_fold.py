"""The curve that training leaves in a model: thresholds are chosen on it, and `deidentify` quotes it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.cli.report_facts import measured_recall
from ensemble_deid.config import load_config
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.curve import Curve, just_below, next_lower
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, read_manifest
from ensemble_deid.model.measured import CURVES, curve_from_record, curve_to_record, out_of_fold
from ensemble_deid.model.package import export_model
from ensemble_deid.training.thresholds import freeze_out_of_fold_threshold
from ensemble_deid.training.train import Trained, train

Said = pytest.CaptureFixture[str]


def curve(steps: list[tuple[bool, int]], *, more: int = 0) -> Curve:
    """Return the curve of annotations (right or wrong, how many of one score), with scores that fall evenly."""
    right = np.cumsum([n if is_right else 0 for is_right, n in steps], dtype=np.int64)
    wrong = np.cumsum([0 if is_right else n for is_right, n in steps], dtype=np.int64)
    thresholds = np.linspace(0.99, 0.01, len(steps))
    gold = int(right[-1] if len(steps) else 0) + more
    return Curve("token-binary", thresholds, right, wrong, gold, 10 * (gold + 1))


curves = st.builds(
    lambda steps, more: curve(steps, more=more),
    st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=80),
    st.integers(0, 50),
)


@given(curves)
def test_a_stored_curve_has_points_of_the_curve_and_none_misleads(whole: Curve) -> None:
    stored = curve_from_record(json.loads(json.dumps(curve_to_record(whole))))
    points = [whole.point(index) for index in range(len(whole))]
    assert all(stored.point(index) in points for index in range(len(stored)))
    for at in (0.0, 0.3, 0.77, 1.0):
        full, thin = whole.at(at), stored.at(at)
        assert thin.counts.tp <= full.counts.tp
        assert full.counts.tp - thin.counts.tp <= whole.gold / 500
        assert thin.counts.fp >= full.counts.fp
        assert thin.counts.fp - full.counts.fp <= max(whole.tokens / 10_000, full.counts.fp / 50)
    for point in (stored.point(index) for index in range(len(stored))):
        assert stored.at(point.threshold) == point


def test_a_threshold_keeps_clear_of_the_nearest_scores() -> None:
    counts = np.arange(1, 4, dtype=np.int64)
    curve = Curve("token-binary", np.array([0.8, 0.5, 0.4999]), counts, counts, 9, 100)
    assert [next_lower(curve, score) for score in (0.8, 0.5, 0.4999)] == [0.5, 0.4999, 0.0]
    assert just_below(0.8, lower=0.5) == pytest.approx(0.7992)
    assert just_below(0.5, lower=0.4999) == pytest.approx(0.49995)
    for k, score in enumerate((0.8, 0.5, 0.4999)):
        assert curve.at(just_below(score, lower=next_lower(curve, score))).counts.tp == counts[k]


def test_wrong_candidates_below_all_phi_are_counted() -> None:
    """All PHI that there are candidates for is found at 0.05; what lies below is wrong, and a lot."""
    found = np.array([900, 950] + [950] * 20, dtype=np.int64)
    wrong = np.array([20, 47] + [47 + 100 * k for k in range(1, 21)], dtype=np.int64)
    thresholds = np.array([0.5, 0.05] + [0.05 - 0.0025 * k for k in range(1, 21)])
    whole = Curve("token-binary", thresholds, found, wrong, 1000, 20_000)
    stored = curve_from_record(curve_to_record(whole))
    assert [stored.at(at).fp_per_1000 for at in (0.05, 0.03, 0.0)] == [2.35, 42.35, 102.35]
    # The threshold that is stored for a point has what the point has.
    assert stored.at(just_below(0.5)).fp_per_1000 == stored.at(0.5).fp_per_1000 == 1.0


@given(curves, st.sampled_from([0.2, 0.5, 0.9, 0.99, 1.0]))
def test_what_can_be_reached_on_a_curve_can_be_reached_on_the_stored_one(whole: Curve, wanted: float) -> None:
    stored = curve_from_record(curve_to_record(whole))
    full, thin = (find_point(c, rule="sensitivity", wanted=wanted) for c in (whole, stored))
    if thin is not None:
        assert full is not None
        assert thin.counts.tp >= full.counts.tp
    elif full is not None:
        # Missed by less than a step.
        assert max(stored.tp) > full.counts.tp - whole.gold / 500


def test_a_damaged_record_is_refused() -> None:
    record = curve_to_record(curve([(True, 3), (False, 2), (True, 1)]))
    assert len(curve_from_record(record)) == 3
    for changes in (
        {"view": "letters"},
        {"gold": 2},
        {"tp": record["tp"][::-1]},
        {"thresholds": [0.9, 0.5, float("nan")]},
        {"fp": [0]},
        {"fp": [0, 1, "2"]},
        {"fp_between": [0, 1, 2]},
        {"fp_between": [2, 3, 2]},
        {"more": 1},
    ):
        with pytest.raises(EvaluationError, match=r"a stored curve|of a stored curve"):
            curve_from_record({**record, **changes})
    with pytest.raises(ModelError, match=f"{CURVES} is damaged"):
        out_of_fold(Manifest(("A",), {}, "", "", {}, figures={CURVES: {"curves": {"crf": record}}}), ["crf"])


# In models


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may change."""
    shutil.copytree(tiny_model, tmp_path / "model")
    return tmp_path / "model"


def stored(model: Path) -> Curve:
    manifest = read_manifest(model)
    found = out_of_fold(manifest, manifest.config["submodels"])
    assert found is not None
    return found.curve


def test_training_leaves_the_curve_of_every_final_estimator(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(tiny_stack.PATTERNS, encoding="utf-8")
    settings = {**tiny_stack.SETTINGS, "regex.patterns": str(tmp_path / "tiny.toml"), "stack.also_without": '["crf"]'}
    config = load_config(
        overrides=[f"{key}={value}" for key, value in settings.items()],
        submodels=["regex", "tbed", "crf"],
        folds=2,
        jobs=1,
    )
    trained: Trained = train(tiny_stack.notes(), config=config)
    for names in (["regex", "tbed", "crf"], ["regex", "tbed"]):
        found = out_of_fold(trained.manifest, names)
        assert found is not None
        assert found.notes == "its 8 training notes of 4 patients, out of fold"
        assert found.curve.gold == trained.points.curve.gold
    for point in trained.points.points:
        whole = out_of_fold(trained.manifest, ["regex", "tbed", "crf"])
        assert whole is not None
        # So few annotations that no point is left out but those that find nothing more.
        assert whole.curve.at(point.threshold).counts.tp == point.tokens.counts.tp
    assert out_of_fold(trained.manifest, ["regex"]) is None


def test_the_threshold_is_chosen_without_notes(model: Path, capsys: Said) -> None:
    curve = stored(model)
    wanted = curve.point(len(curve) // 2).counts.recall
    assert wanted
    expected = find_point(curve, rule="sensitivity", wanted=wanted)
    assert expected is not None
    # An exported model, without its private files, has the curve.
    exported = model.parent / "exported"
    export_model(model, exported, compact=True)
    for path in (model, exported):
        capsys.readouterr()
        assert main(["model", "threshold", str(path), "--sensitivity", str(wanted)]) == 0
        said = capsys.readouterr().out
        assert said.splitlines()[0] == f"threshold {expected.threshold:.4g} is now in {path}"
        assert "on its 8 training notes of 4 patients, out of fold: token recall" in said
        assert load_model(path)[0].stacker.threshold == just_below(expected.threshold)
    assert main(["model", "threshold", str(model), "--max-false-positives", "1000"]) == 0
    most = find_point(curve, rule="false-positives", wanted=1000)
    assert most is not None
    assert load_model(model)[0].stacker.threshold == just_below(most.threshold)


def test_what_cannot_be_reached_is_said(model: Path, capsys: Said) -> None:
    def cut(directory: Path, manifest: Manifest) -> Manifest:
        record = json.loads(json.dumps(manifest.figures[CURVES]))
        for one in record["curves"].values():
            one["gold"] += 50
        return replace(manifest, figures={**manifest.figures, CURVES: record})

    update_model(model, cut)
    before = (model / "manifest.json").read_bytes()
    assert main(["model", "threshold", str(model), "--sensitivity", "0.99"]) == 2
    error = capsys.readouterr().err
    assert "no threshold reaches sensitivity 0.99 on its 8 training notes of 4 patients, out of fold: the high" in error
    assert error.endswith("the model is as it was\n")
    assert (model / "manifest.json").read_bytes() == before
    assert main(["model", "threshold", str(model), "--sensitivity", "0.9", "--allow-overlap"]) == 2
    assert "--allow-overlap goes with DEV" in capsys.readouterr().err


def test_a_model_without_a_curve_asks_for_notes(model: Path) -> None:
    def remove(directory: Path, manifest: Manifest) -> Manifest:
        figures = {name: figure for name, figure in manifest.figures.items() if name != CURVES}
        return replace(manifest, figures=figures)

    update_model(model, remove)
    with pytest.raises(ModelError, match=r"holds no curve of its training.* name annotated notes"):
        freeze_out_of_fold_threshold(model, rule="sensitivity", wanted=0.9)


# What deidentify says


def test_deidentify_quotes_the_curve_at_any_threshold(
    model: Path, tiny_dev: Path, tmp_path: Path, capsys: Said
) -> None:
    curve = stored(model)

    def said(*options: str) -> str:
        capsys.readouterr()
        assert main(["deidentify", str(model), str(tiny_dev), "--out", str(tmp_path / "out.jsonl"), *options]) == 0
        return capsys.readouterr().out

    def expected(threshold: float) -> str:
        return (
            f"({threshold:.4g}) the model found {100 * (curve.at(threshold).counts.recall or 0):.1f}% of the PHI tokens"
        )

    assert expected(0.05) in said("--threshold", "0.05")
    assert expected(0.9) + " in its 8 training notes of 4 patients, out of fold" in said("--threshold", "0.9")
    chosen, _ = freeze_out_of_fold_threshold(model, rule="false-positives", wanted=1000)
    assert chosen.threshold is not None
    assert expected(chosen.threshold) in said()
    assert main(["model", "threshold", str(model), str(tiny_dev), "--few", "--max-false-positives", "1000"]) == 0
    assert "in the 4 notes that this threshold was chosen on" in said()


def test_fewer_submodels_have_their_own_curve_or_none(tiny_model: Path) -> None:
    manifest = read_manifest(tiny_model)
    names: list[str] = manifest.config["submodels"]
    record = manifest.figures[CURVES]
    both = {**record["curves"], "regex,crf": next(iter(record["curves"].values()))}
    more = replace(manifest, figures={CURVES: {**record, "curves": both}})
    told = {submodels: measured_recall(more, 0.123, submodels=submodels.split(",")) for submodels in both}
    assert told["regex,crf"] == told[",".join(names)]
    none = measured_recall(more, 0.123, submodels=["regex"])
    assert none.startswith("no recall was measured at the threshold 0.123 with these submodels:")
