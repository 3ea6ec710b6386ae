"""The stacker's view of a candidate as numbers: confidence, competition, type, form, note and training folds."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.overlaps import RELATIONS, maxima, overlapping_pairs, relation
from ensemble_deid.stacking.statistics import KeyStatistics
from ensemble_deid.stacking.surroundings import FORM, KINDS, Surroundings

Floats = NDArray[np.float64]


def _log_odds(probability: Floats) -> Floats:
    """Return log odds, kept within -7 and 7: beyond that a submodel's confidence says nothing more."""
    clipped = np.clip(probability, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(clipped / (1 - clipped)), dtype=np.float64)


def feature_names(submodels: tuple[str, ...], labels: tuple[str, ...]) -> list[str]:
    """Return the name of every column of `candidate_features`."""
    names = [f"{what}:{name}" for what in ("confidence", "odds", "chosen") for name in submodels]
    names += ["mean_confidence", "learner_odds", "most", "least", "votes"]
    names += [f"rival_{what}:{name}" for what in ("confidence", "chosen") for name in submodels]
    names += [f"rival_{how}" for how in RELATIONS] + ["rival_other_label", "rivals", "margin"]
    names += [f"label:{label}" for label in labels]
    names += FORM
    names += ["elsewhere", "elsewhere_same_label", "elsewhere_other_label", "elsewhere_untagged"]
    names += [f"{what}:{kind}" for kind in KINDS for what in ("odds", "count")]
    return names


def statistics_keys(table: CandidateTable, around: Surroundings) -> dict[str, list[str]]:
    """Return the surroundings' keys, each joined with the candidate's label."""
    names = [table.labels[label] for label in table.label.tolist()]
    return {kind: [f"{name}\t{key}" for name, key in zip(names, around.keys[kind], strict=True)] for kind in KINDS}


def measure_statistics(table: CandidateTable, around: Surroundings, right: NDArray[np.bool_]) -> KeyStatistics:
    """Measure, on training candidates, how often each key's candidates are right."""
    return KeyStatistics.measured(statistics_keys(table, around), right)


def candidate_features(
    table: CandidateTable,
    around: Surroundings,
    statistics: KeyStatistics,
    *,
    counted: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the feature matrix, (n, features).

    `counted` says which candidates are right when they are the ones behind the statistics: each is then judged
    without its own patient.
    """
    keys = statistics_keys(table, around)
    learned = statistics.columns(keys, own_right=counted, own_group=None if counted is None else around.groups)
    parts = [
        _confidence(table),
        _competition(table),
        np.eye(len(table.labels))[table.label],
        around.form,
        _elsewhere(table, around),
        learned,
    ]
    return np.concatenate(parts, axis=1)


def _learner_confidence(table: CandidateTable) -> Floats:
    """Return the mean confidence of the learners with marginals (CRF, network), or of all where there are none."""
    columns = [k for k, name in enumerate(table.submodels) if name in ("crf", "neural")]
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
    i, j = overlapping_pairs(table)
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


def _elsewhere(table: CandidateTable, around: Surroundings) -> Floats:
    """Return log counts of the string's other places in the note: all, tagged alike, otherwise, or not, (n, 4).

    A place counts as tagged when its surest candidate is believed by one half or more.
    """
    n = len(table)
    out = np.zeros((n, 4))
    if not n:
        return out
    strength = _learner_confidence(table)
    index: dict[tuple[int, str], int] = {}
    pairs = zip(table.document.tolist(), around.keys["string"], strict=True)
    group = np.array([index.setdefault(pair, len(index)) for pair in pairs], dtype=np.int64)
    # Rows are sorted by place: a new place begins wherever document, start or end changes.
    new = np.ones(n, dtype=bool)
    new[1:] = (
        (table.document[1:] != table.document[:-1])
        | (table.start[1:] != table.start[:-1])
        | (table.end[1:] != table.end[:-1])
    )
    place = np.cumsum(new) - 1
    order = np.lexsort((-np.arange(n), strength, place))
    surest = np.zeros(int(place[-1]) + 1, dtype=np.int64)
    surest[place[order]] = order
    strong = surest[strength[surest] >= 0.5]
    tagged = np.zeros((len(index), len(table.labels)))
    np.add.at(tagged, (group[strong], table.label[strong]), 1)
    own = surest[place]
    own_strong = strength[own] >= 0.5
    same = tagged[group, table.label] - (own_strong & (table.label[own] == table.label))
    other = tagged[group].sum(axis=1) - own_strong - same
    total = np.maximum(around.elsewhere, same + other)
    out[:] = np.log1p(np.stack([total, same, other, total - same - other], axis=1))
    return out
