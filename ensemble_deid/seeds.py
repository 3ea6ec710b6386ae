"""One seed for the run, an independent stream for each named use, and folds that keep groups together."""

import hashlib
from collections.abc import Sequence

import numpy as np

from ensemble_deid.arrays import Int64s


def derive_seed(seed: int, name: str) -> int:
    """Return a 32-bit seed that depends on `seed` and `name` alone."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def generator(seed: int, name: str) -> "np.random.Generator":
    return np.random.default_rng(derive_seed(seed, name))


def group_folds(groups: Sequence[str], n_folds: int, rng: "np.random.Generator") -> Int64s:
    """Return a fold for each row, (n,): groups stay together, and folds are about equal in size.

    Groups are shuffled, then assigned, largest first, to the smallest fold so far.
    """
    names, index, sizes = np.unique(np.asarray(groups, dtype=object), return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    load = [0] * n_folds
    fold_of_group = np.zeros(len(names), dtype=np.int64)
    for group in order.tolist():
        fold = min(range(n_folds), key=lambda k: (load[k], k))
        fold_of_group[group] = fold
        load[fold] += int(sizes[group])
    return fold_of_group[index]
