"""Scores and thresholds are shown and written with four significant digits, however low they are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli import model_changes
from ensemble_deid.deidentify.one_pass import predicted_by
from ensemble_deid.note.digits import four_digits, rounded


@given(st.floats(0.0, 1.0))
def test_four_digits_are_kept_and_nothing_becomes_0(value: float) -> None:
    assert rounded(value) == float(four_digits(value)) == pytest.approx(value, rel=5.1e-4, abs=5e-324)
    assert (rounded(value) == 0) == (value == 0)
    assert 0 <= rounded(value) <= 1


@given(st.floats(0.1, 1.0))
def test_usual_scores_are_as_with_four_decimals(value: float) -> None:
    assert rounded(value) == round(value, 4)


def test_a_low_threshold_is_not_shown_as_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def reset(model: Path) -> tuple[float, str]:
        return 0.0000123456, "training chose"

    monkeypatch.setattr("ensemble_deid.training.thresholds.reset_threshold", reset)
    options: Any = SimpleNamespace(reset=True, dev=None, model=tmp_path)
    model_changes.run_threshold(options)
    assert capsys.readouterr().out.startswith("threshold 1.235e-05, which training chose")


def test_who_predicted_a_span_is_said_in_words() -> None:
    assert predicted_by("crf+neural") == "crf, neural"
    assert predicted_by("token") == "the score of a single word that no candidate covers"
    assert predicted_by("") == "the final estimator alone, in no submodel's own answer"
