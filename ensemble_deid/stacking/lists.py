"""What the public lists say of a candidate's words: columns for the final estimator, where there are lists."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PLACES, PREFIX
from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.named_columns import Floats, NamedColumns

_COMMON = 6
"""A bin of the English list from which on a word is too common to be taken for a name."""


def list_columns(table: CandidateTable, batch: Batch) -> NamedColumns:
    """Return the columns of every candidate; none where the batch has no lists.

    Of a list of words: the mean bin of the candidate's words (`list:`, 0 where the list does not have one) and the
    share of them that it has (`known:`). Of a list of phrases: the share of tokens in a match (`list:`). From the lists
    of names, English and medical words (`words:`): the share of words that are names and neither common nor medical,
    of those on neither of the last two lists, by how many bins they are more frequent as names than as English words,
    and the bin of the commonest English word.
    """
    lists = [name for name in batch.table.names if name.startswith(PREFIX)]
    if not lists:
        return NamedColumns.none(len(table))
    first, after = table.token_ranges(batch.tokens)
    is_word = ~batch.table["case"].is_any_of("none")
    words, tokens = _total(is_word, first, after), after - first
    columns: dict[str, Floats] = {}
    bins: dict[str, Floats] = {}
    for name in lists:
        column, short = batch.table[name], name.removeprefix(PREFIX)
        if column.values == PLACES:
            columns[f"list:{short}"] = _share(column.codes > 0, first, after, tokens)
            continue
        level = np.array([0.0 if value == "-" else float(value) for value in column.values] or [0.0])
        bins[short] = np.where(is_word, level[column.codes], 0.0)
        columns[f"list:{short}"] = _share(bins[short], first, after, words)
        columns[f"known:{short}"] = _share(bins[short] > 0, first, after, words)
    if {"given", "surname", "english", "medical"} <= set(bins):
        name_bin, english, medical = np.maximum(bins["given"], bins["surname"]), bins["english"], bins["medical"]
        unlisted = is_word & (english == 0) & (medical == 0)
        columns["words:name"] = _share((name_bin > 0) & (english < _COMMON) & (medical == 0), first, after, words)
        columns["words:unlisted"] = _share(unlisted, first, after, words)
        columns["words:more_as_name"] = _share(name_bin - english, first, after, words)
        columns["words:commonest"] = _largest(english, first, after)
    return NamedColumns(tuple(columns), np.stack(list(columns.values()), axis=1))


def _total(values: NDArray[np.generic], first: NDArray[np.int64], after: NDArray[np.int64]) -> Floats:
    """Return the sum of the tokens' values over each candidate, (n,)."""
    running = np.zeros(len(values) + 1)
    np.cumsum(values.astype(np.float64), out=running[1:])
    return np.asarray(running[after] - running[first], dtype=np.float64)


def _share(
    values: NDArray[np.generic], first: NDArray[np.int64], after: NDArray[np.int64], size: NDArray[np.generic]
) -> Floats:
    return np.asarray(_total(values, first, after) / np.maximum(size, 1), dtype=np.float64)


def _largest(values: Floats, first: NDArray[np.int64], after: NDArray[np.int64]) -> Floats:
    if not len(first):
        return np.zeros(0)
    bounds = np.stack([first, np.maximum(after, first + 1)], axis=1).ravel()
    return np.asarray(np.maximum.reduceat(np.append(values, 0.0), bounds)[::2], dtype=np.float64)
