"""Memory-mapped safetensors and sorted strings: nothing is parsed or copied, and processes share the memory."""

import math
import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from ensemble_deid.arrays import Int64s
from ensemble_deid.compiled import has_core
from ensemble_deid.parsing import strict_json

with suppress(ImportError):
    from ensemble_deid import _core

_KINDS: Mapping[str, str] = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_METADATA = "__metadata__"
_MOST_HEADER = 10_000_000
_ALIGNED = 64
_HEAD = 8
_STEP = 32
"""One head is kept for every so many strings."""
_MOST_HEADS = 1 << 16
_MASKS = np.array([2**64 - 2 ** (64 - 8 * size) for size in range(_HEAD + 1)], np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class MappedArrays:
    """The arrays of a safetensors file, read-only, and its metadata."""

    arrays: Mapping[str, NDArray[Any]] = field(repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path) -> "MappedArrays":
        """Map a file. Raises ValueError where it is damaged."""
        with path.open("rb") as stream:
            if not path.stat().st_size:
                raise ValueError("the file is empty")
            return cls.of_bytes(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))

    @classmethod
    def of_bytes(cls, data: bytes | mmap.mmap) -> "MappedArrays":
        """Read the bytes of a file without copying them. Raises ValueError where they are damaged."""
        length = int.from_bytes(data[:_HEAD], "little")
        if not 0 < length <= min(_MOST_HEADER, len(data) - _HEAD):
            raise ValueError("the header does not fit")
        header = strict_json(data[_HEAD : _HEAD + length])
        if not isinstance(header, dict):
            raise ValueError("the header does not fit")
        metadata = header.pop(_METADATA, {})
        begin = _HEAD + length
        try:
            found = {name: _array(data, begin, **about) for name, about in header.items()}
            places = sorted(tuple(about["data_offsets"]) for about in header.values())
        except (TypeError, OverflowError):
            raise ValueError("the header does not fit") from None
        ends = [0, *(high for _, high in places)]
        if [low for low, _ in places] != ends[:-1] or ends[-1] != len(data) - begin:
            raise ValueError("the arrays do not fill the file")
        return cls(found, metadata)


def _array(data: bytes | mmap.mmap, begin: int, dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    low, high = data_offsets
    kind, count = np.dtype(_KINDS.get(dtype, "V1")), math.prod(shape)
    if kind.kind == "V" or not 0 <= low <= high <= len(data) - begin or min(shape, default=0) < 0:
        raise ValueError("an array does not fit")
    if high - low != count * kind.itemsize:
        raise ValueError("an array does not fit")
    return np.frombuffer(data, kind, count=count, offset=begin + low).reshape(shape) if count else np.zeros(shape, kind)


def to_file_bytes(
    arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None, *, aligned: bool = False
) -> bytes:
    """Return the bytes of a safetensors file; the same arrays give the same bytes.

    With `aligned` the data begin at a multiple of 64 bytes; so does each array if all lengths are multiples of 64.
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    found = bytes(save(contiguous, metadata=dict(metadata or {}) or None))
    if not aligned:
        return found
    begin = _HEAD + int.from_bytes(found[:_HEAD], "little")
    blanks = -begin % _ALIGNED
    return (begin - _HEAD + blanks).to_bytes(_HEAD, "little") + found[_HEAD:begin] + b" " * blanks + found[begin:]


@dataclass(frozen=True, eq=False)
class StringTable(Sequence[str]):
    """Distinct strings in code point order, in UTF-8.

    String k ends at `ends[k]` in `text`, and the next one begins `gap` bytes on.
    """

    text: NDArray[np.uint8] = field(repr=False)
    ends: NDArray[np.uint32] = field(repr=False)
    gap: int = 1

    @classmethod
    def of(cls, strings: Iterable[str]) -> "StringTable":
        """Return the table of the distinct strings, sorted and zero-terminated."""
        # Mostly they are in order already, which makes sorting quick, and putting them into a set first slow.
        encoded = [string.encode("utf-8") for string in dict.fromkeys(sorted(strings))]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1) - 1
        return cls(np.frombuffer(b"\0".join([*encoded, b""]), np.uint8), ends.astype(np.uint32))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> "StringTable":
        """Return what `to_arrays` gave. Raises ValueError where it is damaged, KeyError where it is missing."""
        text, ends = arrays[f"{name}.text"], arrays[f"{name}.ends"]
        if text.dtype != np.uint8 or ends.dtype != np.uint32 or text.ndim != 1 or ends.ndim != 1:
            raise ValueError("the strings are not strings")
        fits = len(text) == int(ends[-1]) + 1 if len(ends) else not len(text)
        table = cls(text, ends)
        if not fits or (ends[1:] <= ends[:-1]).any() or not table.in_order:
            raise ValueError("the strings are out of order")
        text.tobytes().decode("utf-8")
        return table

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a table that `of` made, under names that begin with `name`."""
        return {f"{name}.text": self.text, f"{name}.ends": self.ends}

    def _numbers(self, offset: int, places: Int64s) -> NDArray[np.uint64]:
        """Return the eight bytes from an offset on of some strings as numbers; a string's end counts as zeros."""
        starts = self._starts(places) + offset
        sizes = np.clip(self.ends[places].astype(np.int64) - starts, 0, _HEAD)
        inside = max(0, len(self.text) - _HEAD + 1)
        # (places,): the eight bytes from each place of the text on, however they are aligned
        every = np.ndarray((inside,), ">u8", np.ascontiguousarray(self.text).data, strides=(1,))
        found = np.zeros(len(places), np.uint64)
        whole = starts < inside
        found[whole] = every[starts[whole]] & _MASKS[sizes[whole]]
        for row in np.flatnonzero(~whole & (sizes > 0)).tolist():
            some = self.text[starts[row] : starts[row] + sizes[row]].tobytes()
            found[row] = int.from_bytes(some.ljust(_HEAD, b"\0"), "big")
        return found

    def _starts(self, places: Int64s) -> Int64s:
        """Return where some strings begin, (places,)."""
        before = self.ends[np.maximum(places - 1, 0)].astype(np.int64) + self.gap
        return np.where(places > 0, before, 0)

    @property
    def in_order(self) -> bool:
        """Whether each string is greater than the one before it."""
        if has_core():
            return _core.strings_in_order(self.text, self.ends, self.gap)
        return all(
            self._is_in_order(np.arange(low, min(low + _MOST_HEADS, len(self.ends) - 1)))
            for low in range(0, len(self.ends) - 1, _MOST_HEADS)
        )

    def _is_in_order(self, before: Int64s) -> bool:
        """Return whether each string after one of the places `before` is greater than that."""
        sizes, more = (self.ends[places] - self._starts(places) for places in (before, before + 1))
        offset = 0
        while len(before):
            first, second = (self._numbers(offset, before + step) for step in (0, 1))
            if (second < first).any():
                return False
            same = first == second
            before, sizes, more = before[same], sizes[same], more[same]
            offset += _HEAD
            longer = sizes > offset
            if (more <= sizes)[~longer].any():
                return False
            before, sizes, more = before[longer], sizes[longer], more[longer]
        return True

    def find(self, strings: Sequence[str]) -> Int64s:
        """Return the place of each string in the table, -1 where it is not there, int64 (n,)."""
        return np.maximum(self._search(_encoded(strings)), -1)

    def beginning_with(self, prefixes: Sequence[str], *, before: bytes = b"\xff") -> tuple[Int64s, Int64s]:
        """Return for each prefix the first place of a string that begins with it, and that after the last, (n,).

        Strings that go on with `before` or a greater byte do not count; no byte of UTF-8 is as great as the last one.
        """
        encoded = _encoded(prefixes)
        first, after = (self._search([one + end for one in encoded]) for end in (b"", before))
        return np.where(first < 0, -1 - first, first), -1 - after

    def _search(self, wanted: list[bytes]) -> Int64s:
        """Return the place of each string; where it is not there, -1 less the number of smaller strings, (n,)."""
        if not has_core():
            return self._search_in_numpy(wanted)
        places = np.empty(len(wanted), dtype=np.int64)
        _core.find_strings(self.text, self.ends, self.gap, wanted, places)
        return places

    def _search_in_numpy(self, wanted: list[bytes]) -> Int64s:
        """Return in numpy what `_search` does: the first eight bytes as a number, then the whole string."""
        heads = np.array(wanted, f"S{_HEAD}").view(">u8").astype(np.uint64)
        low, high = self._bound(heads, "left"), self._bound(heads, "right")
        found = -1 - low
        for k in np.flatnonzero(low < high).tolist():
            place = bisect_left(range(len(self.ends)), wanted[k], int(low[k]), int(high[k]), key=self._bytes)
            there = place < high[k] and self._bytes(place) == wanted[k]
            found[k] = place if there else -1 - place
        return found

    @cached_property
    def _marks(self) -> NDArray[np.uint64]:
        """The first eight bytes of every `_STEP`th string as a number."""
        return self._numbers(0, np.arange(0, len(self.ends), _STEP))

    def _bound(self, heads: NDArray[np.uint64], side: Literal["left", "right"]) -> Int64s:
        """Return what `np.searchsorted` gives for the heads of all strings, (n,)."""
        if not len(self.ends):
            return np.zeros(len(heads), dtype=np.int64)
        block = np.searchsorted(self._marks, heads, side)
        low, high = np.maximum(block - 1, 0) * _STEP, np.minimum(block * _STEP, len(self.ends))
        before = np.less if side == "left" else np.less_equal
        for _ in range(_STEP.bit_length()):
            middle = (low + high) // 2
            further = before(self._numbers(0, np.minimum(middle, len(self.ends) - 1)), heads) & (low < high)
            low, high = np.where(further, middle + 1, low), np.where(further, high, middle)
        return low

    def _bytes(self, place: int) -> bytes:
        start = int(self.ends[place - 1]) + self.gap if place else 0
        return self.text[start : int(self.ends[place])].tobytes()

    def __contains__(self, string: object) -> bool:
        return isinstance(string, str) and bool(self.find([string])[0] >= 0)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        return self._bytes(range(len(self))[place]).decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        text, ends = self.text.tobytes(), self.ends.tolist()
        starts = [0, *(end + self.gap for end in ends)]
        return (text[a:b].decode("utf-8") for a, b in zip(starts, ends, strict=False))


def _encoded(strings: Sequence[str]) -> list[bytes]:
    return [string.encode("utf-8", "surrogatepass") for string in strings]
