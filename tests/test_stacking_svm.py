"""The final estimator's SVM against scikit-learn's, and its sigmoid."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from ensemble_deid.errors import ModelError
from ensemble_deid.stacking.svm import ZHAO2020, Sigmoid, Svm, SvmSettings


def examples(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(3, 2, (n, 4))
    features[:, 3] = np.log(9)
    return features, features[:, 0] + rng.normal(0, 1, n) > 3


@pytest.mark.parametrize("chosen", [ZHAO2020, SvmSettings(1.0, 1.0, 0.3), SvmSettings(0.4, 2.0, 0.05)])
def test_decisions_are_those_of_scikit_learn(chosen: SvmSettings) -> None:
    features, right = examples()
    unseen, _ = examples(3000, seed=1)
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale[3] = 1  # The last feature never changes.
    costs = {True: chosen.c_positive, False: chosen.c_negative}
    known, new = (np.clip((rows - mean) / scale, -3, 3) for rows in (features, unseen))
    reference = SVC(C=1.0, gamma=chosen.gamma, class_weight=costs).fit(known, right)
    ours = Svm.fit(features, right, chosen)
    np.testing.assert_allclose(ours.decision_function(unseen), reference.decision_function(new), atol=1e-9)


def test_a_feature_that_never_changed_in_training_weighs_little_later() -> None:
    features, right = examples()
    svm = Svm.fit(features, right, SvmSettings(1.0, 1.0, 0.05))
    elsewhere = features + np.array([0, 0, 0, 0.5])
    assert (np.sign(svm.decision_function(elsewhere)) == np.sign(svm.decision_function(features))).mean() > 0.9


def test_features_far_from_the_mean_are_clipped() -> None:
    features, right = examples()
    svm = Svm.fit(features, right, SvmSettings(1.0, 1.0, 0.05))
    far, farther = (np.array([[3.0 + d, 3.0, 3.0, np.log(9)]]) for d in (20.0, 2000.0))
    assert svm.decision_function(far)[0] == svm.decision_function(farther)[0] > svm.intercept


@pytest.mark.parametrize(("right", "decision"), [(True, 1.0), (False, -1.0)])
def test_where_all_are_alike_the_answer_is_always_that(right: bool, decision: float, tmp_path: Path) -> None:
    features, _ = examples(5)
    svm = Svm.fit(features, np.full(5, right), ZHAO2020)
    assert svm.decision_function(features[:2]).tolist() == [decision] * 2
    assert read(svm.to_bytes(), tmp_path).decision_function(features[:2]).tolist() == [decision] * 2


def test_no_candidates_at_all() -> None:
    svm = Svm.fit(np.zeros((0, 4)), np.zeros(0, bool), ZHAO2020)
    assert svm.decision_function(np.ones((1, 4))).tolist() == [-1.0]
    assert svm.decision_function(np.zeros((0, 4))).tolist() == []


def read(data: bytes, folder: Path) -> Svm:
    (folder / "svm").write_bytes(data)
    return Svm.of_file(folder / "svm")


def test_bytes_hold_the_whole_machine(tmp_path: Path) -> None:
    features, right = examples()
    svm = Svm.fit(features, right, ZHAO2020)
    data = svm.to_bytes()
    again = read(data, tmp_path)
    assert again.settings == svm.settings
    assert (again.decision_function(features) == svm.decision_function(features)).all()
    assert again.to_bytes() == data == Svm.fit(features, right, ZHAO2020).to_bytes()


def test_compact_bytes_are_smaller_and_decide_nearly_the_same(tmp_path: Path) -> None:
    features, right = examples()
    svm = Svm.fit(features, right, SvmSettings(1.0, 1.0, 0.3))
    compact = read(svm.to_bytes(compact=True), tmp_path)
    assert (compact.vectors.dtype, svm.vectors.dtype) == (np.float16, np.float64)
    np.testing.assert_allclose(compact.decision_function(features), svm.decision_function(features), atol=0.01)


def test_damaged_bytes_are_model_errors(tmp_path: Path) -> None:
    data = Svm.fit(*examples(12), ZHAO2020).to_bytes()
    for size in range(len(data)):
        with pytest.raises(ModelError, match="the stacker's file is damaged"):
            read(data[:size], tmp_path)
    for old, new in ((b"intercept", b"intercapt"), (b'"scale"', b'"scule"'), (b"__metadata__", b"__metudata__")):
        assert old in data
        with pytest.raises(ModelError, match="the stacker's file is damaged"):
            read(data.replace(old, new), tmp_path)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(-3, 3), st.booleans()), max_size=20))
def test_a_larger_decision_never_means_less(pairs: list[tuple[float, bool]]) -> None:
    decisions = np.array([pair[0] for pair in pairs])
    sigmoid = Sigmoid.fit(decisions, np.array([pair[1] for pair in pairs], dtype=bool))
    probability = sigmoid.probability(np.linspace(-3, 3, 20))
    assert (np.diff(probability) >= 0).all()
    assert ((probability >= 0) & (probability <= 1)).all()


def test_the_sigmoid_is_calibrated() -> None:
    rng = np.random.default_rng(0)
    decisions = rng.normal(0, 1, 4000)
    right = rng.random(4000) < 1 / (1 + np.exp(-(2 * decisions - 0.5)))
    sigmoid = Sigmoid.fit(decisions, right)
    assert sigmoid.slope == pytest.approx(2, abs=0.2)
    assert sigmoid.offset == pytest.approx(-0.5, abs=0.15)


def test_a_steep_sigmoid_does_not_overflow() -> None:
    sigmoid = Sigmoid.fit(np.array([3.0, 2.9375]), np.array([True, False]))
    assert sigmoid.probability(np.array([-9.0, 9.0])).tolist() == [pytest.approx(0.0), pytest.approx(1.0)]


def test_decisions_that_say_the_opposite_say_nothing() -> None:
    sigmoid = Sigmoid.fit(np.array([0.0, 1.0, 2.0]), np.array([True, True, False]))
    assert sigmoid.probability(np.array([-1.0, 0.0, 3.0])) == pytest.approx([2 / 3] * 3, abs=0.01)
