"""The columnar feature table: one integer code a token and feature, with the values the codes stand for."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from ensemble_deid.arrays import Flags, Int32s


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One feature of all tokens of a batch: `values[codes[i]]` is token i's value.

    `codes` is int32 (n_tokens,), each in [0, len(values)); the values are distinct. Codes mean nothing
    outside their batch: a trained model keeps its own vocabulary of values and looks each value up once.
    """

    codes: Int32s
    values: tuple[str, ...] = field(repr=False)

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> "Column":
        """Encode one string a token, codes in order of first appearance."""
        # One call of a C function a token: twice as fast as a loop over `dict.setdefault`.
        vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
        codes = np.fromiter(map(vocabulary.__getitem__, strings), np.int32)
        return cls(codes, tuple(vocabulary))

    def map_values(self, function: Callable[[str], str]) -> "Column":
        """Return the column of `function(value)`, which is called once per distinct value."""
        return self.with_values(map(function, self.values))

    def with_values(self, values: Iterable[str]) -> "Column":
        """Return the column with another value, in the same order, for each distinct value."""
        derived = Column.from_strings(values)
        return Column(derived.codes[self.codes] if len(self.values) else self.codes, derived.values)

    def strings(self) -> list[str]:
        """Return the value of every token."""
        values = self.values
        return [values[code] for code in self.codes.tolist()]

    def is_any_of(self, *values: str) -> Flags:
        """Return which tokens have one of the values, bool (n_tokens,)."""
        wanted = np.array([value in values for value in self.values], dtype=bool)
        return wanted[self.codes] if len(wanted) else np.zeros(len(self.codes), dtype=bool)

    def lookup(self, vocabulary: Mapping[str, int], *, unknown: int) -> Int32s:
        """Return each token's index in a model's own vocabulary, `unknown` where it has none."""
        table = np.asarray([vocabulary.get(value, unknown) for value in self.values] or [unknown], np.int32)
        return table[self.codes]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Feature name -> column; all columns are of the same batch, token by token."""

    columns: Mapping[str, Column]

    def __getitem__(self, name: str) -> Column:
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError(f"no feature {name!r}; there are: {', '.join(sorted(self.columns))}") from None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def names(self) -> Sequence[str]:
        """Feature names in the order they were made."""
        return tuple(self.columns)

    def with_columns(self, more: Mapping[str, Column]) -> "FeatureTable":
        """Return the table with columns added (or replaced)."""
        return FeatureTable({**self.columns, **more})
