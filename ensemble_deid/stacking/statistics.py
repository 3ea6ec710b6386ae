"""Statistics of the training candidates: how often a string, a neighbouring word or a form turned out to be PHI.

For each kind of key (the string with its label, the preceding word with the label, ...) the table counts the
out-of-fold candidates with that key, and those of them that are correct. For a training candidate, the counts leave
out its own group (the patient, or the site where folds keep sites together).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ensemble_deid.arrays import Flags, Floats
from ensemble_deid.errors import ModelError
from ensemble_deid.parsing import strict_json
from ensemble_deid.stacking.context import KINDS

_PRIOR_WEIGHT = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class KeyStatistics:
    """Kind -> key -> (correct, total), and the share of correct candidates overall."""

    counts: Mapping[str, Mapping[str, tuple[int, int]]] = field(repr=False)
    prior: float

    @classmethod
    def measured(cls, keys: Mapping[str, Sequence[str]], correct: Flags) -> "KeyStatistics":
        """Count keys; each kind has a sequence with one key per candidate."""
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        truth = correct.tolist()
        for kind, names in keys.items():
            table: dict[str, tuple[int, int]] = {}
            for name, is_correct in zip(names, truth, strict=True):
                good, total = table.get(name, (0, 0))
                table[name] = (good + is_correct, total + 1)
            counts[kind] = dict(sorted(table.items()))
        return cls(counts, float(correct.mean()) if len(correct) else 0.5)

    def of_many_patients(
        self, keys: Mapping[str, Sequence[str]], patients: Sequence[str], min_patients: int
    ) -> "KeyStatistics":
        """Return the statistics without the keys that fewer than `min_patients` patients have.

        `keys` are those that were counted, and `patients` has the patient of each candidate.
        """
        kept = {}
        for kind, names in keys.items():
            owners = Counter(name for name, _ in set(zip(names, patients, strict=True)))
            kept[kind] = {name: pair for name, pair in self.counts[kind].items() if owners[name] >= min_patients}
        return KeyStatistics(kept, self.prior)

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
            table = self.counts[kind]
            pairs = np.array([table.get(name, (0, 0)) for name in names], dtype=np.float64).reshape(len(names), 2)
            if own_correct is not None and own_group is not None:
                known = np.array([name in table for name in names], dtype=bool)
                pairs[known] -= _own_counts(names, own_group, own_correct)[known]
            rate = (pairs[:, 0] + _PRIOR_WEIGHT * self.prior) / (pairs[:, 1] + _PRIOR_WEIGHT)
            rate = np.clip(rate, 1e-3, 1 - 1e-3)
            parts += [np.log(rate / (1 - rate)), np.log1p(pairs[:, 1])]
        return np.stack(parts, axis=1)

    def to_json(self) -> str:
        """Return the table as JSON text."""
        counts = {kind: {key: list(pair) for key, pair in table.items()} for kind, table in self.counts.items()}
        return json.dumps({"prior": self.prior, "counts": counts}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "KeyStatistics":
        """Read what `to_json` gave. Raises ModelError."""
        try:
            content = strict_json(text)
            counts = {
                kind: {str(key): (int(pair[0]), int(pair[1])) for key, pair in content["counts"][kind].items()}
                for kind in KINDS
            }
            return cls(counts, float(content["prior"]))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise ModelError("the stacker's statistics are damaged") from None


def _own_counts(names: Sequence[str], groups: Sequence[str], correct: Flags) -> Floats:
    """Return the (correct, total) that each candidate's own group contributes to its key, (n, 2)."""
    index: dict[tuple[str, str], int] = {}
    owner = np.array([index.setdefault(pair, len(index)) for pair in zip(names, groups, strict=True)], dtype=np.int64)
    total = np.bincount(owner, minlength=len(index)).astype(np.float64)
    good = np.bincount(owner, weights=correct.astype(np.float64), minlength=len(index))
    return np.stack([good[owner], total[owner]], axis=1)
