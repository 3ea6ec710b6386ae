"""The pool of the SVM's and the sequence models' opinions."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.config import make_config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.note.overlaps import drop_overlaps, suppressed_scores
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns
from ensemble_deid.stacking.sequence_scores import pooled, pooled_with_sequences
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


def candidates_of(places: list[tuple[int, int, int]]) -> CandidateTable:
    """Return a table of one note's candidates, each a start, an end and a label."""
    columns = np.array(sorted(set(places)), dtype=np.int32).reshape(-1, 3).T
    n = columns.shape[1]
    return CandidateTable(
        ("A", "B"), ("crf",), np.zeros(n, np.int32), *columns, np.zeros((n, 1)), np.zeros((n, 1), dtype=bool)
    )


@st.composite
def ranked(draw: st.DrawFn) -> tuple[CandidateTable, list[float], list[float]]:
    """Return candidates with two scores each."""
    place = st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 1))
    table = candidates_of([(a, a + size, label) for a, size, label in draw(st.lists(place, max_size=12))])
    score = st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    two = (draw(st.lists(score, min_size=len(table), max_size=len(table))) for _ in range(2))
    return table, *two


def kept(table: CandidateTable, scores: Iterable[float], threshold: float = 0.0) -> list[tuple[int, int, str]]:
    """Return what stands at a threshold."""
    values = np.array(list(scores))
    return [s.key for s in drop_overlaps(table.spans(values, values >= threshold, 1)[0])]


@given(ranked())
def test_of_overlapping_candidates_the_one_that_ranks_first_stands(
    drawn: tuple[CandidateTable, list[float], list[float]],
) -> None:
    table, rank, scores = drawn
    found = suppressed_scores(np.array(rank), np.array(scores), table)
    # By hand: in order of rank, what overlaps nothing before it stands.
    standing: list[tuple[int, int, str]] = []
    keys = table.keys()
    for row in sorted(range(len(table)), key=lambda k: (-rank[k], keys[k][0] - keys[k][1], keys[k])):
        key = keys[row]
        if all(key[1] <= other[0] or other[1] <= key[0] for other in standing):
            standing.append(key)
    assert kept(table, found) == sorted(standing)
    for threshold in sorted(set(scores)):
        now = kept(table, found, threshold)
        # Wherever a candidate reached the threshold, a span stands.
        for key, score in zip(table.keys(), scores, strict=True):
            assert score < threshold or any(key[0] < other[1] and other[0] < key[1] for other in now)
    assert all(value <= max(scores) for value in found.tolist())


def test_the_likeliest_borders_take_the_highest_score() -> None:
    # A name, its first word, and its last word with what follows.
    table = candidates_of([(0, 6, 0), (0, 14, 0), (7, 17, 1), (20, 25, 0)])
    rank, scores = np.array([0.2, 0.7, 0.1, 0.4]), np.array([0.9, 0.6, 0.5, 0.3])
    np.testing.assert_allclose(suppressed_scores(rank, scores, table), [0.9, 0.9, 0.5, 0.3], atol=1e-5)
    assert kept(table, suppressed_scores(rank, scores, table), 0.9) == [(0, 14, "A")]
    assert kept(table, scores, 0.5) == [(0, 6, "A"), (7, 17, "B")]


@given(ranked())
def test_where_both_scores_are_one_nothing_changes(drawn: tuple[CandidateTable, list[float], list[float]]) -> None:
    table, rank, _ = drawn
    assert suppressed_scores(np.array(rank), np.array(rank), table).tolist() == rank


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
