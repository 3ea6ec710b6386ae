"""Views of the annotations: by entity or token; by type, category, or PHI or not."""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.bootstrap import LEAST_CLUSTERS
from ensemble_deid.evaluation.pairs import EvaluationError, Pair, pair_documents
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import GROUPS, I2B2_CATEGORIES, category_of, is_hipaa, known_labels, labels_in_group
from ensemble_deid.note.span import SpanKey

# Counts of every document and label, from which every total, mean and resample is a sum.
#
# The annotations of a note are matched one to one: each `match_` function takes the distinct `(start, end, label)` keys
# of both sides and returns the matched pairs.


RELAXED_END = 2
"""Characters by which the ends of a relaxed match may differ: the 2014 i2b2 script's "fuzzy end"."""


def match_strict(golds: Set[SpanKey], systems: Set[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
    return [(key, key) for key in golds & systems]


def match_relaxed(golds: Set[SpanKey], systems: Set[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
    """Same start and label, and ends at most `RELAXED_END` characters apart."""
    return _match(golds, systems, lambda g, s: g[0] == s[0] and g[2] == s[2] and abs(g[1] - s[1]) <= RELAXED_END)


def match_overlapping(golds: Set[SpanKey], systems: Set[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
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

    Documents are in the order of their ids; `groups` names each document's patient.
    """

    document_ids: tuple[str, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    counts: Int64s

    @property
    def total(self) -> Counts:
        return to_counts(self.counts.sum(axis=(0, 1)))

    @property
    def by_label(self) -> dict[str, Counts]:
        return {label: to_counts(row) for label, row in zip(self.labels, self.counts.sum(axis=0), strict=True)}

    @property
    def per_document(self) -> Int64s:
        """Counts over all labels, document by document: (documents, 3)."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    def only(self, labels: Iterable[str]) -> "CountTable":
        wanted = frozenset(labels)
        kept = [index for index, label in enumerate(self.labels) if label in wanted]
        chosen = tuple(self.labels[index] for index in kept)
        return CountTable(self.document_ids, self.groups, chosen, self.counts[:, kept, :])


def to_counts(row: Int64s) -> Counts:
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


SUBSETS: tuple[str, ...] = ("HIPAA", *GROUPS)
"""The named subsets, each scored in every view."""


def subset_labels(name: str, labels: Collection[str]) -> frozenset[str]:
    """Return those of `labels` that the subset ("HIPAA", "A", "B", "C" or "D") holds."""
    if name == "HIPAA":
        return frozenset(label for label in labels if is_hipaa(label))
    return labels_in_group(name, labels)


def resolve_labels(names: Sequence[str], labels: Collection[str]) -> frozenset[str]:
    """Return the labels that a user's list means, such as ["PATIENT", "DATE"], ["HIPAA"] or ["A", "PROFESSION"].

    A name is, in this order, one of `labels` (those that occur), a label that the taxonomy knows, a subset, or a
    category. Raises EvaluationError for any other name and for an empty list.
    """
    if not names:
        raise EvaluationError("a list of labels needs at least one label, category or group")
    chosen: set[str] = set()
    for name in names:
        if name in labels or name in known_labels():
            chosen.add(name)
        elif name in SUBSETS:
            chosen |= subset_labels(name, labels)
        elif name in I2B2_CATEGORIES:
            chosen |= {label for label in labels if category_of(label) == name}
        else:
            there = ", ".join([*sorted(labels), *SUBSETS, *I2B2_CATEGORIES])
            raise EvaluationError(f"there is no label, group or category {name!r}; there are: {there}")
    return frozenset(chosen)


Unit = Literal["entity", "token"]
UNITS: tuple[Unit, ...] = get_args(Unit)
Naming = Literal["type", "category", "PHI"]
ANY_PHI = "PHI"
"""The one label of the views that do not look at labels."""


@dataclass(frozen=True, slots=True)
class View:
    """What is counted (`unit`), under which name (`naming`), and what `match` takes for the same."""

    name: str
    unit: Unit
    naming: Naming
    match: MatchKeys
    definition: str


VIEWS: Mapping[str, View] = MappingProxyType(
    {
        view.name: view
        for view in (
            View("strict", "entity", "type", match_strict, "same start, end and type"),
            View("relaxed", "entity", "type", match_relaxed, "same start and type, ends at most 2 characters apart"),
            View("overlap", "entity", "type", match_overlapping, "same type, at least one character shared"),
            View("category", "entity", "category", match_strict, "same start, end and category"),
            View("type-blind", "entity", "PHI", match_strict, "same start and end, whatever the type"),
            View("token", "token", "type", match_strict, "tagged token: same place and type"),
            View("token-category", "token", "category", match_strict, "tagged token: same place and category"),
            View("token-binary", "token", "PHI", match_strict, "tagged token: same place, PHI or not"),
        )
    }
)


def view_named(name: str) -> View:
    """Return the view of that name. Raises EvaluationError, naming those there are, for another."""
    if name not in VIEWS:
        raise EvaluationError(f"there is no view {name!r}; there are: {', '.join(VIEWS)}")
    return VIEWS[name]


def count_view(gold: Sequence[Document], system: Sequence[Document], view: str = "strict") -> CountTable:
    """Count found, spurious and missed annotations per document and label; what a side gives twice counts once.

    Raises EvaluationError for another view, and when the documents do not match.
    """
    chosen = view_named(view)
    pairs = pair_documents(gold, system)
    return count_sides(pairs, sides_of(pairs, chosen.unit), chosen)


def resampled_units(documents: Sequence[Document], table: CountTable) -> tuple[str, ...]:
    """Return what an interval resamples for each document: its site if there are enough, else its patient.

    Notes of a site resemble each other, so an interval over patients would be too narrow.
    """
    site = {document.id: document.site for document in documents}
    sites = tuple(name for document in table.document_ids if (name := site[document]) is not None)
    known = len(sites) == len(table.document_ids) and len(set(sites)) >= LEAST_CLUSTERS
    return sites if known else table.groups


def sides_of(pairs: Sequence[Pair], unit: Unit) -> tuple[Sides, ...]:
    if unit == "token":
        return tuple((token_keys(pair.gold), token_keys(pair.system)) for pair in pairs)
    return tuple(({span.key for span in pair.gold.spans}, {span.key for span in pair.system.spans}) for pair in pairs)


def count_sides(
    pairs: Sequence[Pair], sides: Sequence[Sides], view: View, *, labels: Set[str] | None = None
) -> CountTable:
    """Count as `count_view` does; `labels` drops all others from both sides before anything is matched."""
    kept = {key[2] for both in sides for keys in both for key in keys} if labels is None else labels
    names = {label: name_under(view.naming, label) for label in kept}
    if view.naming != "type" or labels is not None:
        sides = [(_rename(golds, names), _rename(systems, names)) for golds, systems in sides]
    return tabulate(pairs, sides, view.match)


def token_keys(document: Document) -> frozenset[SpanKey]:
    return frozenset(
        (start, end, span.label)
        for span in document.spans
        for start, end in runs_in(document.text, span.start, span.end)
    )


def name_under(naming: Naming, label: str) -> str:
    """Return what a label is called when types, categories (where it has one) or PHI alone are told apart."""
    if naming == "PHI":
        return ANY_PHI
    return (category_of(label) or label) if naming == "category" else label


def _rename(keys: Set[SpanKey], names: Mapping[str, str]) -> frozenset[SpanKey]:
    return frozenset((start, end, names[label]) for start, end, label in keys if label in names)


# Tokens as the 2014 i2b2 script cuts them: runs of ASCII letters and digits.


_RUN = re.compile(r"[A-Za-z0-9]+")
Place = tuple[int, int]


def runs_in(text: str, start: int, end: int) -> list[Place]:
    """Cut `text[start:end]` into its runs, as (start, end) in `text`; without any, one empty token at `end`.

    A run is cut at `start` and `end`, so a span over half a word gives half a token.
    """
    return [match.span() for match in _RUN.finditer(text, start, end)] or [(end, end)]


def tokens_of(text: str) -> list[Place]:
    """Return the runs of a whole text, as (start, end); none where it has no ASCII letter or digit."""
    return [match.span() for match in _RUN.finditer(text)]


def label_tokens(document: Document, tokens: Sequence[Place]) -> list[str | None]:
    """Return each token's label: that of the first annotation, in text order, that covers any of it; None for none.

    `tokens` are in text order and do not overlap, as `tokens_of` gives them.
    """
    ends = [end for _, end in tokens]
    labels: list[str | None] = [None] * len(tokens)
    for span in sorted(document.spans):
        for index in range(bisect_right(ends, span.start), len(tokens)):
            if tokens[index][0] >= span.end:
                break
            if labels[index] is None:
                labels[index] = span.label
    return labels
