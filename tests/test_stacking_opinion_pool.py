"""The pool of the SVM's and the sequence models' opinions."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.config import make_config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.stacking.named_columns import NamedColumns
from ensemble_deid.stacking.opinion_pool import pooled, pooled_with_sequences
from ensemble_deid.stacking.stacker import SETTINGS, Stacker

PROBABILITIES = st.floats(0, 1)


def test_log_odds_are_averaged_by_weight() -> None:
    found = pooled(np.array([0.8, 0.2, 0.5]), np.log(np.array([0.25, 9.0, 1.0])), 0.25)
    # 0.75 log 4 + 0.25 log 1/4 = log 2; 0.75 log 1/4 + 0.25 log 9 = log(4 ** -0.75 * 3 ** 0.5)
    odds = np.array([2.0, 4**-0.75 * 3**0.5, 1.0])
    np.testing.assert_allclose(found, odds / (1 + odds))


@given(one=PROBABILITIES, other=PROBABILITIES, odds=st.floats(-9, 9), weight=st.floats(0, 0.5))
def test_it_rises_with_both_opinions_and_stays_a_probability(
    one: float, other: float, odds: float, weight: float
) -> None:
    low, high = pooled(np.array([min(one, other), max(one, other)]), np.array([odds, odds]), weight)
    assert 0 < low <= high < 1
    assert (
        pooled(np.array([one]), np.array([odds + 1]), weight)[0] >= pooled(np.array([one]), np.array([odds]), weight)[0]
    )


def test_the_sequence_models_columns_are_averaged_and_others_left_alone() -> None:
    names = ("net:doubt", "phi:crf", "phi:neural", "agrees:crf")
    columns = NamedColumns(names, np.array([[5.0, 1.0, 3.0, 7.0], [5.0, -4.0, 0.0, 7.0]]))
    probability = np.array([0.5, 0.9])
    found = pooled_with_sequences(probability, columns, 0.5)
    np.testing.assert_allclose(found, pooled(probability, np.array([2.0, -2.0]), 0.5))
    assert pooled_with_sequences(probability, columns, 0.0) is probability
    alone = NamedColumns(("net:doubt",), np.zeros((2, 1)))
    assert pooled_with_sequences(probability, alone, 0.5) is probability


def test_a_pool_needs_the_net() -> None:
    with pytest.raises(ConfigError, match=r"stack\.net=true"):
        make_config({"stack": {"pool_weight": 0.3}})
    with pytest.raises(ConfigError, match=r"stack\.pool_weight"):
        make_config({"stack": {"pool_weight": 0.6, "net": True}})
    assert make_config({"stack": {"pool_weight": 0.3, "net": True}}).stack.pool_weight == 0.3


def test_a_model_keeps_its_weight_and_earlier_ones_have_none(tiny_model: Path, tmp_path: Path) -> None:
    stacker = replace(Stacker.load(tiny_model), pool_weight=0.25)
    stacker.save(tmp_path)
    assert Stacker.load(tmp_path).pool_weight == 0.25
    content = json.loads((tmp_path / SETTINGS).read_text(encoding="utf-8"))
    for damaged in ("much", -0.1, 1.1, float("nan"), None):
        (tmp_path / SETTINGS).write_text(json.dumps({**content, "pool_weight": damaged}), encoding="utf-8")
        with pytest.raises(ModelError, match="damaged"):
            Stacker.load(tmp_path)
    del content["pool_weight"]
    (tmp_path / SETTINGS).write_text(json.dumps(content), encoding="utf-8")
    assert Stacker.load(tmp_path).pool_weight == 0.0
