"""Columns of candidates with names of their own: which there are depends on the submodels and on the public lists."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Floats, Int64s


@dataclass(frozen=True, slots=True, eq=False)
class NamedColumns:
    """`values` float64 (n, names); a name is `kind:` and what it is about, such as `phi:crf`."""

    names: tuple[str, ...]
    values: Floats

    @classmethod
    def none(cls, n: int) -> "NamedColumns":
        """Return no columns for `n` candidates."""
        return cls((), np.zeros((n, 0)))

    def of_kinds(self, *kinds: str) -> Floats:
        """Return the values of the columns of some kinds, (n, columns)."""
        return self.values[:, [k for k, name in enumerate(self.names) if name.partition(":")[0] in kinds]]

    def select(self, rows: Int64s) -> "NamedColumns":
        """Return some of the rows, by index."""
        return NamedColumns(self.names, self.values[rows])

    def without(self, names: Sequence[str]) -> "NamedColumns":
        """Return the columns without those that have one of the names."""
        kept = [k for k, name in enumerate(self.names) if name not in names]
        return NamedColumns(tuple(self.names[k] for k in kept), self.values[:, kept])

    def without_submodels(self, submodels: Sequence[str]) -> "NamedColumns":
        """Return the columns without those about some of the submodels, of whatever kind."""
        return self.without([name for name in self.names if name.partition(":")[2] in submodels])

    def beside(self, others: "NamedColumns") -> "NamedColumns":
        """Return these columns and, after them, others of the same candidates."""
        return NamedColumns(self.names + others.names, np.concatenate([self.values, others.values], axis=1))
