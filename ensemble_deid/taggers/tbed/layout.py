"""The batch as one padded matrix: every column a row, empty cells between the sentences.

A window that reaches out of its sentence finds an empty cell (0), which no value equals, so that no rule sees
across a sentence's border and nothing needs to ask where the borders are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN

CellCodes = Int32s
Strings = Sequence[str] | Column


def as_column(values: Strings) -> Column:
    """Return a column as it is, and strings encoded, codes in order of first appearance."""
    if isinstance(values, Column):
        return values
    # One call of a C function a token: twice as fast as a loop over `dict.setdefault`.
    vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(vocabulary.__getitem__, values), np.int32, len(values))
    return Column(codes, tuple(vocabulary))


def check_columns(columns: Mapping[str, Strings], n_tokens: int, needed: Sequence[str]) -> dict[str, Column]:
    """Encode the columns that templates or rules need, in that order.

    Raises RuleError when one is missing, and ValueError when one has not `n_tokens` tokens.
    """
    encoded: dict[str, Column] = {}
    for name in dict.fromkeys(needed):
        if name == TAG_COLUMN:
            continue
        if name not in columns:
            raise RuleError(f"no feature column {name!r}; there are: {', '.join(sorted(columns))}")
        if len(columns[name]) != n_tokens:
            raise ValueError(f"column {name!r} has {len(columns[name])} tokens, the tags have {n_tokens}")
        encoded[name] = as_column(columns[name])
    return encoded


class Layout:
    """Where each token stands in a flat array with `pad` empty cells before, between and after the sentences.

    Raises ValueError when the sentence starts do not rise from 0 to below `n_tokens`.
    """

    def __init__(self, sentence_starts: ArrayLike, n_tokens: int, *, pad: int) -> None:
        starts: Int64s = np.asarray(sentence_starts, dtype=np.int64).reshape(-1)
        if n_tokens and (len(starts) == 0 or starts[0] != 0):
            raise ValueError("the first sentence must start at token 0")
        if (np.diff(starts) <= 0).any() or (len(starts) and starts[-1] >= max(n_tokens, 1)):
            raise ValueError(f"sentence starts must rise, and lie below the number of tokens, {n_tokens}")
        self.pad = pad
        lengths = np.diff(starts, append=n_tokens) if n_tokens else starts[:0]
        before = np.repeat(np.arange(1, len(lengths) + 1) * pad, lengths)
        self.places: Int64s = np.arange(n_tokens) + before
        self._starts, self._lengths = starts, lengths
        self.size = n_tokens + pad * (len(lengths) + 1)

    def __len__(self) -> int:
        return len(self.places)

    def spread(self, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Write one value a token into a flat array of `size` cells."""
        out[self.places] = values

    def room(self, most: int) -> Int64s:
        """Return for each token (most + 1) * (tokens before it in its sentence) + tokens after, each up to `most`."""
        first = np.repeat(self._starts, self._lengths)
        before = np.arange(len(self)) - first
        after = np.repeat(self._lengths, self._lengths) - 1 - before
        rooms: Int64s = np.minimum(before, most) * (most + 1) + np.minimum(after, most)
        return rooms
