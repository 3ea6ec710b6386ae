"""Boosted trees beside the SVM: is a candidate right, and is its text PHI, whatever its borders and label?

The SVM learns whether a candidate is an annotated span. Its probability is low as well for a name with a doubtful
border, and such a name must be removed all the same. Two sets of trees (Friedman 2001) see its log odds with all its
features. The first corrects the SVM, and the pool of both ranks candidates that overlap. The second learns whether a
candidate's text is PHI: pooled with a little of the first, this is the candidate's score. It is calibrated (of scores
of 0.3 three in ten are PHI), in notes with much PHI and with little. Pools are means of log odds (Genest and Zidek
1986).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, Int32s, log_odds
from ensemble_deid.errors import ModelError, needs_extra
from ensemble_deid.mapped import MappedArrays, to_file_bytes
from ensemble_deid.reproducible import one_thread
from ensemble_deid.stacking.sequence_scores import pooled

_SETTINGS: Mapping[str, Any] = {
    "max_iter": 150,
    "learning_rate": 0.06,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 40,
    "l2_regularization": 10.0,
    "early_stopping": False,
    "random_state": 0,
}
_RANK, _SCORE = 0.5, 0.8
"""Weight of the first trees beside the SVM, and of the second trees beside both."""
_BOUND = 1e-4
_PARTS = ("right", "phi")
_ROWS, _STEPS = 256, 3
"""Few enough rows that their ways through all trees stay in the cache; after so many steps, rows at a leaf drop out."""


@dataclass(frozen=True, slots=True, eq=False)
class BoostedTrees:
    """Trees whose leaves add up to log odds, as columns of their nodes, (nodes,) each.

    At a node, a row goes on `left` if its `feature` is at most the `threshold`, else `right`; both are later nodes, of
    a leaf itself. `roots` (trees,) are the trees' first nodes, and `base` is the log odds to begin with.
    """

    feature: Int32s = field(repr=False)
    threshold: Floats = field(repr=False)
    left: Int32s = field(repr=False)
    right: Int32s = field(repr=False)
    value: Floats = field(repr=False)
    roots: Int32s = field(repr=False)
    base: Floats = field(repr=False)

    @classmethod
    def fit(cls, features: Floats, target: Flags) -> "BoostedTrees":
        """Learn to predict a target (n,) from features (n, features). A target of one class gives no trees."""
        share = float(np.clip(target.mean() if len(target) else 0.5, _BOUND, 1 - _BOUND))
        trees: list[Any] = []
        base = np.log([share / (1 - share)])
        if target.any() and not target.all():
            # Here, not above: only training needs scikit-learn.
            with needs_extra("train", "fitting the final estimator"):
                from sklearn.ensemble import HistGradientBoostingClassifier
            with one_thread():
                model: Any = HistGradientBoostingClassifier(**_SETTINGS).fit(features, target)
            # No public attribute has the trees; a test compares what they give with the library's answer.
            trees = [one.nodes for (one,) in model._predictors]
            base = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(1)
        sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
        nodes = np.concatenate(trees) if trees else np.zeros(0, _EMPTY)
        begin = np.repeat(np.cumsum(sizes) - sizes, sizes)
        leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
        return cls(
            np.where(leaf, 0, nodes["feature_idx"]).astype(np.int32),
            np.where(leaf, 0.0, nodes["num_threshold"]),
            np.where(leaf, own, nodes["left"] + begin).astype(np.int32),
            np.where(leaf, own, nodes["right"] + begin).astype(np.int32),
            value=np.where(leaf, nodes["value"], 0.0),
            roots=(np.cumsum(sizes) - sizes).astype(np.int32),
            base=base,
        )

    def log_odds(self, features: Floats) -> Floats:
        """Return the log odds of each row, (n,)."""
        # As the type of indexes, which others are converted to at every step.
        feature, roots = self.feature.astype(np.intp), self.roots.astype(np.intp)
        children = np.stack([self.left, self.right], axis=1, dtype=np.intp).ravel()
        out = np.full(len(features), self.base[0])
        for low in range(0, len(features), _ROWS):
            block = features[low : low + _ROWS]
            values, first = block.ravel(), np.repeat(np.arange(len(block)) * block.shape[1], len(roots))
            # (rows * trees,): the node that each row has come to in each tree
            at = node = np.tile(roots, len(block))
            moving = np.arange(len(at))
            while len(moving):
                for _ in range(_STEPS):
                    node = children[2 * node + ~(values[first + feature[node]] <= self.threshold[node])]
                at[moving] = node
                on = np.flatnonzero(children[2 * node] != node)
                node, first, moving = node[on], first[on], moving[on]
            out[low : low + _ROWS] += self.value[at].reshape(len(block), len(roots)).sum(axis=1)
        return out

    def check(self, n_features: int) -> None:
        """Raise ValueError unless every path ends, within the arrays, and every number is one."""
        n = len(self.feature)
        own = np.arange(n)
        later = (self.left > own) & (self.right > own) | (self.left == own) & (self.right == own)
        columns = (self.feature, self.threshold, self.left, self.right, self.value)
        inside = all(column.shape == (n,) for column in columns) and self.base.shape == (1,) and self.roots.ndim == 1
        if not inside or not later.all() or (np.concatenate([self.left, self.right, self.roots]) >= n).any():
            raise ValueError("the nodes do not fit each other")
        if (self.roots < 0).any() or (self.feature < 0).any() or (self.feature >= n_features).any():
            raise ValueError("the nodes do not fit the features")
        if not all(np.isfinite(column).all() for column in (self.threshold, self.value, self.base)):
            raise ValueError("a number in the trees is none")


_EMPTY = [(name, "f8") for name in ("is_leaf", "feature_idx", "num_threshold", "left", "right", "value")]
_TYPES = {
    "feature": "<i4",
    "threshold": "<f8",
    "left": "<i4",
    "right": "<i4",
    "value": "<f8",
    "roots": "<i4",
    "base": "<f8",
}


@dataclass(frozen=True, slots=True)
class TreePair:
    """The trees that know whether a candidate is right, and those that know whether its text is PHI."""

    right: BoostedTrees
    phi: BoostedTrees

    @classmethod
    def fit(cls, probability: Floats, features: Floats, *, correct: Flags, phi: Flags) -> "TreePair":
        """Learn from candidates with the SVM's out-of-fold `probability` (n,) and the SVM's features."""
        seen = _seen(probability, features)
        return cls(BoostedTrees.fit(seen, correct), BoostedTrees.fit(seen, phi))

    def judged(self, probability: Floats, features: Floats) -> tuple[Floats, Floats]:
        """Return by what candidates that overlap are ranked, and the score of each, (n,) both."""
        seen = _seen(probability, features)
        rank = pooled(probability, self.right.log_odds(seen), _RANK)
        return rank, pooled(rank, self.phi.log_odds(seen), _SCORE)

    def to_bytes(self) -> bytes:
        """Return the bytes of a safetensors file."""
        arrays: dict[str, NDArray[Any]] = {}
        for part in _PARTS:
            arrays |= {f"{part}.{name}": getattr(getattr(self, part), name) for name in _TYPES}
        return to_file_bytes(arrays)

    @classmethod
    def of_file(cls, path: Path, *, features: int) -> "TreePair":
        """Map what `to_bytes` gave, for an SVM with so many features. Raises ModelError."""
        try:
            arrays = MappedArrays.of_file(path).arrays
            pair = cls(*(BoostedTrees(**{name: arrays[f"{part}.{name}"] for name in _TYPES}) for part in _PARTS))
            for trees in (pair.right, pair.phi):
                if any(getattr(trees, name).dtype != kind for name, kind in _TYPES.items()):
                    raise ValueError("an array has another type")
                trees.check(features + 1)
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{path}: damaged ({type(error).__name__})") from None
        return pair


def _seen(probability: Floats, features: Floats) -> Floats:
    return np.concatenate([log_odds(probability, bound=_BOUND)[:, None], features], axis=1)
