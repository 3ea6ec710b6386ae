"""Features of a token's position: sentence length, place in the line, field label before it, section."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.table import Column
from ensemble_deid.text.document import Document
from ensemble_deid.text.sections import line_labels
from ensemble_deid.text.tokens import TokenTable, first_rows

_EDGES = (1, 2, 3, 4, 6, 9, 13, 20, 40)
_NAMES = ("0", "1", "2", "3", "4-5", "6-8", "9-12", "13-19", "20-39", "40+")


def _bucketed(numbers: NDArray[np.int32]) -> Column:
    """Return small numbers as they are, larger ones in increasingly wide buckets."""
    return Column(np.searchsorted(_EDGES, numbers, side="right").astype(np.int32), _NAMES)


def _rank_within(groups: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return each row's rank in its run of equal values, and the run's length."""
    starts = first_rows(groups)
    sizes = np.diff(np.append(starts, len(groups))).astype(np.int32)
    rank = np.arange(len(groups), dtype=np.int32) - np.repeat(starts, sizes)
    return rank.astype(np.int32), np.repeat(sizes, sizes)


def position_columns(documents: Sequence[Document], tokens: TokenTable) -> dict[str, Column]:
    """Return the columns that depend on layout and position."""
    _, sentence_size = _rank_within(tokens.sentence)
    in_line, _ = _rank_within(tokens.line)
    starts_after_space = np.ones(len(tokens), dtype=np.int32)
    if len(tokens):
        same_line = tokens.line[1:] == tokens.line[:-1]
        starts_after_space[1:] = (tokens.start[1:] > tokens.end[:-1]) | ~same_line
    prefix, nearest, section = line_labels(documents, tokens)
    return {
        "position_in_line": _bucketed(in_line),
        "sentence_length": _bucketed(sentence_size),
        "spaced": Column(starts_after_space, ("glued", "spaced")),
        "line_prefix": Column.from_strings(prefix),
        "field": Column.from_strings(nearest),
        "section": Column.from_strings(section),
    }
