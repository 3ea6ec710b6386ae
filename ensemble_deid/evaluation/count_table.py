"""Counts of every document and label, from which every total, mean and resample is a sum.

The annotations of a note are matched one to one: each `match_` function takes the distinct `(start, end, label)` keys
of both sides and returns the matched pairs.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.note.counts import Counts
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
    beside: dict[int, list[int]] = {}
    for i, j in edges:
        beside.setdefault(i, []).append(j)
    partner: dict[int, int] = {}
    for first in beside:
        # Breadth first over paths that alternate between edges outside and inside the matching (Berge 1957).
        came_from: dict[int, int] = {}
        waiting = deque([first])
        while waiting:
            i = waiting.popleft()
            for j in (j for j in beside[i] if j not in came_from):
                came_from[j] = i
                if j not in partner:
                    _turn_path(partner, came_from, j)
                    waiting.clear()
                    break
                waiting.append(partner[j])
    return sorted((golds[i], systems[j]) for j, i in partner.items())


def _turn_path(partner: dict[int, int], came_from: dict[int, int], end: int) -> None:
    """Match what a path that ends in a free annotation left unmatched, and the other way round."""
    inside = {i: j for j, i in partner.items()}
    next_end: int | None = end
    while next_end is not None:
        i = came_from[next_end]
        partner[next_end], next_end = i, inside.get(i)


Sides = tuple[Set[SpanKey], Set[SpanKey]]
"""The distinct keys of one note: gold's and the system's."""
MatchKeys = Callable[[Set[SpanKey], Set[SpanKey]], list[tuple[SpanKey, SpanKey]]]


@dataclass(frozen=True, slots=True)
class CountTable:
    """`counts` has the shape (documents, labels, 3): true positives, false positives, false negatives.

    Documents are in the order of their ids, labels in alphabetical order; `groups` names each document's patient.
    """

    document_ids: tuple[str, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    counts: Int64s

    @property
    def total(self) -> Counts:
        """Counts over all documents and labels (micro)."""
        return to_counts(self.counts.sum(axis=(0, 1)))

    @property
    def by_label(self) -> dict[str, Counts]:
        """Counts over all documents, label by label."""
        return {label: to_counts(row) for label, row in zip(self.labels, self.counts.sum(axis=0), strict=True)}

    @property
    def per_document(self) -> Int64s:
        """Counts over all labels, document by document: (documents, 3)."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    def only(self, labels: Iterable[str]) -> "CountTable":
        """Return the table of those of its labels that are in `labels`."""
        wanted = frozenset(labels)
        kept = [index for index, label in enumerate(self.labels) if label in wanted]
        chosen = tuple(self.labels[index] for index in kept)
        return CountTable(self.document_ids, self.groups, chosen, self.counts[:, kept, :])


def to_counts(row: Int64s) -> Counts:
    """Return the three numbers of `row`, (3,), as Counts."""
    return Counts(int(row[0]), int(row[1]), int(row[2]))


def tabulate(pairs: Sequence[Pair], sides: Sequence[Sides], match: MatchKeys) -> CountTable:
    """Match each note's two sets of keys; a match counts under its gold key's label."""
    labels = tuple(sorted({key[2] for both in sides for keys in both for key in keys}))
    width = 3 * len(labels)
    column = {label: 3 * index for index, label in enumerate(labels)}
    # Filled as a plain list: one addition to an array costs as much as ten to a list.
    flat = [0] * (len(sides) * width)
    for row, (golds, systems) in enumerate(sides):
        at = row * width
        for key in golds:
            flat[at + column[key[2]] + 2] += 1
        for key in systems:
            flat[at + column[key[2]] + 1] += 1
        for gold_key, system_key in match(golds, systems):
            flat[at + column[gold_key[2]]] += 1
            flat[at + column[gold_key[2]] + 2] -= 1
            flat[at + column[system_key[2]] + 1] -= 1
    counts = np.array(flat, dtype=np.int64).reshape(len(sides), len(labels), 3)
    return CountTable(tuple(p.id for p in pairs), tuple(p.group for p in pairs), labels, counts)
