"""The weights of a CRF as memory-mapped arrays.

A feature value is numbered by its place among the sorted values of its column. A window over one to four columns is
then one number, too, and binary search finds its weights among the numbers seen in training: no string is built or
hashed, so no two collide.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int32s, Int64s
from ensemble_deid.errors import ConfigError, ModelError, RuleError
from ensemble_deid.features.table import Column
from ensemble_deid.features.windows import Window, parse_windows
from ensemble_deid.mapped import MappedArrays, StringTable, to_file_bytes
from ensemble_deid.taggers.crf.crfsuite_file import CrfsuiteWeights

BEYOND = "<>"
"""The value of a window that lies outside the sequence."""
LEAST_WEIGHT = 0.001
"""A token has some hundred weights for a label, so smaller ones change its score by less than 0.1."""
_JOINT = "\x1f"
_MOST = 2**63


@dataclass(frozen=True, slots=True, eq=False)
class WindowWeights:
    """The weights of one window's values: `keys` (values,) ascending, as `values_as_key` makes them.

    Value k has the weights from `first + k` on in `CrfWeights.begins`.
    """

    windows: tuple[Window, ...]
    keys: NDArray[np.unsignedinteger[Any]] = field(repr=False)
    first: int

    def places(self, values: Sequence[Int64s], sizes: Sequence[int]) -> tuple[Int64s, Int64s]:
        """Return the tokens whose values have weights, and the attribute that each one's value is.

        `values` has the number of each token's value for each window, -1 if training did not see it.
        """
        key, known = values[0], values[0] >= 0
        for more, size in zip(values[1:], sizes[1:], strict=True):
            key, known = key * size + more, known & (more >= 0)
        tokens = np.flatnonzero(known)
        wanted = key[tokens].astype(self.keys.dtype)
        at = np.minimum(np.searchsorted(self.keys, wanted), max(0, len(self.keys) - 1))
        hit = self.keys[at] == wanted if len(self.keys) else np.zeros(len(tokens), bool)
        return tokens[hit], at[hit] + self.first


@dataclass(frozen=True, eq=False)
class CrfWeights:
    """Labels, the values of each column, weights by window, and transitions (labels, labels).

    Those of attribute k begin at `begins[k]` in `weight`, for the labels in `label`; `begins` is (attributes + 1,).
    """

    labels: tuple[str, ...]
    columns: Mapping[str, StringTable] = field(repr=False)
    windows: Mapping[str, WindowWeights] = field(repr=False)
    begins: Int32s = field(repr=False)
    label: NDArray[Any] = field(repr=False)
    weight: NDArray[Any] = field(repr=False)
    transitions: Floats = field(repr=False)

    @classmethod
    def of_crfsuite(cls, read: CrfsuiteWeights) -> "CrfWeights":
        order = np.lexsort((read.label_of_weight, read.attribute_of_weight))
        begins = np.searchsorted(read.attribute_of_weight[order], np.arange(len(read.attributes) + 1))
        by_window: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for row, attribute in enumerate(read.attributes):
            name, _, value = attribute.partition("=")
            by_window.setdefault(name, []).append((tuple(value.split(_JOINT)), row))
        parsed = {name: parse_windows(name, place="the CRF's file") for name in sorted(by_window)}
        columns = _values_by_column(parsed, by_window)
        found: dict[str, WindowWeights] = {}
        rows: list[int] = []
        for name, windows in parsed.items():
            fitting = [(values, row) for values, row in by_window[name] if len(values) == len(windows)]
            tables = [columns[window.column] for window in windows]
            most = math.prod(map(len, tables))
            if most >= _MOST:
                raise ConfigError(f"crf.windows: {name}: too many values to tell apart")
            places = [table.find([values[k] for values, _ in fitting]) for k, table in enumerate(tables)]
            coded = places[0]
            for more, table in zip(places[1:], tables[1:], strict=True):
                coded = coded * len(table) + more
            sort = np.argsort(coded)
            kind = next(kind for kind in (np.uint16, np.uint32, np.uint64) if most <= np.iinfo(kind).max)
            found[name] = WindowWeights(windows, coded[sort].astype(kind), len(rows))
            rows += [fitting[k][1] for k in sort.tolist()]
        of_row = np.array(rows, dtype=np.int64)
        counts = (begins[1:] - begins[:-1])[of_row]
        at = order[np.repeat(begins[of_row] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        small = np.uint8 if len(read.labels) < 2**8 else np.uint16
        return cls(
            read.labels,
            columns,
            found,
            begins=np.cumsum([0, *counts.tolist()]).astype(np.int32),
            label=read.label_of_weight[at].astype(small),
            weight=read.weight[at],
            transitions=read.transitions,
        )

    def compact(self) -> "CrfWeights":
        """Return a copy with weights in single precision, without those nearer to 0 than `LEAST_WEIGHT`."""
        kept = np.abs(self.weight) >= LEAST_WEIGHT
        counts = np.diff(np.append(0, np.cumsum(kept))[self.begins])
        left = counts > 0
        windows: dict[str, WindowWeights] = {}
        first = 0
        for name, window in self.windows.items():
            keys = window.keys[left[window.first : window.first + len(window.keys)]]
            windows[name] = replace(window, keys=keys, first=first)
            first += len(keys)
        begins = np.append(0, np.cumsum(counts[left])).astype(np.int32)
        weight = self.weight[kept].astype(np.float32)
        return replace(self, windows=windows, begins=begins, label=self.label[kept], weight=weight)

    def to_bytes(self) -> bytes:
        arrays: dict[str, NDArray[Any]] = {
            "labels": _text(self.labels),
            "columns": _text(self.columns),
            "windows": _text(self.windows),
            "begins": self.begins,
            "label": self.label,
            "weight": self.weight,
            "transitions": self.transitions,
        }
        for number, table in enumerate(self.columns.values()):
            arrays |= table.to_arrays(f"column.{number}")
        for number, window in enumerate(self.windows.values()):
            arrays[f"keys.{number}"] = window.keys
        return to_file_bytes(arrays)

    @classmethod
    def of_file(cls, path: Path) -> "CrfWeights":
        """Map what `to_bytes` gave. Raises ModelError where it is damaged."""
        try:
            return cls._of_arrays(MappedArrays.of_file(path).arrays)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, RuleError) as error:
            raise ModelError(f"{path}: damaged ({type(error).__name__})") from None

    @classmethod
    def _of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "CrfWeights":
        labels, columns, names = (_names(arrays[name]) for name in ("labels", "columns", "windows"))
        tables = {name: StringTable.of_arrays(arrays, f"column.{k}") for k, name in enumerate(columns)}
        windows: dict[str, WindowWeights] = {}
        first = 0
        for number, name in enumerate(names):
            keys = arrays[f"keys.{number}"]
            windows[name] = WindowWeights(parse_windows(name, place="the CRF's file"), keys, first)
            first += len(keys)
            most = math.prod(len(tables[window.column]) for window in windows[name].windows)
            if keys.dtype not in (np.uint16, np.uint32, np.uint64) or keys.ndim != 1 or (keys[1:] <= keys[:-1]).any():
                raise ValueError("the values of a window are out of order")
            # A number of a narrower kind would be taken for another.
            if most >= _MOST or (len(keys) and (int(keys[-1]) >= most or most > np.iinfo(keys.dtype).max)):
                raise ValueError("not a number of a value")
        begins, label, weight, transitions = (arrays[name] for name in ("begins", "label", "weight", "transitions"))
        fits = (
            len(windows) == len(names)
            and begins.shape == (first + 1,)
            and begins[0] == 0
            and not (begins[1:] < begins[:-1]).any()
            and label.shape == weight.shape == (int(begins[-1]),)
            and transitions.shape == (len(labels), len(labels))
            and begins.dtype == np.int32
            and transitions.dtype.kind == "f"
            and label.dtype in (np.uint8, np.uint16)
            and weight.dtype in (np.float32, np.float64)
            and int(label.max(initial=0)) < max(1, len(labels))
            and np.isfinite(np.add.reduce(weight, dtype=np.float64))
            and np.isfinite(transitions).all()
        )
        if not fits:
            raise ValueError("the parts do not fit each other")
        return cls(labels, tables, windows, begins=begins, label=label, weight=weight, transitions=transitions)

    def numbers(self, name: str, column: Column) -> Int64s:
        """Return the number of each value of a column, and of what lies beyond, (values + 1,); -1 for unknown ones."""
        return self.columns[name].find([*column.values, BEYOND])

    def attributes(self) -> Iterator[str]:
        """Yield each attribute that has a weight as CRFsuite spells it, in the order of `begins`."""
        for name, window in self.windows.items():
            tables = [self.columns[part.column] for part in window.windows]
            for key in window.keys.tolist():
                values: list[str] = []
                for table in reversed(tables):
                    key, place = divmod(key, len(table))
                    values.append(table[place])
                yield f"{name}={_JOINT.join(reversed(values))}"


def _values_by_column(
    parsed: Mapping[str, tuple[Window, ...]], by_window: Mapping[str, list[tuple[tuple[str, ...], int]]]
) -> dict[str, StringTable]:
    values: dict[str, set[str]] = {}
    for name, windows in parsed.items():
        for k, window in enumerate(windows):
            met = values.setdefault(window.column, set())
            met.update(found[k] for found, _ in by_window[name] if len(found) == len(windows))
    return {name: StringTable.of(met) for name, met in sorted(values.items())}


def _text(names: Sequence[str] | Mapping[str, Any]) -> NDArray[np.uint8]:
    return np.frombuffer("\0".join(names).encode(), np.uint8)


def _names(text: NDArray[Any]) -> tuple[str, ...]:
    data = text.tobytes()
    return tuple(data.decode("utf-8").split("\0")) if data else ()
