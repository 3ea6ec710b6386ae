"""Spans that overlap: finding them, and resolving them. Every part of the package that meets overlaps asks here.

Two ways to resolve them: keep some and drop the others (`drop_overlaps` by score, `keep_first` by order,
`suppressed_scores` by a rank), or lose no character (`join_overlaps`, `split_overlaps`, `clip_overlaps`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from ensemble_deid.note.span import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ensemble_deid.arrays import Floats, Int64s

_Item = TypeVar("_Item")
_Column: TypeAlias = "NDArray[Any]"

RELATIONS = ("same", "inside", "around", "crossing")
_SUPPRESSED = 1 - 1e-6
"""The factor of a suppressed row's score, which puts it below that of the row that suppresses it."""


def drop_overlaps(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Keep, of overlapping spans, the highest-scoring, then the longest, then the first; return them in text order."""
    kept: list[Span] = []
    starts: list[int] = []
    for span in sorted(set(spans), key=lambda s: (-s.score, s.start - s.end, s.start, s.label, s.source)):
        # Kept spans are in text order and do not overlap, so only the two neighbours can conflict.
        place = bisect_left(starts, span.start)
        clear_before = place == 0 or kept[place - 1].end <= span.start
        if clear_before and (place == len(kept) or span.end <= starts[place]):
            kept.insert(place, span)
            starts.insert(place, span.start)
    return tuple(kept)


def keep_first(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Keep each span that overlaps none kept before it; return them in text order."""
    kept: list[Span] = []
    taken: set[int] = set()
    for span in spans:
        places = range(span.start, span.end)
        if taken.isdisjoint(places):
            kept.append(span)
            taken.update(places)
    return tuple(sorted(kept))


def overlapping_groups(items: Iterable[_Item], span: Callable[[_Item], Span]) -> list[list[_Item]]:
    """Group items whose spans overlap, directly or through others: in text order, the longest first at each start."""
    groups: list[list[_Item]] = []
    end = 0
    for item in sorted(items, key=lambda item: (span(item).start, -span(item).end)):
        here = span(item)
        if groups and here.start < end:
            groups[-1].append(item)
        else:
            groups.append([item])
        end = max(end, here.end)
    return groups


def join_overlaps(spans: Iterable[Span], *, prefer: Callable[[Span], Any]) -> list[Span]:
    """Return one span for each group of overlapping spans, in text order, over all of their characters.

    Its label and source are those of the span with the highest `prefer`, of several the first in text order, then in
    the order given; its score is the group's highest.
    """
    return [spanning(group, max(group, key=prefer)) for group in overlapping_groups(spans, lambda span: span)]


def spanning(group: Sequence[Span], best: Span) -> Span:
    """Return a span over all of a group, with the label and source of `best`, and the highest score."""
    if len(group) == 1:
        return group[0]
    start, end = min(span.start for span in group), max(span.end for span in group)
    return Span(start, end, best.label, max(span.score for span in group), best.source)


def split_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Return parts of spans that do not overlap; at each place the highest-scoring span counts, then the longest."""
    waiting = sorted(set(spans), reverse=True)
    places = sorted({place for span in waiting for place in (span.start, span.end)})
    covering: list[tuple[float, int, Span]] = []
    parts: list[tuple[Span, int, int]] = []
    for start, end in pairwise(places):
        while waiting and waiting[-1].start == start:
            span = waiting.pop()
            heappush(covering, (-span.score, span.start - span.end, span))
        while covering and covering[0][2].end <= start:
            heappop(covering)
        if not covering:
            continue
        best = covering[0][2]
        if parts and parts[-1][0] is best and parts[-1][2] == start:
            parts[-1] = (best, parts[-1][1], end)
        else:
            parts.append((best, start, end))
    return [replace(span, start=start, end=end) for span, start, end in parts]


def clip_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in text order, each begun after the end of the one before; what is covered whole is left out."""
    kept: list[Span] = []
    for span in sorted(spans):
        start = max(span.start, kept[-1].end) if kept else span.start
        if start < span.end:
            kept.append(replace(span, start=start))
    return kept


def outside(around: Iterable[Span], spans: Iterable[Span]) -> list[Span]:
    """Return the spans that lie inside none of the spans `around`, in text order."""
    reaches: list[tuple[int, int]] = []
    for span in sorted(around):
        reaches.append((span.start, max(span.end, reaches[-1][1] if reaches else 0)))
    starts = [start for start, _ in reaches]

    def inside(span: Span) -> bool:
        place = bisect_right(starts, span.start) - 1
        return place >= 0 and span.end <= reaches[place][1]

    return sorted(span for span in spans if not inside(span))


def distinct_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in text order, of those with equal offsets and label the first."""
    unique: dict[tuple[int, int, str], Span] = {}
    for span in spans:
        unique.setdefault(span.key, span)
    return sorted(unique.values())


def apart(spans: Iterable[Span]) -> list[Span]:
    """Return the spans that overlap no other one, in text order."""
    return [group[0] for group in overlapping_groups(spans, lambda span: span) if len(group) == 1]


def overlapping_pairs(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Return the neighbouring pairs that overlap, in text order."""
    pairs: list[tuple[Span, Span]] = []
    reach: Span | None = None
    for span in sorted(spans):
        if reach is not None and span.start < reach.end:
            pairs.append((reach, span))
        if reach is None or span.end > reach.end:
            reach = span
    return pairs


class Covered:
    """The characters in any of the places `[start, end)`; a question takes the logarithm of their number."""

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    @classmethod
    def by(cls, spans: Iterable[Span]) -> "Covered":
        return cls((span.start, span.end) for span in spans)

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any of the characters `[start, end)` is covered."""
        place = bisect_left(self._starts, end) - 1
        return place >= 0 and start < end and self._ends[place] > start


# Many spans at once, as the columns of a table whose rows are sorted by document and start. Numpy is imported late: the
# command line needs the functions above before it knows whether it needs arrays.


class SpanRows(Protocol):
    """The columns of such a table, (rows,) each: numbers of the document and the label, start and end of the span."""

    @property
    def document(self) -> _Column: ...
    @property
    def start(self) -> _Column: ...
    @property
    def end(self) -> _Column: ...
    @property
    def label(self) -> _Column: ...


def overlapping_rows(rows: SpanRows) -> "tuple[Int64s, Int64s]":
    """Return all ordered pairs (i, j), i != j, of rows that overlap in the same document."""
    import numpy as np

    left: list[int] = []
    right: list[int] = []
    active: list[int] = []
    document, start, end = rows.document.tolist(), rows.start.tolist(), rows.end.tolist()
    for row in range(len(document)):
        active = [i for i in active if document[i] == document[row] and end[i] > start[row]]
        for i in active:
            left += [i, row]
            right += [row, i]
        active.append(row)
    return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)


def relation(rows: SpanRows, i: "Int64s", j: "Int64s") -> "Int64s":
    """Return how j overlaps i, as an index into `RELATIONS`: same offsets, inside i, around i, or crossing it."""
    import numpy as np

    same = (rows.start[i] == rows.start[j]) & (rows.end[i] == rows.end[j])
    inside = (rows.start[i] <= rows.start[j]) & (rows.end[j] <= rows.end[i])
    around = (rows.start[j] <= rows.start[i]) & (rows.end[i] <= rows.end[j])
    return np.select([same, inside, around], [0, 1, 2], 3)


def suppressed_scores(rank: "Floats", scores: "Floats", rows: SpanRows) -> "Floats":
    """Return the scores (n,), changed so that `drop_overlaps` resolves the rows by `rank` (n,), not by their scores.

    Greedy non-maximum suppression: in order of `rank`, a row that is not suppressed yet suppresses those that it
    overlaps, and takes the highest of their scores. So at every threshold there is a span wherever there was one, with
    the borders and label that rank highest.
    """
    import numpy as np

    if np.array_equal(rank, scores):
        return scores
    overlapping: list[list[int]] = [[] for _ in scores]
    for row, other in zip(*(pairs.tolist() for pairs in overlapping_rows(rows)), strict=True):
        overlapping[row].append(other)
    found = scores.copy()
    suppressed = np.zeros(len(scores), dtype=bool)
    # Ties as `drop_overlaps` breaks them.
    order = np.lexsort((rows.label, rows.start, rows.start - rows.end, -rank))
    for row in order.tolist():
        if suppressed[row]:
            found[row] = scores[row] * _SUPPRESSED
            continue
        others = [other for other in overlapping[row] if not suppressed[other]]
        found[row] = scores[[row, *others]].max()
        suppressed[others] = True
    return found
