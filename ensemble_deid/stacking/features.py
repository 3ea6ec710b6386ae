"""The final estimator's features of a candidate: confidence, competitors, label, form, note, training statistics."""

import numpy as np

from ensemble_deid.arrays import Flags, Floats
from ensemble_deid.note.overlaps import RELATIONS, overlapping_rows, relation
from ensemble_deid.stacking.candidates import CandidateTable, maxima
from ensemble_deid.stacking.context import KINDS, CandidateContext
from ensemble_deid.stacking.statistics import KeyStatistics
from ensemble_deid.submodels import row_of


def _log_odds(probability: Floats) -> Floats:
    """Return log odds, kept within -7 and 7: beyond that a confidence carries no more information."""
    clipped = np.clip(probability, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(clipped / (1 - clipped)), dtype=np.float64)


def statistics_keys(table: CandidateTable, context: CandidateContext) -> dict[str, list[str]]:
    """Return the context keys, each joined with the candidate's label."""
    names = [table.labels[label] for label in table.label.tolist()]
    return {kind: [f"{name}\t{key}" for name, key in zip(names, context.keys[kind], strict=True)] for kind in KINDS}


def measure_statistics(
    table: CandidateTable, context: CandidateContext, correct: Flags, *, min_patients: int = 1
) -> KeyStatistics:
    """Count, over the training candidates, how often those with each key are correct.

    Keys that fewer than `min_patients` patients have are left out.
    """
    keys = statistics_keys(table, context)
    return KeyStatistics.measured(keys, correct, patients=context.patients, min_patients=min_patients)


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
    """Return the columns of the feature matrix that come from the statistics."""
    own_group = None if counted is None else context.groups
    return statistics.columns(statistics_keys(table, context), own_correct=counted, own_group=own_group)


def statistics_columns(features: Floats, context: CandidateContext) -> slice:
    """Return where `learned` stands in a feature matrix."""
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
        _log_odds(_learner_confidence(table)),
        confidence.max(axis=1, initial=0.0),
        confidence.min(axis=1, initial=1.0),
        chosen.sum(axis=1),
    ]
    return np.concatenate([confidence, _log_odds(confidence), chosen, np.stack(summary, axis=1)], axis=1)


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
    index: dict[tuple[int, int], int] = {}
    pairs = zip(table.document.tolist(), context.string.tolist(), strict=True)
    group = np.array([index.setdefault(pair, len(index)) for pair in pairs], dtype=np.int64)
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
    tagged = np.zeros((len(index), len(table.labels)))
    np.add.at(tagged, (group[strong], table.label[strong]), 1)
    own = highest[place]
    own_strong = strength[own] >= 0.5
    same = tagged[group, table.label] - (own_strong & (table.label[own] == table.label))
    other = tagged[group].sum(axis=1) - own_strong - same
    total = np.maximum(context.elsewhere, same + other)
    out[:] = np.log1p(np.stack([total, same, other, total - same - other], axis=1))
    return out
