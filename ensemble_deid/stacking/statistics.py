"""Statistics of the training candidates: how often a string, a neighbouring word or a form turned out to be PHI.

For each kind of key (the string with its label, the preceding word with the label, ...) the table counts the
out-of-fold candidates with that key, and those of them that are correct. For a training candidate, the counts leave
out its own group (the patient, or the site where folds keep sites together).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats
from ensemble_deid.errors import ModelError
from ensemble_deid.mapped import MappedArrays, StringTable, to_file_bytes
from ensemble_deid.stacking.context import KINDS

_PRIOR_WEIGHT = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """Keys with their (correct, total) counts: `pairs` (n, 2)."""

    keys: StringTable = field(repr=False)
    pairs: NDArray[np.uint32] = field(repr=False)

    @classmethod
    def of(cls, counts: Mapping[str, tuple[int, int]]) -> "KeyCounts":
        """Return the table of counts by key."""
        keys = StringTable.of(counts)
        return cls(keys, np.array([counts[key] for key in keys], dtype=np.uint32).reshape(len(keys), 2))

    def of_keys(self, names: Sequence[str]) -> tuple[Floats, Flags]:
        """Return the counts of each key, (n, 2), 0 if unknown, and whether the table has it, (n,)."""
        index: dict[str, int] = {}
        number = [index.setdefault(name, len(index)) for name in names]
        places = self.keys.find(list(index))[number] if names else np.zeros(0, np.int64)
        known = places >= 0
        pairs = np.zeros((len(names), 2))
        pairs[known] = self.pairs[places[known]]
        return pairs, known


@dataclass(frozen=True, slots=True, eq=False)
class KeyStatistics:
    """The counts of each kind's keys, and the share of correct candidates overall."""

    counts: Mapping[str, KeyCounts] = field(repr=False)
    prior: float

    @classmethod
    def measured(
        cls,
        keys: Mapping[str, Sequence[str]],
        correct: Flags,
        *,
        patients: Sequence[str] = (),
        min_patients: int = 1,
    ) -> "KeyStatistics":
        """Count keys; each kind has a sequence with one key per candidate.

        Keys that fewer than `min_patients` of the candidates' `patients` have are left out.
        """
        counts: dict[str, KeyCounts] = {}
        truth = correct.tolist()
        for kind, names in keys.items():
            table: dict[str, tuple[int, int]] = {}
            for name, is_correct in zip(names, truth, strict=True):
                good, total = table.get(name, (0, 0))
                table[name] = (good + is_correct, total + 1)
            if min_patients > 1:
                owners = Counter(name for name, _ in set(zip(names, patients, strict=True)))
                table = {name: pair for name, pair in table.items() if owners[name] >= min_patients}
            counts[kind] = KeyCounts.of(table)
        return cls(counts, float(correct.mean()) if len(correct) else 0.5)

    def columns(
        self,
        keys: Mapping[str, Sequence[str]],
        *,
        own_correct: Flags | None = None,
        own_group: Sequence[str] | None = None,
    ) -> Floats:
        """Return, for each kind, the log odds of being correct and the log count of its key, (n, 2 * kinds).

        Pass `own_correct` and `own_group` for the candidates that were counted: their own group's contribution is
        then subtracted.
        """
        parts = []
        for kind in KINDS:
            names = keys[kind]
            pairs, known = self.counts[kind].of_keys(names)
            if own_correct is not None and own_group is not None:
                pairs[known] -= _own_counts(names, own_group, own_correct)[known]
            rate = (pairs[:, 0] + _PRIOR_WEIGHT * self.prior) / (pairs[:, 1] + _PRIOR_WEIGHT)
            rate = np.clip(rate, 1e-3, 1 - 1e-3)
            parts += [np.log(rate / (1 - rate)), np.log1p(pairs[:, 1])]
        return np.stack(parts, axis=1)

    def to_bytes(self) -> bytes:
        """Return the tables as safetensors."""
        arrays: dict[str, NDArray[Any]] = {"prior": np.array([self.prior])}
        for kind, table in self.counts.items():
            arrays |= {**table.keys.to_arrays(kind), f"{kind}.pairs": table.pairs}
        return to_file_bytes(arrays)

    @classmethod
    def of_file(cls, path: Path) -> "KeyStatistics":
        """Map what `to_bytes` gave. Raises ModelError."""
        try:
            arrays = MappedArrays.of_file(path).arrays
            counts = {kind: KeyCounts(StringTable.of_arrays(arrays, kind), arrays[f"{kind}.pairs"]) for kind in KINDS}
            (prior,) = arrays["prior"].tolist()
            for table in counts.values():
                if table.pairs.dtype.kind != "u" or table.pairs.shape != (len(table.keys), 2):
                    raise ValueError("the counts do not fit the keys")
                if (table.pairs[:, 0] > table.pairs[:, 1]).any():
                    raise ValueError("more correct than total")
            if not 0 <= prior <= 1:
                raise ValueError("not a share")
        except (ValueError, KeyError, TypeError):
            raise ModelError(f"{path}: the stacker's statistics are damaged") from None
        return cls(counts, prior)


def _own_counts(names: Sequence[str], groups: Sequence[str], correct: Flags) -> Floats:
    """Return the (correct, total) that each candidate's own group contributes to its key, (n, 2)."""
    index: dict[tuple[str, str], int] = {}
    owner = np.array([index.setdefault(pair, len(index)) for pair in zip(names, groups, strict=True)], dtype=np.int64)
    total = np.bincount(owner, minlength=len(index)).astype(np.float64)
    good = np.bincount(owner, weights=correct.astype(np.float64), minlength=len(index))
    return np.stack([good[owner], total[owner]], axis=1)
