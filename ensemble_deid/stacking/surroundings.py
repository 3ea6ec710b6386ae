"""What the note itself shows of a candidate: its words, form and neighbours, and the same string elsewhere in it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import CandidateTable

ELSEWHERE = ("elsewhere", "elsewhere_same_label", "elsewhere_other_label", "elsewhere_untagged")


@dataclass(frozen=True, slots=True, eq=False)
class TokenRange:
    """First token row and the one after the last of every candidate, int64 (n,)."""

    first: NDArray[np.int64]
    after: NDArray[np.int64]


def token_ranges(table: CandidateTable, batch: Batch) -> TokenRange:
    """Find the tokens that every candidate covers."""
    tokens = batch.tokens
    first = np.zeros(len(table), dtype=np.int64)
    after = np.zeros(len(table), dtype=np.int64)
    for d in np.unique(table.document).tolist():
        rows = np.flatnonzero(table.document == d)
        low, high = int(tokens.document_starts[d]), int(tokens.document_starts[d + 1])
        first[rows] = low + np.searchsorted(tokens.end[low:high], table.start[rows], side="right")
        after[rows] = low + np.searchsorted(tokens.start[low:high], table.end[rows], side="left")
    return TokenRange(first, after)


def keys_of(table: CandidateTable, batch: Batch, ranges: TokenRange) -> dict[str, list[str]]:
    """Return the keys that `KeyStatistics` counts, each joined with the candidate's label."""
    lower, form = batch.table["lower"], batch.table["short_shape"]
    nearest = batch.table["field"].strings()
    words, forms = lower.strings(), form.strings()
    document = batch.tokens.document
    keys: dict[str, list[str]] = {kind: [] for kind in ("string", "before", "after", "form", "field")}
    rows = zip(ranges.first.tolist(), ranges.after.tolist(), table.label.tolist(), strict=True)
    for first, after, label in rows:
        name = table.labels[label]
        before = words[first - 1] if first > 0 and document[first - 1] == document[first] else "<>"
        following = words[after] if after < len(words) and document[after] == document[first] else "<>"
        keys["string"].append(f"{name}\t{' '.join(words[first:after])}")
        keys["before"].append(f"{name}\t{before}")
        keys["after"].append(f"{name}\t{following}")
        keys["form"].append(f"{name}\t{' '.join(forms[first:after])[:60]}")
        keys["field"].append(f"{name}\t{nearest[first]}")
    return keys


def elsewhere(table: CandidateTable, batch: Batch, ranges: TokenRange) -> NDArray[np.float64]:
    """Return, for each of `ELSEWHERE`, how often the candidate's words stand elsewhere in its note, (n, 4).

    Tagged there with the same label, with another one, or not at all: by the surest candidate at that place.
    """
    words = batch.table["lower"].codes
    bounds = batch.tokens.document_starts
    strength = table.confidence.mean(axis=1) if len(table) else np.zeros(0)
    at: dict[tuple[int, int], int] = {}
    for row in np.argsort(strength, kind="stable").tolist():
        at[(int(ranges.first[row]), int(ranges.after[row]))] = row
    out = np.zeros((len(table), 4))
    for d in np.unique(table.document).tolist():
        low, high = int(bounds[d]), int(bounds[d + 1])
        note = words[low:high].tolist()
        places: dict[int, list[int]] = defaultdict(list)
        for i, word in enumerate(note):
            places[word].append(i)
        for row in np.flatnonzero(table.document == d).tolist():
            first, after = int(ranges.first[row]), int(ranges.after[row])
            phrase = note[first - low : after - low]
            out[row] = _tally(phrase, note, places[phrase[0]], low, first, int(table.label[row]), at, table, strength)
    return np.log1p(out)


def _tally(
    phrase: Sequence[int],
    note: Sequence[int],
    starts: Sequence[int],
    low: int,
    own: int,
    label: int,
    at: dict[tuple[int, int], int],
    table: CandidateTable,
    strength: NDArray[np.float64],
) -> tuple[int, int, int, int]:
    """Count the phrase's other places in its note by how they are tagged; at most fifty are looked at."""
    total = same = other = 0
    for i in starts[:50]:
        if low + i == own or note[i : i + len(phrase)] != phrase:
            continue
        total += 1
        there = at.get((low + i, low + i + len(phrase)))
        if there is not None and strength[there] >= 0.5:
            same += int(table.label[there] == label)
            other += int(table.label[there] != label)
    return total, same, other, total - same - other
