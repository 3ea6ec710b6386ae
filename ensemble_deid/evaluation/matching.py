"""Which gold and system annotations of one note are the same, one to one.

Each function takes the distinct `(start, end, label)` keys of both sides, sorted, and returns the matched pairs.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from ensemble_deid.text.span import SpanKey

Key = SpanKey
RELAXED_END = 2
"""Characters by which the ends of a relaxed match may differ: the 2014 i2b2 script's "fuzzy end"."""


def match_strict(golds: Sequence[Key], systems: Sequence[Key]) -> list[tuple[Key, Key]]:
    """Same start, end and label."""
    given = set(systems)
    return [(key, key) for key in golds if key in given]


def match_relaxed(golds: Sequence[Key], systems: Sequence[Key]) -> list[tuple[Key, Key]]:
    """Same start and label, and ends at most `RELAXED_END` characters apart."""
    edges = [
        (i, j)
        for i, j in _overlapping(golds, systems)
        if golds[i][0] == systems[j][0]
        and golds[i][2] == systems[j][2]
        and abs(golds[i][1] - systems[j][1]) <= RELAXED_END
    ]
    return _most_pairs(golds, systems, edges)


def match_overlapping(golds: Sequence[Key], systems: Sequence[Key]) -> list[tuple[Key, Key]]:
    """Same label and at least one character in common."""
    edges = [(i, j) for i, j in _overlapping(golds, systems) if golds[i][2] == systems[j][2]]
    return _most_pairs(golds, systems, edges)


def _overlapping(golds: Sequence[Key], systems: Sequence[Key]) -> list[tuple[int, int]]:
    """Return the index pairs that share a character; both sides are sorted by start."""
    found: list[tuple[int, int]] = []
    longest = max((end - start for start, end, _ in systems), default=0)
    first = 0
    for i, (start, end, _) in enumerate(golds):
        # Invariant: every system span before `first` ends at or before this gold start, and all later ones' too.
        while first < len(systems) and systems[first][0] + longest <= start:
            first += 1
        for j in range(first, len(systems)):
            if systems[j][0] >= end:
                break
            if start < systems[j][1]:
                found.append((i, j))
    return found


def _most_pairs(
    golds: Sequence[Key], systems: Sequence[Key], edges: Sequence[tuple[int, int]]
) -> list[tuple[Key, Key]]:
    """Return a largest set of edges in which no annotation comes twice."""
    if len({i for i, _ in edges}) == len(edges) == len({j for _, j in edges}):
        return [(golds[i], systems[j]) for i, j in edges]
    rows, columns = zip(*edges, strict=True)
    graph = csr_array((np.ones(len(edges), dtype=np.int8), (rows, columns)), shape=(len(golds), len(systems)))
    partner = maximum_bipartite_matching(graph, perm_type="column")
    return [(golds[i], systems[j]) for i, j in enumerate(partner) if j >= 0]
