"""Matching the gold and system annotations of one note, one to one.

Each function takes the distinct `(start, end, label)` keys of both sides and returns the matched pairs.
"""

from collections.abc import Callable, Sequence, Set

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from ensemble_deid.note.span import SpanKey

RELAXED_END = 2
"""Characters by which the ends of a relaxed match may differ: the 2014 i2b2 script's "fuzzy end"."""


def match_strict(golds: Set[SpanKey], systems: Set[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
    """Same start, end and label."""
    return [(key, key) for key in golds & systems]


def match_relaxed(golds: Set[SpanKey], systems: Set[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
    """Same start and label, and ends at most `RELAXED_END` characters apart."""
    return _match(golds, systems, lambda g, s: g[0] == s[0] and g[2] == s[2] and abs(g[1] - s[1]) <= RELAXED_END)


def match_overlapping(golds: Set[SpanKey], systems: Set[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
    """Same label and at least one character in common."""
    return _match(golds, systems, lambda g, s: g[2] == s[2])


def _match(
    golds: Set[SpanKey], systems: Set[SpanKey], alike: Callable[[SpanKey, SpanKey], bool]
) -> list[tuple[SpanKey, SpanKey]]:
    """Match as many of the overlapping pairs with the same label as possible."""
    left, right = sorted(golds), sorted(systems)
    edges = [(i, j) for i, j in _overlapping(left, right) if alike(left[i], right[j])]
    return _most_pairs(left, right, edges)


def _overlapping(golds: Sequence[SpanKey], systems: Sequence[SpanKey]) -> list[tuple[int, int]]:
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
    golds: Sequence[SpanKey], systems: Sequence[SpanKey], edges: Sequence[tuple[int, int]]
) -> list[tuple[SpanKey, SpanKey]]:
    """Return a maximum matching: a largest set of edges in which no annotation occurs twice."""
    if len({i for i, _ in edges}) == len(edges) == len({j for _, j in edges}):
        return [(golds[i], systems[j]) for i, j in edges]
    rows, columns = zip(*edges, strict=True)
    graph = csr_array((np.ones(len(edges), dtype=np.int8), (rows, columns)), shape=(len(golds), len(systems)))
    partner = maximum_bipartite_matching(graph, perm_type="column")
    return [(golds[i], systems[j]) for i, j in enumerate(partner) if j >= 0]
