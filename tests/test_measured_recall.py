"""What `deidentify` says about the recall at the threshold in use."""

from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.cli.report_facts import measured_recall
from ensemble_deid.model.manifest import Manifest

POINTS = {
    "f1": {"threshold": 0.4, "token_recall": 0.9512, "false_positives_per_1000": 3.04},
    "recall": {"threshold": 0.1, "token_recall": None, "false_positives_per_1000": None},
}
NAMES = ["regex", "crf"]
CONFIG = {"submodels": NAMES}
MANIFEST = Manifest(("DATE",), CONFIG, "", "", {}, choices={"operating_point": {"points": POINTS}})
RECORD = {
    "rule": "sensitivity",
    "wanted": 0.9,
    "view": "token-binary",
    "threshold": 0.3,
    "chosen_at": {"tp": 9, "fp": 2, "fn": 1, "tokens": 1000},
    "notes": {"count": 2, "salt": "s", "digests": "a b"},
}


def test_recall_of_training_out_of_fold() -> None:
    text = measured_recall(MANIFEST, 0.4, submodels=NAMES)
    assert "found 95.1% of the PHI tokens in its training notes, out of fold" in text
    assert "3.0 false positives in 1000 tokens" in text
    assert "an undefined share" in measured_recall(MANIFEST, 0.1, submodels=NAMES)


def test_recall_on_the_notes_that_the_threshold_was_chosen_on() -> None:
    chosen = Manifest(("DATE",), CONFIG, "", "", {}, choices=MANIFEST.choices, figures={"threshold": RECORD})
    assert "found 90.0% of the PHI tokens in the 2 notes that this threshold was chosen on" in measured_recall(
        chosen, 0.3, submodels=NAMES
    )
    assert "out of fold" in measured_recall(chosen, 0.4, submodels=NAMES)


def test_other_thresholds_and_fewer_submodels_were_not_measured() -> None:
    assert measured_recall(MANIFEST, 0.2, submodels=NAMES).startswith("no recall was measured at the threshold 0.2:")
    assert "with these submodels" in measured_recall(MANIFEST, 0.4, submodels=["crf"])


def test_deidentify_says_it(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["deidentify", str(tiny_model), str(tiny_dev)]
    assert main([*arguments, "--out", str(tmp_path / "a.jsonl")]) == 0
    assert "of the PHI tokens in its 8 training notes of 4 patients, out of fold" in capsys.readouterr().out
    assert main([*arguments, "--out", str(tmp_path / "b.jsonl"), "--threshold", "0.123"]) == 0
    assert "at its threshold (0.123) the model found" in capsys.readouterr().out
