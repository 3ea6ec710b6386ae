"""Boosted trees beside the SVM, and the columns that tell them how much PHI is around a candidate."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from test_stacking_stacker import ONE, OTHERS, noisy_proposals
from tiny_notes import SCHEME, plain, tiny_notes

from ensemble_deid.arrays import Flags, Floats
from ensemble_deid.config import make_config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import plain_batch
from ensemble_deid.mapped import MappedArrays, to_file_bytes
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import CandidateTable, collect
from ensemble_deid.stacking.context import density_columns
from ensemble_deid.stacking.dataset import build_stacking_dataset
from ensemble_deid.stacking.stacker import TREES, Stacker
from ensemble_deid.stacking.trees import _SETTINGS, BoostedTrees, TreePair
from ensemble_deid.taggers.base import Proposals

CONFIG = make_config({"jobs": 1, "stack": {**ONE, "net": True, "trees": True}})
WORDS = ["Ann", "saw", "Bob", "on", "May", "\n", "3"]


def rows_of(seed: int, n: int) -> tuple[Floats, Flags]:
    random = np.random.default_rng(seed)
    features = np.round(random.normal(size=(n, 4)), 1)
    return features, features[:, 0] * features[:, 1] + random.normal(size=n) > 0


def test_trees_give_what_the_library_gives_whichever_rows_are_asked_together() -> None:
    features, target = rows_of(0, 600)
    trees = BoostedTrees.fit(features, target)
    trees.check(4)
    theirs = HistGradientBoostingClassifier(**_SETTINGS).fit(features, target)
    asked, _ = rows_of(1, 200)
    found = trees.log_odds(asked)
    np.testing.assert_allclose(found, theirs.decision_function(asked), rtol=1e-12, atol=1e-12)
    assert found.tolist() == [float(trees.log_odds(asked[k : k + 1])[0]) for k in range(len(asked))]
    assert trees.log_odds(asked[:0]).shape == (0,)


@pytest.mark.parametrize("target", [np.ones(5, bool), np.zeros(5, bool), np.zeros(0, bool)])
def test_one_class_has_no_trees(target: Flags) -> None:
    trees = BoostedTrees.fit(np.ones((len(target), 2)), target)
    trees.check(2)
    (found,) = trees.log_odds(np.zeros((1, 2))).tolist()
    assert np.sign(found) == (0 if not len(target) else 1 if target.all() else -1)


def slow_density(table: CandidateTable, text: str, odds: list[float]) -> list[list[float]]:
    """Compute the columns of a note of words and line breaks, each between blanks, token by token."""
    tokens, lines, at, line = [], [], 0, 0
    for word in text.split(" "):
        if word == "\n":
            line += 1
        else:
            tokens.append((at, at + len(word)))
            lines.append(line)
        at += len(word) + 1
    places = list(zip(table.start.tolist(), table.end.tolist(), strict=True))
    expected = [
        max(
            [1 / (1 + np.exp(-o)) for (a, b), o in zip(places, odds, strict=True) if a < end and start < b], default=0.0
        )
        for start, end in tokens
    ]
    rows = []
    for a, b in places:
        own = [k for k, (start, end) in enumerate(tokens) if a < end and start < b]
        first, after = min(own), max(own) + 1
        chosen = (
            range(len(tokens)),
            range(max(0, first - 40), min(len(tokens), after + 40)),
            [k for k in range(len(tokens)) if lines[first] <= lines[k] <= lines[after - 1]],
        )
        others = [[k for k in some if k not in own] for some in chosen]
        rows.append(
            [float(np.log((sum(expected[k] for k in some) + 0.5) / (len(some) + 5))) for some in others]
            + [float(np.log1p(len(tokens)))]
        )
    return rows


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=120).filter(lambda words: set(words) != {"\n"}), st.data())
def test_density_counts_the_phi_around(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    places = [k for k, word in enumerate(words) if word != "\n"]
    starts = [len(" ".join(words[:k])) + (k > 0) for k in range(len(words))]
    spans = [
        Span(starts[a], starts[b] + len(words[b]), "DATE", 0.5)
        for a, b in data.draw(st.lists(st.tuples(*[st.sampled_from(places)] * 2), max_size=9))
        if a <= b
    ]
    spans = sorted(set(spans))
    table = collect({"crf": Proposals((tuple(spans),), (tuple(spans),))}, labels=SCHEME.labels)
    odds = data.draw(st.lists(st.floats(-9, 9), min_size=len(table), max_size=len(table)))
    batch = plain_batch([Document("a", text)], patterns=NO_PATTERNS, split_lines=True)
    found = density_columns(table, batch, np.array(odds))
    assert found.names == ("density:note", "density:near", "density:line", "density:length")
    np.testing.assert_allclose(
        found.values, np.array(slow_density(table, text, odds)).reshape(len(table), 4), atol=1e-9
    )


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=5), st.integers(0, 25), st.integers(1, 9))
def test_half_of_the_characters_make_a_text_phi(gold: list[tuple[int, int]], start: int, size: int) -> None:
    spans = (Span(start, start + size, "DATE", 1.0),)
    table = collect({"crf": Proposals((spans,), (spans,))}, labels=SCHEME.labels)
    inside = sum(any(a <= k < a + n for a, n in gold) for k in range(start, start + size))
    found = table.is_phi([[Span(a, a + n, "ID", 1.0) for a, n in gold]])
    assert found.tolist() == [inside >= size / 2]


def test_a_stacker_with_trees_survives_the_disk_and_damage_is_refused(tmp_path: Path) -> None:
    notes = tiny_notes(20)
    dataset = build_stacking_dataset(
        noisy_proposals(notes, seed=0),
        plain(notes),
        labels=SCHEME.labels,
        min_confidence=0.01,
        net=True,
        density=True,
    )
    stacker, probability = Stacker.fit_and_score(dataset, config=CONFIG, progress=lambda message: None)
    assert stacker.trees is not None
    assert ((probability >= 0) & (probability <= 1)).all()
    stacker.save(tmp_path)
    proposals, batch = noisy_proposals(OTHERS, seed=5), plain(OTHERS)
    found = Stacker.load(tmp_path).predict_proba(proposals, batch)
    assert found == stacker.predict_proba(proposals, batch)
    without = Stacker.fit(dataset, config=make_config({"jobs": 1, "stack": ONE}), progress=lambda message: None)
    assert without.trees is None

    path = tmp_path / TREES
    data, arrays = path.read_bytes(), dict(MappedArrays.of_file(path).arrays)
    left, value = arrays["phi.left"].copy(), arrays["right.base"].copy()
    left[:1], value[:] = 0, np.nan
    changes = (
        {"phi.left": left - 1},
        {"phi.left": arrays["phi.left"][:-1]},
        {"phi.roots": arrays["phi.roots"] + 10**6},
        {"right.base": value},
        {"phi.feature": arrays["phi.feature"] + 10**6},
        {"phi.value": arrays["phi.value"].astype(np.float32)},
    )
    damaged = [b"", data[:-1], *(to_file_bytes({**arrays, **change}) for change in changes)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ModelError, match="damaged"):
            Stacker.load(tmp_path)
    path.unlink()
    with pytest.raises((ModelError, OSError)):
        Stacker.load(tmp_path)


def test_trees_need_the_net() -> None:
    with pytest.raises(ConfigError, match=r"stack\.trees"):
        make_config({"stack": {"trees": True}})


def test_a_pair_ranks_by_being_right_and_scores_by_being_phi() -> None:
    features, correct = rows_of(2, 400)
    phi = correct | (features[:, 2] > 0.5)
    probability = np.full(len(features), 0.5)
    pair = TreePair.fit(probability, features, correct=correct, phi=phi)
    rank, score = pair.judged(probability, features)
    border = phi & ~correct
    assert score[border].mean() > 0.7
    assert rank[border].mean() < 0.5
