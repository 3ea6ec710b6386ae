"""The chain's exact inference against every tagging written out."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from viterbi import viterbi

from ensemble_deid.taggers import decoding
from ensemble_deid.taggers.chain import LinearChain, Marginals, n_best
from ensemble_deid.taggers.decoding import decode, entities_in

N_LABELS = 2
N_TAGS = 2 * N_LABELS + 1


def random_chain(seed: int, time: int) -> tuple[LinearChain, np.ndarray]:
    rng = np.random.default_rng(seed)
    chain = LinearChain(rng.normal(0, 2, (N_TAGS, N_TAGS)), rng.normal(0, 1, N_TAGS), rng.normal(0, 1, N_TAGS))
    return chain, rng.normal(0, 2, (time, N_TAGS))


def all_paths(chain: LinearChain, emissions: np.ndarray) -> list[tuple[float, tuple[int, ...]]]:
    paths = []
    for tags in itertools.product(range(N_TAGS), repeat=len(emissions)):
        score = chain.start[tags[0]] + chain.end[tags[-1]]
        score += sum(emissions[t, tag] for t, tag in enumerate(tags))
        score += sum(chain.transitions[a, b] for a, b in itertools.pairwise(tags))
        paths.append((float(score), tags))
    return sorted(paths, reverse=True)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_best_and_n_best_are_those_of_the_enumeration(seed: int, time: int) -> None:
    chain, emissions = random_chain(seed, time)
    expected = all_paths(chain, emissions)
    assert tuple(viterbi(chain, emissions[None], np.array([time], dtype=np.int32))[0]) == expected[0][1]
    paths, scores = n_best(chain, emissions[None], np.array([time], dtype=np.int32), 5)
    assert [tuple(path) for path in paths[0]] == [tags for _, tags in expected[:5]]
    assert scores[0] == pytest.approx([score for score, _ in expected[:5]])


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 6))
def test_where_paths_are_equal_every_better_one_is_found(seed: int, time: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    chain = LinearChain(*(rng.integers(-1, 2, shape).astype(float) for shape in ((N_TAGS, N_TAGS), N_TAGS, N_TAGS)))
    emissions = rng.integers(-1, 2, (time, N_TAGS)).astype(float)
    every = all_paths(chain, emissions)
    score_of = {tags: score for score, tags in every}
    paths, scores = n_best(chain, emissions[None], np.array([time], dtype=np.int32), n)
    found = [tuple(path) for path, score in zip(paths[0], scores[0], strict=True) if np.isfinite(score)]
    assert len(set(found)) == len(found)
    assert [score_of[path] for path in found] == [score for score in scores[0] if np.isfinite(score)]
    limit = every[min(n, len(every)) - 1][0]
    assert {tags for score, tags in every if score > limit} <= set(found)


def spans_of(tags: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (first, after, label) of each entity in a sequence of tags, tag by tag."""
    spans: list[tuple[int, int, int]] = []
    going_on = 0
    for t, tag in enumerate(tags):
        label = (tag - 1) // 2
        if tag and tag == going_on:
            spans[-1] = (spans[-1][0], t + 1, label)
        elif tag:
            spans.append((t, t + 1, label))
        going_on = 2 * label + 2 if tag else 0
    return spans


@given(st.lists(st.integers(0, 2 * N_LABELS), max_size=12))
def test_entities_are_those_read_tag_by_tag(tags: list[int]) -> None:
    columns = entities_in(np.array(tags, dtype=np.int32))
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == spans_of(tags)


def span_probability(marginals: Marginals, first: int, after: int, label: int) -> float:
    """Return the probability of one span in the first sequence."""
    row, low, high = np.array([[0], [first], [after]])
    return float(marginals.span_probabilities(row, low, high, np.array([label], dtype=np.int32))[0])


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_span_probabilities_are_sums_over_all_taggings(seed: int, time: int) -> None:
    chain, emissions = random_chain(seed, time)
    paths = all_paths(chain, emissions)
    total = np.logaddexp.reduce([score for score, _ in paths])
    expected: dict[tuple[int, int, int], float] = {}
    for score, tags in paths:
        for span in spans_of(tags):
            expected[span] = expected.get(span, 0.0) + float(np.exp(score - total))
    marginals = Marginals.from_emissions(chain, emissions[None], np.array([time], dtype=np.int32))
    for (first, after, label), probability in expected.items():
        assert span_probability(marginals, first, after, label) == pytest.approx(probability, abs=1e-9)


def test_fewer_taggings_than_asked_for_have_no_score() -> None:
    chain, emissions = random_chain(1, 1)
    _, scores = n_best(chain, emissions[None], np.array([1], dtype=np.int32), 7)
    assert np.isneginf(scores[0, N_TAGS:]).all()
    assert np.isfinite(scores[0, :N_TAGS]).all()


def test_the_probability_of_every_tag_is_that_of_the_paths_through_it() -> None:
    chain, emissions = random_chain(5, 6)
    phi = decode(chain, emissions, np.array([0, 2], dtype=np.int32), n=0).phi
    # (sequences, steps, tags): the longer first, the shorter padded with its last.
    padded = emissions[[[2, 3, 4, 5], [0, 1, 1, 1]]]
    found = Marginals.from_emissions(chain, padded, np.array([4, 2], dtype=np.int32)).of_tags()
    for marginals, low, high in ((found[1], 0, 2), (found[0], 2, 6)):
        paths = all_paths(chain, emissions[low:high])
        weights = np.exp([score for score, _ in paths])
        for t in range(low, high):
            for tag in range(N_TAGS):
                through = sum(w for w, (_, tags) in zip(weights, paths, strict=True) if tags[t - low] == tag)
                assert marginals[t - low, tag] == pytest.approx(through / weights.sum())
            assert phi[t] == pytest.approx(1 - marginals[t - low, 0], abs=1e-6)


def test_sequences_of_different_lengths_are_decoded_each_for_itself() -> None:
    chain, emissions = random_chain(3, 9)
    starts = np.array([0, 2, 3, 7], dtype=np.int32)
    together = decode(chain, emissions, starts, n=5, certain=1.0)
    for low, high in itertools.pairwise([*starts.tolist(), 9]):
        assert tuple(together.best[low:high]) == all_paths(chain, emissions[low:high])[0][1]
    assert all(
        any(a <= s.first < s.after <= b for a, b in itertools.pairwise([0, 2, 3, 7, 9])) for s in together.candidates
    )


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.sampled_from([4, 4096]),
    st.sampled_from([0.5, 1.0]),
)
def test_a_batch_gives_each_sequence_what_it_gets_alone(
    seed: int, lengths: list[int], batch_tokens: int, certain: float
) -> None:
    chain, emissions = random_chain(seed, sum(lengths))
    starts = np.cumsum([0, *lengths[:-1]]).astype(np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_BATCH_TOKENS", batch_tokens)
        together = decode(chain, emissions, starts, n=3, certain=certain)
    expected = []
    for low, length in zip(starts.tolist(), lengths, strict=True):
        alone = decode(chain, emissions[low : low + length], np.zeros(1, dtype=np.int32), n=3, certain=certain)
        assert together.best[low : low + length].tolist() == alone.best.tolist()
        expected += [(s.first + low, s.after + low, s.label, pytest.approx(s.probability)) for s in alone.candidates]
    assert [(s.first, s.after, s.label, s.probability) for s in together.candidates] == expected


def test_an_orphan_inside_tag_opens_an_entity() -> None:
    assert spans_of([0, 2, 2, 1, 4, 0, 3, 4, 2]) == [(1, 3, 0), (3, 4, 0), (4, 5, 1), (6, 8, 1), (8, 9, 0)]
    assert spans_of([]) == spans_of([0]) == []


def test_decoding_finds_what_an_unpruned_search_finds() -> None:
    """Peaked scores, as trained taggers give: the candidates that matter are those of the exact search."""
    rng = np.random.default_rng(5)
    n_tags, n_tokens = 15, 120
    chain = LinearChain(rng.normal(size=(n_tags, n_tags)), rng.normal(size=n_tags), rng.normal(size=n_tags))
    emissions = rng.normal(size=(n_tokens, n_tags)) * 2
    emissions[:, 0] += 9
    emissions[rng.random(n_tokens) < 0.1, 0] -= 8
    starts = np.array([0, 30, 31, 70], dtype=np.int32)
    found = decode(chain, emissions, starts, n=5)
    expected: dict[tuple[int, int, int], float] = {}
    best = np.zeros(n_tokens, dtype=np.int32)
    for low, high in itertools.pairwise([*starts.tolist(), n_tokens]):
        lengths = np.array([high - low], dtype=np.int32)
        paths, _ = n_best(chain, emissions[None, low:high], lengths, 5)
        marginals = Marginals.from_emissions(chain, emissions[None, low:high], lengths)
        best[low:high] = viterbi(chain, emissions[None, low:high], lengths)[0]
        for path in paths[0]:
            for first, after, label in spans_of(path):
                expected[(low + first, low + after, label)] = span_probability(marginals, first, after, label)
    assert (found.best == best).all()
    kept = {(s.first, s.after, s.label): s.probability for s in found.candidates if s.probability >= 0.01}
    certain = {key: value for key, value in expected.items() if value >= 0.01}
    assert len(kept) > 5
    assert set(kept) <= set(certain)
    assert all(kept[key] == pytest.approx(certain[key]) for key in kept)
    assert all(value < 0.05 for key, value in certain.items() if key not in kept)
