"""Windows: which column of the feature table is looked at, and at which places around a token.

The grammar of everything that names windows, the templates of rules and the features of the CRF alike:

    lower[-1]                one place, by its offset from the token: here the token before
    lower in [-3,-1]         several places, of which any one counts (`[-3..-1]` and a missing `in` are read, too)
    lower[-1] & shape[0]     windows joined: all of them count
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column, FeatureTable

COLUMN_NAME = re.compile(r"[^\W\d][\w.-]*")
_OFFSET = r"([+-]?[0-9]{1,4})"
_SINGLE = re.compile(rf"\[\s*{_OFFSET}\s*\]\s*")
_RANGE = re.compile(rf"\s*(?:in\s*)?\[\s*{_OFFSET}\s*(?:,|\.\.)\s*{_OFFSET}\s*\]\s*")
_AND = re.compile(r"&\s*")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """The places where one column is looked at: offsets `first` to `last`, both included, 0 the token itself.

    Raises RuleError when it is empty, or when the column's name cannot be written in a rule.
    """

    column: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if COLUMN_NAME.fullmatch(self.column) is None:
            raise RuleError("a column's name is a letter followed by letters, digits, '_', '.' or '-'")
        if self.first > self.last:
            raise RuleError(f"the window [{self.first},{self.last}] ends before it begins")

    def check_reach(self, most: int) -> None:
        """Raise RuleError where the window reaches more than `most` tokens away."""
        if self.first < -most or self.last > most:
            raise RuleError(f"the window [{self.first},{self.last}] reaches beyond offsets -{most} to {most}")

    @property
    def offsets(self) -> range:
        """Every offset of the window, in rising order."""
        return range(self.first, self.last + 1)

    def __str__(self) -> str:
        if self.first == self.last:
            return f"{self.column}[{self.first}]"
        return f"{self.column} in [{self.first},{self.last}]"


def parse_windows(text: str, *, place: str, most: int | None = None) -> tuple[Window, ...]:
    """Read windows joined by `&`; where `most` is given, none may reach more tokens away.

    A RuleError begins with `place` and gives the column (from 1).
    """
    windows: list[Window] = []
    at = len(text) - len(text.lstrip())
    while True:
        name = COLUMN_NAME.match(text, at)
        if name is None:
            raise RuleError(f"{place}, column {at + 1}: expected the name of a feature column")
        numbers = _SINGLE.match(text, name.end()) or _RANGE.match(text, name.end())
        if numbers is None:
            raise RuleError(f"{place}, column {name.end() + 1}: expected [offset] or in [first,last]")
        try:
            window = Window(name[0], int(numbers[1]), int(numbers[numbers.lastindex or 1]))
            if most is not None:
                window.check_reach(most)
        except RuleError as error:
            raise RuleError(f"{place}, column {at + 1}: {error}") from None
        windows.append(window)
        if numbers.end() == len(text):
            return tuple(windows)
        joint = _AND.match(text, numbers.end())
        if joint is None:
            raise RuleError(f"{place}, column {numbers.end() + 1}: expected '&' or the end")
        at = joint.end()


def joined_column(table: FeatureTable, windows: Sequence[Window], sequence: Int32s) -> Column:
    """Return what windows of one place each show for every token, joined; `<>` where that is outside the sequence.

    `sequence` is int32 (n_tokens,). Values are joined once per distinct combination. Raises ValueError for a window of
    several places, which has no single value.
    """
    code: Int64s | None = None
    values: list[tuple[str, ...]] = []
    for window in windows:
        if window.first != window.last:
            raise ValueError(f"the window {window} has several places, and so no single value")
        column = table[window.column]
        pad = len(column.values)
        shifted = codes_at(column.codes, window.first, sequence, pad)
        if code is None:
            distinct, code = np.unique(shifted, return_inverse=True)
            values = [(column.values[c] if c < pad else "<>",) for c in distinct.tolist()]
        else:
            distinct, code = np.unique(code * (pad + 1) + shifted, return_inverse=True)
            pairs = [divmod(c, pad + 1) for c in distinct.tolist()]
            values = [(*values[a], column.values[b] if b < pad else "<>") for a, b in pairs]
    codes = np.zeros(0, np.int32) if code is None else code.astype(np.int32)
    return Column(codes, tuple("\x1f".join(parts) for parts in values))


def codes_at(codes: Int32s, offset: int, sequence: Int32s, pad: int) -> Int64s:
    """Return the codes `offset` tokens away, `pad` where that is outside the token's sequence."""
    out = np.full(len(codes), pad, dtype=np.int64)
    n = len(codes)
    if abs(offset) >= n > 0:
        return out
    here = slice(max(0, -offset), n - max(0, offset))
    there = slice(max(0, offset), n - max(0, -offset))
    same = sequence[here] == sequence[there]
    out[here] = np.where(same, codes[there], pad)
    return out
