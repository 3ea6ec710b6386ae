"""The compiled core against numpy and plain loops on small random input; arrays that do not fit are refused."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from ensemble_deid.compiled import SWITCH, has_core
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.chain import LinearChain, Marginals, n_best, sorted_top
from ensemble_deid.taggers.layers import LstmPair, single
from ensemble_deid.taggers.tbed import learn_rules, parse_templates

pytestmark = pytest.mark.skipif(not has_core(), reason="the compiled core is not installed")

if has_core():
    from ensemble_deid import _core as core


@pytest.mark.parametrize("seed", range(20))
def test_the_n_best_taggings_are_numpys(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    tags, n = int(rng.integers(1, 12)), int(rng.integers(1, 7))
    lengths = np.sort(rng.integers(1, 9, size=5)).astype(np.int32)[::-1]
    chain = LinearChain(rng.normal(size=(tags, tags)), rng.normal(size=tags), rng.normal(size=tags))
    emissions = rng.normal(size=(5, int(lengths[0]), tags))
    likely = sorted_top(emissions, min(4, tags))
    compiled = [*n_best(chain, emissions, lengths, n, likely=likely), *n_best(chain, emissions, lengths, n), likely]
    monkeypatch.setenv(SWITCH, "none")
    likely = sorted_top(emissions, min(4, tags))
    plain = [*n_best(chain, emissions, lengths, n, likely=likely), *n_best(chain, emissions, lengths, n), likely]
    finite = np.isfinite(plain[1])
    for ours, theirs in zip(compiled, plain, strict=True):
        rows = finite if ours.shape[:2] == finite.shape else slice(None)
        assert np.array_equal(ours[rows], theirs[rows])


@pytest.mark.parametrize("seed", range(10))
def test_the_passes_are_numpys_to_the_last_digits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    tags = int(rng.integers(1, 30))
    lengths = np.sort(rng.integers(1, 40, size=5)).astype(np.int32)[::-1]
    chain = LinearChain(*(3 * rng.normal(size=shape) for shape in ((tags, tags), tags, tags)))
    emissions = 5 * rng.normal(size=(5, int(lengths[0]), tags))
    compiled = Marginals.from_emissions(chain, emissions, lengths)
    monkeypatch.setenv(SWITCH, "none")
    plain = Marginals.from_emissions(chain, emissions, lengths)
    for name in ("forward", "backward", "local"):
        assert np.allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("key", [np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize(("label", "weight"), [(np.uint8, np.float32), (np.uint16, np.float64)])
def test_scores_of_windows_are_those_of_a_dictionary(key: Any, label: Any, weight: Any) -> None:
    rng = np.random.default_rng(3)
    tokens, tags, labels, sizes = 600, 30, 20, (7, 9)
    tag = rng.permutation(tags)[:labels].astype(np.int64)
    counts = rng.integers(0, labels + 1, size=40)
    begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    label_of = np.concatenate([rng.permutation(labels)[:count] for count in counts]).astype(label)
    weights = rng.normal(size=len(label_of)).astype(weight)
    windows, expected = [], np.zeros((tokens, tags))
    for first, seen, parts in ((0, 4, 1), (4, 36, 2), (40, 0, 1)):
        keys = np.sort(rng.permutation(7 * 9 if parts == 2 else 7)[:seen]).astype(key)
        values = tuple(rng.integers(-1, size, size=tokens) for size in sizes[:parts])
        windows.append((keys, first, values, sizes[:parts]))
        attribute = {int(value): first + k for k, value in enumerate(keys)}
        for token, found in enumerate(zip(*values, strict=True)):
            joined = found[0] if parts == 1 else found[0] * 9 + found[1]
            if min(found) >= 0 and joined in attribute:
                low, high = begins[attribute[joined] : attribute[joined] + 2]
                expected[token, tag[label_of[low:high]]] += weights[low:high]
    scores = np.zeros((tokens, tags))
    core.add_windows(scores, tags, (begins, label_of, tag, weights), windows)
    assert np.array_equal(scores, expected)


TEMPLATES = ["word[0]", "tag[-1]", "word in [-2,1]", "word[-1] & word[0] & word[1]", "word in [-3,-1] & tag in [1,2]"]


@pytest.mark.parametrize("seed", range(8))
def test_rules_are_numpys(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, lists and sweeps all count; in the first corpus a template is merged."""
    rng = np.random.default_rng(seed)
    words = rng.zipf(1.4, size=3000).clip(max=400).astype(np.int32)
    column = Column(words, tuple(map(str, range(401 if seed else 1 << 21))))
    gold = [f"T{(word + before % 2) % 4}" for word, before in zip(words, np.roll(words, 1), strict=True)]
    initial = [tag if keeps else "T0" for tag, keeps in zip(gold, rng.random(3000) < 0.6, strict=True)]
    starts = [0, *(1 + np.flatnonzero(rng.random(2999) < 0.1)).tolist()]
    given = ({"word": column}, initial, gold, starts, parse_templates(TEMPLATES))
    compiled = learn_rules(*given, max_rules=60, min_score=1)
    monkeypatch.setenv(SWITCH, "none")
    assert compiled == learn_rules(*given, max_rules=60, min_score=1)
    assert len(compiled) > 20


def contexts() -> dict[str, list[Any]]:
    """Sound arrays: one instance with a tag and a cell in its key, over rows of ones, zeros, tags and words."""
    cells = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 2, 0]], np.int32).ravel()
    looks = np.array([[6, 9, 9, 3, 10, 1, -11]], np.int64)
    longs = {name: np.array([value]) for name, value in {"place": 1, "zero": 0, "key": 1}.items()}
    place, zero, key = longs.values()
    matrix = [cells, np.zeros(3, np.uint8), np.ones(1, bool), looks, 2]
    index = [np.full(16, -2), np.zeros(16, np.int32), np.zeros(2, np.int64), 1, 63]
    lists, pair = [np.ones(3, bool), place, np.array([0, 1])], [zero, zero, zero, zero]
    return {
        "context_keys": [matrix, place, zero, np.empty(1, np.int64)],
        "count_contexts": [matrix, place, zero, np.zeros(2, np.int32)],
        "count_matches": [matrix, lists, pair, [key, zero], np.zeros(1, np.int32)],
        "find_keys": [index, key, np.empty(1, np.int64)],
        "place_keys": [index, key, 0],
    }


def arrays_in(given: list[Any]) -> list[tuple[list[Any], int]]:
    inner = [found for part in given if isinstance(part, list) for found in arrays_in(part)]
    return inner + [(given, k) for k, part in enumerate(given) if isinstance(part, np.ndarray)]


def call(name: str, given: list[Any]) -> Any:
    return getattr(core, name)(*(tuple(part) if isinstance(part, list) else part for part in given))


# Of each array: is it refused where its numbers are hostile, and where it is empty? Cells, results and entries of an
# index may be any numbers; an index that seems full has no room.
REFUSED = {
    "context_keys": (".RRRRR.", "RRRRRRR"),
    "count_contexts": (".RRRRR.", "RRRR..R"),
    "count_matches": (".RRRRRRRRRR...", "RRRRRRRRRRRRRR"),
    "find_keys": (".....", "RRRRR"),
    "place_keys": ("....", "RRR."),
}


@pytest.mark.parametrize("name", sorted(contexts()))
def test_contexts_are_read_inside_their_arrays_only(name: str) -> None:
    sound = contexts()[name]
    call(name, sound)
    results = {"context_keys": [1], "count_contexts": [0, 1], "count_matches": [1], "find_keys": [-1]}
    if name in results:
        assert sound[-1].tolist() == results[name]
    for k in range(len(arrays_in(sound))):
        # Of another type, and then hostile: far outside, before the start, and empty.
        for damage in (
            lambda array: array.astype(np.float64),
            lambda array: array.astype(np.int16),
            lambda array: np.full_like(array, np.iinfo(array.dtype).max) if array.dtype != bool else array[:0],
            lambda array: np.full_like(array, -5) if array.dtype.kind == "i" else array[:0],
            lambda array: array[:0],
        ):
            given = contexts()[name]
            holder, at = arrays_in(given)[k]
            holder[at] = damaged = damage(holder[at])
            if damaged.dtype in (np.float64, np.int16):
                with pytest.raises(ValueError, match="another type"):
                    call(name, given)
            else:
                refused = REFUSED[name][not len(damaged)][k] == "R"
                with pytest.raises(ValueError, match=r"fit|shape") if refused else nullcontext():
                    call(name, given)


def test_arrays_that_do_not_fit_are_refused() -> None:
    ints, long = np.zeros(2, np.int32), np.zeros(4, np.int64)
    window = [(np.zeros(1, np.uint16), 0, (np.zeros(2, np.int64),), (1,))]
    sound = (np.array([0, 1], np.int32), np.zeros(1, np.uint8), np.zeros(1, np.int64), np.ones(1))
    core.add_windows(np.zeros(4), 2, sound, window)
    damage = {
        0: np.array([0, 2], np.int32),
        1: np.ones(1, np.uint8),
        2: np.full(1, 2, np.int64),
        3: np.ones(2),
    }
    for place, wrong in damage.items():
        with pytest.raises(ValueError, match="fit"):
            core.add_windows(np.zeros(4), 2, (*sound[:place], wrong, *sound[place + 1 :]), window)
    with pytest.raises(ValueError, match="fit"):
        core.add_windows(np.zeros(4), 2, sound, [(np.zeros(1, np.uint16), 1, (np.zeros(2, np.int64),), (1,))])
    with pytest.raises(ValueError, match="other tokens"):
        core.add_windows(np.zeros(6), 2, sound, window)
    scores, found = (np.zeros((2, 2)), np.zeros(2), np.zeros(2)), (np.zeros(4, np.int32), np.zeros(2))
    for lengths, likely in ((ints, long), (ints + 3, long), (ints + 2, long + 2), (ints + 2, long[1:])):
        with pytest.raises(ValueError, match="fit"):
            core.n_best(scores, (np.zeros(8), likely, lengths), found, (2, 2, 1, 1))
    chances, eight = (np.eye(2), np.eye(2), np.ones(2), np.ones(2)), np.ones(8)
    core.forward_backward(chances, ints + 2, (eight, eight, eight), 2)
    for lengths, last in ((ints, eight), (ints + 3, eight), (ints + 2, eight[1:])):
        with pytest.raises(ValueError, match="fit"):
            core.forward_backward(chances, lengths, (eight, eight, last), 2)
    with pytest.raises(ValueError, match="fit"):
        core.likely_tags(np.zeros(4), np.zeros(4, np.int64), 2, 3)


@pytest.mark.parametrize("name", ["forward_backward", "likely_tags", "n_best"])
def test_arrays_of_another_type_are_refused(name: str) -> None:
    tags, ints, longs = (np.zeros((2, 2)), np.zeros(2), np.zeros(2)), np.full(2, 2, np.int32), np.zeros(4, np.int64)
    paths, scores = [np.zeros(4, np.int32), np.zeros(2)], (2, 2, 1, 1)
    sound = {
        "forward_backward": [[np.eye(2), *tags], ints, [np.ones(8), np.ones(8), np.ones(8)], 2],
        "likely_tags": [np.zeros(8), longs, 2, 1],
        "n_best": [[*tags], [np.zeros(8), longs, ints], paths, scores],
    }[name]
    call(name, sound)
    for holder, at in arrays_in(sound):
        array = holder[at]
        other: Any = {np.dtype(np.float64): np.int64, np.dtype(np.int64): np.float64}.get(array.dtype, np.float32)
        # As many bytes, so that only the type is wrong.
        holder[at] = array.view(other)
        with pytest.raises(ValueError, match="another type"):
            call(name, sound)
        holder[at] = array


def test_strings_that_do_not_fit_are_refused() -> None:
    text, ends, places = np.frombuffer(b"ann\nbo\n", np.uint8), np.array([3, 6], np.uint32), np.zeros(1, np.int64)
    core.find_strings(text, ends, 1, [b"bo"], places)
    assert places.tolist() == [1]
    for wrong, gap in ((np.array([3, 9], np.uint32), 1), (np.array([6, 3], np.uint32), 1), (ends, 7), (ends, -9)):
        with pytest.raises(ValueError, match="fit"):
            core.find_strings(text, wrong, gap, [b"zz"], places)
        assert not core.strings_in_order(text, wrong, gap)
    assert core.strings_in_order(text, ends, 1)
    other = (text.view(np.int8), ends, places), (text, ends.astype(np.uint64), places), (text, ends, places[:0])
    for some, last, found in other:
        with pytest.raises(ValueError, match="shape"):
            core.find_strings(some, last, 1, [b"bo"], found)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        core.find_strings(text, ends, 1, ["bo"], places)  # type: ignore[list-item]


def random_lstm(hidden: int, width: int = 5) -> LstmPair:
    rng = np.random.default_rng(hidden)
    shapes = {"weight_ih_l0": (4 * hidden, width), "weight_hh_l0": (4 * hidden, hidden)}
    shapes |= dict.fromkeys(("bias_ih_l0", "bias_hh_l0"), (4 * hidden,))
    weights = {f"{way}.{name}": shape for way in ("forwards", "backwards") for name, shape in shapes.items()}
    return LstmPair({name: (0.3 * rng.normal(size=shape)).astype(np.float32) for name, shape in weights.items()})


@pytest.mark.parametrize("hidden", [1, 3, 16, 64])
def test_states_of_an_lstm_are_numpys_to_the_last_digits(hidden: int) -> None:
    pair, rng = random_lstm(hidden), np.random.default_rng(1)
    mask = np.arange(9)[None, :] < np.array([9, 1, 4, 0])[:, None]
    vectors = rng.normal(size=(4, 9, 5)).astype(np.float32)
    found = pair(vectors, mask)
    np.testing.assert_allclose(found[mask], pair._in_numpy(vectors, mask)[mask], atol=2e-6)
    for row in range(3):
        size = mask[row].sum()
        given = single(vectors[mask]) @ pair.inputs + pair.bias
        first = mask[:row].sum()
        alone = np.empty((size, 2 * hidden), np.float32)
        own = np.ascontiguousarray(given[:, first : first + size])
        core.run_lstm(own, pair.states, np.array([size]), alone)
        assert np.array_equal(alone, found[row, :size]), "a sequence's states depend on the others"


def test_an_lstm_of_other_sizes_is_refused() -> None:
    given, weights = np.zeros((2, 3, 8), np.float32), np.zeros((2, 2, 8), np.float32)
    states, lengths = np.zeros((3, 4), np.float32), np.array([2, 0, 1])
    core.run_lstm(given, weights, lengths, states)
    for wrong in ([2], [2, 2], [4, -1], [2**62, 2**62], []):
        with pytest.raises(ValueError, match="fit"):
            core.run_lstm(given, weights, np.array(wrong, np.int64), states)
    others = (
        (given[:1], weights, states),
        (given[:, :, :4].copy(), weights, states),
        (given, weights[:, :, :4].copy(), states),
        (given, weights[:, :1].copy(), states),
        (given, weights, states[:2]),
        (given, weights, states[:, :2].copy()),
        (given.astype(np.float64), weights, states),
        (given, weights, states.astype(np.float64)),
        (given, weights[::-1], states),
    )
    for some, by, into in others:
        with pytest.raises(ValueError, match=r"fit|shape|contiguous"):
            core.run_lstm(some, by, lengths, into)


def test_gates_far_out_saturate_and_padding_is_zero() -> None:
    pair = random_lstm(3)
    outputs = [[(-1) ** k * size for k in range(12)] for size in (0.1, 3, 7.9, 8, 20, 1e30)]
    given = np.array([outputs, outputs], np.float32)
    states = np.empty((6, 6), np.float32)
    core.run_lstm(given, np.zeros_like(pair.states), np.ones(6, np.int64), states)
    into, _, out, cell = np.moveaxis(np.tanh(np.array(outputs, np.float64)).reshape(6, 4, 3), 1, 0)
    expected = (out / 2 + 0.5) * np.tanh((into / 2 + 0.5) * cell)
    np.testing.assert_allclose(states, np.concatenate([expected, expected], axis=1), atol=1e-6)
    nothing = np.zeros((2, 4), bool)
    for mask in (nothing, nothing[:, :0], nothing[:0]):
        assert not pair(np.ones((*mask.shape, 5), np.float32), mask).any()


def test_padding_is_zero_in_numpy_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, mask = random_lstm(3), np.array([[True, False], [False, False]])
    vectors = np.ones((2, 2, 5), np.float32)
    compiled = pair(vectors, mask)
    monkeypatch.setenv(SWITCH, "none")
    assert not pair(vectors, mask)[~mask].any()
    assert not compiled[~mask].any()
    assert pair(vectors[:, :0], mask[:, :0]).shape == (2, 0, 6)
