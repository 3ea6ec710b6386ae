"""Intervals and tests by resampling patients."""

from itertools import product

import numpy as np
import pytest

from ensemble_deid.evaluation import bootstrap
from ensemble_deid.evaluation.bootstrap import (
    bootstrap_interval,
    measure_of,
    paired_difference,
    resample_totals,
    sum_by_group,
)
from ensemble_deid.evaluation.pairs import EvaluationError

GROUPS = ["p2", "p1", "p2", "p3"]
A = np.array([[8, 1, 1], [5, 0, 2], [9, 2, 0], [7, 1, 1]])
B = np.array([[7, 2, 2], [5, 1, 2], [8, 2, 1], [7, 2, 1]])


def test_counts_of_one_patient_are_added_up() -> None:
    assert sum_by_group(A, GROUPS).tolist() == [[5, 0, 2], [17, 3, 1], [7, 1, 1]]
    with pytest.raises(EvaluationError, match="4 rows of counts came with 1 patients"):
        sum_by_group(A, ["p1"])


def test_every_resample_is_a_draw_of_as_many_patients() -> None:
    by_group = sum_by_group(A, GROUPS)
    possible = {tuple(by_group[list(draw)].sum(axis=0)) for draw in product(range(3), repeat=3)}
    totals = resample_totals(by_group, resamples=2_500, seed=3)
    assert {tuple(row) for row in totals.astype(int)} == possible
    assert np.allclose(totals.mean(axis=0), by_group.sum(axis=0), rtol=0.03)


@pytest.fixture
def few_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few patients that all draws can be enumerated would have no interval."""
    monkeypatch.setattr(bootstrap, "LEAST_CLUSTERS", 2)


def test_fewer_than_ten_patients_have_no_interval() -> None:
    rows = np.array([[9, 1, 3]] * 10)
    names = [str(number) for number in range(10)]
    assert bootstrap_interval(rows, names, resamples=100).low is not None
    nine = bootstrap_interval(rows[:9], names[:9], resamples=100)
    assert (nine.low, nine.high) == (None, None)
    # A test needs no interval: its p value is exact for any number.
    assert paired_difference(A, B, GROUPS, resamples=100).p_value is not None


@pytest.mark.usefixtures("few_clusters")
def test_the_interval_agrees_with_all_draws_enumerated() -> None:
    rows = np.array([[9, 1, 3], [4, 4, 1], [2, 0, 5], [6, 2, 2]])
    every = np.array([rows[list(draw)].sum(axis=0) for draw in product(range(4), repeat=4)]).astype(float)
    low, high = np.quantile(measure_of(every, "f1"), [0.025, 0.975])
    interval = bootstrap_interval(rows, ["a", "b", "c", "d"], resamples=20_000)
    assert interval.low == pytest.approx(low, abs=0.01)
    assert interval.high == pytest.approx(high, abs=0.01)


@pytest.mark.usefixtures("few_clusters")
def test_undefined_resamples_are_left_out_and_counted() -> None:
    rows = np.array([[0, 0, 0], [3, 1, 0]])
    interval = bootstrap_interval(rows, ["a", "b"], resamples=1_000)
    assert 200 < interval.undefined < 300
    assert interval.low is not None


@pytest.mark.parametrize("rows", [np.zeros((3, 3), dtype=np.int64), np.array([[3, 1, 0]])])
def test_no_interval_where_none_is_defined(rows: np.ndarray) -> None:
    interval = bootstrap_interval(rows, [str(i) for i in range(len(rows))], resamples=100)
    assert (interval.low, interval.high) == (None, None)


def test_the_same_seed_gives_the_same_figures_and_order_does_not_matter() -> None:
    one = paired_difference(A, B, GROUPS, seed=5, resamples=500)
    order = [3, 1, 0, 2]
    assert paired_difference(A[order], B[order], [GROUPS[i] for i in order], seed=5, resamples=500) == one
    assert paired_difference(A, B, GROUPS, seed=6, resamples=500) != one


def test_randomisation_agrees_with_all_exchanges_enumerated() -> None:
    rng = np.random.default_rng(0)
    a = np.column_stack([rng.integers(5, 9, 8), rng.integers(0, 2, 8), rng.integers(0, 2, 8)])
    b = np.column_stack([rng.integers(4, 9, 8), rng.integers(0, 3, 8), rng.integers(0, 3, 8)])
    observed = abs(float(measure_of(a.sum(axis=0), "f1") - measure_of(b.sum(axis=0), "f1")))
    as_large = 0
    for swap in product([False, True], repeat=8):
        mask = np.array(swap)[:, None]
        x, y = np.where(mask, b, a).sum(axis=0), np.where(mask, a, b).sum(axis=0)
        as_large += abs(float(measure_of(x, "f1") - measure_of(y, "f1"))) >= observed - 1e-12
    result = paired_difference(a, b, [str(i) for i in range(8)], resamples=20_000)
    assert result.p_value == pytest.approx(as_large / 2**8, abs=0.015)


@pytest.mark.usefixtures("few_clusters")
def test_a_system_does_not_differ_from_itself() -> None:
    result = paired_difference(A, A, GROUPS, resamples=200)
    assert (result.difference, result.interval.low, result.interval.high, result.p_value) == (0, 0, 0, 1)


def test_an_undefined_difference_has_no_p_value() -> None:
    nothing = np.zeros((4, 3), dtype=np.int64)
    result = paired_difference(A, nothing, GROUPS, measure="precision", resamples=50)
    assert (result.b, result.difference, result.p_value) == (None, None, None)
    assert result.interval.undefined == 50


def test_pieces_do_not_change_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resample_totals(sum_by_group(A, GROUPS), resamples=50)
    difference = paired_difference(A, B, GROUPS, resamples=50)
    monkeypatch.setattr(bootstrap, "_PIECE", 7)
    assert (resample_totals(sum_by_group(A, GROUPS), resamples=50) == whole).all()
    assert paired_difference(A, B, GROUPS, resamples=50) == difference


def test_without_resamples_there_is_neither_interval_nor_p_value() -> None:
    result = paired_difference(A, B, GROUPS, resamples=0)
    assert (result.interval.low, result.p_value) == (None, None)
    assert result.difference is not None


def test_systems_scored_on_other_notes_are_refused() -> None:
    with pytest.raises(EvaluationError, match="differ in shape"):
        paired_difference(A, B[:3], GROUPS)
