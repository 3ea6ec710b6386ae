"""Other mentions: what the submodels think of other places in a note that have a word in common with a candidate.

`Dr. Marcia Hidalgo` in the heading tells whose name `Hidalgo` or `Marcia` is further down, where nothing else does.
"""

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import CandidateTable, maxima
from ensemble_deid.stacking.named_columns import NamedColumns

KINDS = ("mention_same", "mention_other")
_LEAST_CHARACTERS = 3
_MOST = 50
"""Candidates with a word that are looked at, the surest ones: time and memory grow with them, and a form has many."""


def mention_columns(table: CandidateTable, batch: Batch) -> NamedColumns:
    """Return the columns of every candidate, two for each submodel.

    They are its highest confidence in a candidate elsewhere in the note with a word in common, of at least three
    letters and in any case: with the same label (`mention_same:`) and with another one (`mention_other:`); 0 where
    there is none. Candidates that overlap are not elsewhere.
    """
    target, source = _pairs(*_words(table, batch), table.confidence.max(axis=1, initial=0.0))
    apart = (table.end[source] <= table.start[target]) | (table.end[target] <= table.start[source])
    target, source = target[apart], source[apart]
    same = table.label[source] == table.label[target]
    columns = [
        maxima(table.confidence[source, k] * chosen, target, len(table))
        for chosen in (same, ~same)
        for k in range(len(table.submodels))
    ]
    names = tuple(f"{kind}:{name}" for kind in KINDS for name in table.submodels)
    return NamedColumns(names, np.stack(columns, axis=1) if columns else np.zeros((len(table), 0)))


def _words(table: CandidateTable, batch: Batch) -> tuple[Int64s, Int64s]:
    """Return candidates, by row, and the words that they have, both (n,); a number stands for a word of one note."""
    first, after = table.token_ranges(batch.tokens)
    sizes = after - first
    rows = np.repeat(np.arange(len(table)), sizes)
    tokens = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[rows]
    long = batch.tokens.end - batch.tokens.start >= _LEAST_CHARACTERS
    counted = (long & ~batch.table["case"].is_any_of("none"))[tokens]
    rows, tokens = rows[counted], tokens[counted]
    most = int(batch.same_word.max(initial=0)) + 1
    words = table.document[rows].astype(np.int64) * most + batch.same_word[tokens]
    # A candidate that has a word twice has it once.
    found = np.unique(np.stack([words, rows], axis=1), axis=0)
    return found[:, 1], found[:, 0]


def _pairs(rows: Int64s, words: Int64s, strength: Floats) -> tuple[Int64s, Int64s]:
    """Return pairs of rows with a word in common, (pairs,) each: every row, and the strongest that share its word."""
    order = np.lexsort((rows, -strength[rows], words))
    rows, words = rows[order], words[order]
    begins = np.searchsorted(words, words, side="left")
    counts = np.minimum(np.searchsorted(words, words, side="right") - begins, _MOST)
    target = np.repeat(np.arange(len(rows)), counts)
    source = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[target]
    return rows[target], rows[source]
