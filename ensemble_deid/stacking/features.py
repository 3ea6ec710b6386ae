"""The final estimator's features of a candidate: confidence, competitors, label, form, note, training statistics.

The statistics say how often a string, a neighbouring word or a form turned out to be PHI: for each kind of key (the
string with its label, the preceding word with the label, ...) the out-of-fold candidates with that key, and the correct
ones among them. For a training candidate they leave out its own group (the patient, or the site where folds keep sites
together).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, log_odds
from ensemble_deid.errors import ModelError
from ensemble_deid.mapped import MappedArrays, StringTable, to_file_bytes
from ensemble_deid.note.overlaps import RELATIONS, overlapping_rows, relation
from ensemble_deid.stacking.candidates import CandidateTable, maxima
from ensemble_deid.stacking.context import KINDS, CandidateContext, numbered
from ensemble_deid.submodels import row_of

_PRIOR_WEIGHT, _BOUND = 2.0, 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """Keys with their (correct, total) counts: `pairs` (n, 2)."""

    keys: StringTable = field(repr=False)
    pairs: NDArray[np.uint32] = field(repr=False)

    @classmethod
    def of(cls, counts: Mapping[str, tuple[int, int]]) -> "KeyCounts":
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
            parts += [log_odds(rate, bound=_BOUND), np.log1p(pairs[:, 1])]
        return np.stack(parts, axis=1)

    def to_bytes(self) -> bytes:
        arrays: dict[str, NDArray[Any]] = {"prior": np.array([self.prior])}
        for kind, table in self.counts.items():
            smallest = np.min_scalar_type(int(table.pairs.max(initial=0)))
            arrays |= {**table.keys.to_arrays(kind), f"{kind}.pairs": table.pairs.astype(smallest)}
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
    owner = numbered(zip(names, groups, strict=True))
    total = np.bincount(owner).astype(np.float64)
    good = np.bincount(owner, weights=correct.astype(np.float64))
    return np.stack([good[owner], total[owner]], axis=1)


def statistics_keys(table: CandidateTable, context: CandidateContext) -> dict[str, list[str]]:
    names = [table.labels[label] for label in table.label.tolist()]
    return {kind: [f"{name}\t{key}" for name, key in zip(names, context.keys[kind], strict=True)] for kind in KINDS}


def measure_statistics(
    table: CandidateTable, context: CandidateContext, correct: Flags, *, min_patients: int = 1
) -> KeyStatistics:
    """Count how often the training candidates with each key are correct.

    Keys that fewer than `min_patients` patients have are left out.
    """
    counts: dict[str, KeyCounts] = {}
    truth = correct.tolist()
    for kind, names in statistics_keys(table, context).items():
        found: dict[str, tuple[int, int]] = {}
        for name, is_correct in zip(names, truth, strict=True):
            good, total = found.get(name, (0, 0))
            found[name] = (good + is_correct, total + 1)
        if min_patients > 1:
            owners = Counter(name for name, _ in set(zip(names, context.patients, strict=True)))
            found = {name: pair for name, pair in found.items() if owners[name] >= min_patients}
        counts[kind] = KeyCounts.of(found)
    return KeyStatistics(counts, float(correct.mean()) if len(correct) else 0.5)


def candidate_features(
    table: CandidateTable,
    context: CandidateContext,
    statistics: KeyStatistics,
    *,
    counted: Flags | None = None,
) -> Floats:
    """Return the feature matrix, (n, features).

    For the candidates that the statistics were counted on, pass as `counted` which of them are correct: each one's
    own group (its patient, or site) is then left out of its statistics.
    """
    parts = [
        _confidence(table),
        _competition(table),
        np.eye(len(table.labels))[table.label],
        context.form,
        _elsewhere(table, context),
        learned(table, context, statistics, counted=counted),
        context.more.values,
    ]
    return np.concatenate(parts, axis=1)


def learned(
    table: CandidateTable, context: CandidateContext, statistics: KeyStatistics, *, counted: Flags | None = None
) -> Floats:
    """Return the columns of the feature matrix that come from the statistics; `counted` as in `candidate_features`."""
    own_group = None if counted is None else context.groups
    return statistics.columns(statistics_keys(table, context), own_correct=counted, own_group=own_group)


def statistics_columns(features: Floats, context: CandidateContext) -> slice:
    """Return which columns of a feature matrix are those of `learned`."""
    after = features.shape[1] - context.more.values.shape[1]
    return slice(after - 2 * len(KINDS), after)


def _learner_confidence(table: CandidateTable) -> Floats:
    """Return the mean confidence of the submodels with marginals, or of all submodels if none has them."""
    columns = [k for k, name in enumerate(table.submodels) if row_of(name).has_marginals]
    return np.asarray(table.confidence[:, columns or slice(None)].mean(axis=1), dtype=np.float64)


def _confidence(table: CandidateTable) -> Floats:
    confidence = table.confidence
    chosen = table.chosen.astype(np.float64)
    summary = [
        confidence.mean(axis=1),
        log_odds(_learner_confidence(table), bound=_BOUND),
        confidence.max(axis=1, initial=0.0),
        confidence.min(axis=1, initial=1.0),
        chosen.sum(axis=1),
    ]
    return np.concatenate([confidence, log_odds(confidence, bound=_BOUND), chosen, np.stack(summary, axis=1)], axis=1)


def _competition(table: CandidateTable) -> Floats:
    n = len(table)
    i, j = overlapping_rows(table)
    strength = _learner_confidence(table)
    how = relation(table, i, j)
    by_relation = [maxima(strength[j] * (how == k), i, n) for k in range(len(RELATIONS))]
    other = maxima(strength[j] * (table.label[i] != table.label[j]), i, n)
    count = np.log1p(np.bincount(i, minlength=n).astype(np.float64))
    margin = strength - maxima(strength[j], i, n)
    return np.concatenate(
        [
            maxima(table.confidence[j], i, n),
            maxima(table.chosen[j].astype(np.float64), i, n),
            np.stack([*by_relation, other, count, margin], axis=1),
        ],
        axis=1,
    )


def _elsewhere(table: CandidateTable, context: CandidateContext) -> Floats:
    """Return log counts of the string's other occurrences in the note, (n, 4).

    The columns are: all of them, those tagged with the same label, with another label, and not tagged. An occurrence
    counts as tagged when its highest-scoring candidate has a confidence of at least one half.
    """
    n = len(table)
    out = np.zeros((n, 4))
    if not n:
        return out
    strength = _learner_confidence(table)
    group = numbered(zip(table.document.tolist(), context.string.tolist(), strict=True))
    # Rows are sorted by offsets: a new occurrence begins wherever document, start or end changes.
    new = np.ones(n, dtype=bool)
    new[1:] = (
        (table.document[1:] != table.document[:-1])
        | (table.start[1:] != table.start[:-1])
        | (table.end[1:] != table.end[:-1])
    )
    place = np.cumsum(new) - 1
    order = np.lexsort((-np.arange(n), strength, place))
    highest = np.zeros(int(place[-1]) + 1, dtype=np.int64)
    highest[place[order]] = order
    strong = highest[strength[highest] >= 0.5]
    tagged = np.zeros((int(group.max()) + 1, len(table.labels)))
    np.add.at(tagged, (group[strong], table.label[strong]), 1)
    own = highest[place]
    own_strong = strength[own] >= 0.5
    same = tagged[group, table.label] - (own_strong & (table.label[own] == table.label))
    other = tagged[group].sum(axis=1) - own_strong - same
    total = np.maximum(context.elsewhere, same + other)
    out[:] = np.log1p(np.stack([total, same, other, total - same - other], axis=1))
    return out
