"""Conjunctions of columns at places around a token, as one column: `word[-1]&word[0]`."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.errors import ConfigError
from ensemble_deid.features.table import Column, FeatureTable

_PART = re.compile(r"\s*([a-z_0-9]+)\[([+-]?\d+)\]\s*")


@dataclass(frozen=True, slots=True)
class Window:
    """A conjunction: (feature, offset) pairs, and the text it was written as."""

    text: str
    parts: tuple[tuple[str, int], ...]


def parse_window(text: str) -> Window:
    """Read `feature[offset]&feature[offset]...`. Raises ConfigError where it is not of that form."""
    parts = []
    for part in text.split("&"):
        match = _PART.fullmatch(part)
        if not match:
            raise ConfigError(f"{text!r} is no window: expected feature[offset], joined by &, at {part.strip()!r}")
        parts.append((match.group(1), int(match.group(2))))
    canonical = "&".join(f"{name}[{offset}]" for name, offset in parts)
    return Window(canonical, tuple(parts))


def _shifted(codes: NDArray[np.int32], offset: int, sequence: NDArray[np.int32], pad: int) -> NDArray[np.int64]:
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


def window_column(table: FeatureTable, window: Window, sequence: NDArray[np.int32]) -> Column:
    """Return the window's value for every token; `<>` stands for a place outside the token's sequence.

    `sequence` is int32 (n_tokens,). Values are joined once per distinct combination.
    """
    code: NDArray[np.int64] | None = None
    values: list[tuple[str, ...]] = []
    for name, offset in window.parts:
        column = table[name]
        pad = len(column.values)
        shifted = _shifted(column.codes, offset, sequence, pad)
        if code is None:
            distinct, code = np.unique(shifted, return_inverse=True)
            values = [(column.values[c] if c < pad else "<>",) for c in distinct.tolist()]
        else:
            distinct, code = np.unique(code * (pad + 1) + shifted, return_inverse=True)
            pairs = [divmod(c, pad + 1) for c in distinct.tolist()]
            values = [(*values[a], column.values[b] if b < pad else "<>") for a, b in pairs]
    codes = np.zeros(0, np.int32) if code is None else code.astype(np.int32)
    return Column(codes, tuple("\x1f".join(parts) for parts in values))
