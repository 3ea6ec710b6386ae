"""Other occurrences, in the same note, of the strings that a submodel believes to be PHI, and of their words."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE
from ensemble_deid.stacking.candidates import CandidateTable

_BELIEVED = 0.5
_LEAST_CHARACTERS = 3
_MOST = 20
"""Occurrences of one string that are taken: what is more frequent is a word of the form, or of the language."""
_CAPITALISED = ("upper", "title", "mixed")

Ints = NDArray[np.int64]
Found = tuple[str, float, int, int, int]
"""The kind of a candidate, the confidence in the string it repeats, its first token, that after its last, its label."""


def repeats(table: CandidateTable, batch: Batch, first: Ints, after: Ints, free: NDArray[np.bool_]) -> Iterator[Found]:
    """Yield every repeat, then every part, of each note.

    `first` and `after` are the candidates' tokens, and `free` bool (n_tokens,) tells where no candidate lies; only
    occurrences with a free token count. Words of a string count as parts where they have at least three letters and
    are written with a capital, both times, or are no word of the language.
    """
    belief = table.confidence.max(axis=1, initial=0.0)
    believed = np.flatnonzero(belief >= _BELIEVED)
    free = free.copy()
    names = batch.table["case"].is_any_of(*_CAPITALISED), _not_english(batch)
    for d in np.unique(table.document[believed]).tolist():
        low, high = int(batch.tokens.document_starts[d]), int(batch.tokens.document_starts[d + 1])
        rows = believed[table.document[believed] == d]
        rows = rows[np.argsort(-belief[rows], kind="stable")]
        strings = [(float(belief[i]), int(first[i]), int(after[i]), int(table.label[i])) for i in rows.tolist()]
        places: dict[int, list[int]] = defaultdict(list)
        for row, word in enumerate(batch.same_word[low:high].tolist(), low):
            places[word].append(row)
        found = list(_whole(strings, places, batch, free))
        for _, _, row, stop, _ in found:
            free[row:stop] = False
        yield from found
        yield from _parts(strings, places, batch, free, *names)


String = tuple[float, int, int, int]
"""Confidence, first token, token after the last, label of a string that is believed."""


def _whole(
    strings: list[String], places: dict[int, list[int]], batch: Batch, free: NDArray[np.bool_]
) -> Iterator[Found]:
    words, document = batch.same_word, batch.tokens.document
    for belief, first, after, label in strings:
        size = after - first
        if int((batch.tokens.end[first:after] - batch.tokens.start[first:after]).sum()) < _LEAST_CHARACTERS:
            continue
        for row in places[int(words[first])][:_MOST]:
            stop = row + size
            inside = stop <= len(words) and document[stop - 1] == document[first]
            if inside and free[row:stop].any() and np.array_equal(words[row:stop], words[first:after]):
                yield "repeat", belief, row, stop, label


def _parts(
    strings: list[String],
    places: dict[int, list[int]],
    batch: Batch,
    free: NDArray[np.bool_],
    capital: NDArray[np.bool_],
    unknown: NDArray[np.bool_],
) -> Iterator[Found]:
    for belief, first, after, label in strings:
        for word in range(first, after) if after - first > 1 else ():
            if not capital[word] or batch.tokens.end[word] - batch.tokens.start[word] < _LEAST_CHARACTERS:
                continue
            for row in places[int(batch.same_word[word])][:_MOST]:
                if free[row] and (capital[row] or unknown[row]):
                    yield "part", belief, row, row + 1, label


def _not_english(batch: Batch) -> NDArray[np.bool_]:
    """Return which tokens are on no English list; none where there is no list."""
    name = KNOWLEDGE + "english"
    if name not in batch.table.names:
        return np.zeros(len(batch.tokens), dtype=bool)
    return batch.table[name].is_any_of("-")
