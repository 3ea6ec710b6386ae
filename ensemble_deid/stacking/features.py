"""The stacker's view of a candidate as numbers: confidence, competition, type, form, note and training folds."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.overlaps import RELATIONS, maxima, overlapping_pairs, relation
from ensemble_deid.stacking.statistics import KINDS, KeyStatistics
from ensemble_deid.stacking.surroundings import ELSEWHERE, TokenRange, elsewhere, keys_of, token_ranges

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
    names += ["tokens", "characters", "digits", "capitals", "spaces", "opens_line", "closes_line", "place"]
    names += list(ELSEWHERE)
    names += [f"{what}:{kind}" for kind in KINDS for what in ("odds", "count")]
    return names


def candidate_features(
    table: CandidateTable,
    batch: Batch,
    statistics: KeyStatistics | None,
    *,
    right: NDArray[np.bool_] | None = None,
) -> tuple[Floats, KeyStatistics]:
    """Return the feature matrix (n, features) and the statistics behind it.

    In training `statistics` is None and `right` says which candidates are gold: the statistics are then measured
    on these candidates, and each is judged without its own patient.
    """
    ranges = token_ranges(table, batch)
    keys = keys_of(table, batch, ranges)
    if statistics is None:
        if right is None:
            raise ValueError("to measure statistics one must know which candidates are right")
        statistics = KeyStatistics.measured(keys, right)
        groups = [batch.documents[d].group for d in table.document.tolist()]
        learned = statistics.columns(keys, own_right=right, own_group=groups)
    else:
        learned = statistics.columns(keys)
    parts = [
        _confidence(table),
        _competition(table),
        np.eye(len(table.labels))[table.label],
        _form(table, batch, ranges),
        elsewhere(table, batch, ranges),
        learned,
    ]
    return np.concatenate(parts, axis=1), statistics


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
    rival_confidence = maxima(table.confidence[j], i, n)
    rival_chosen = maxima(table.chosen[j].astype(np.float64), i, n)
    how = relation(table, i, j)
    by_relation = [maxima(strength[j] * (how == k), i, n) for k in range(len(RELATIONS))]
    other = maxima(strength[j] * (table.label[i] != table.label[j]), i, n)
    count = np.log1p(np.bincount(i, minlength=n).astype(np.float64))
    margin = strength - maxima(strength[j], i, n)
    columns = [*by_relation, other, count, margin]
    return np.concatenate([rival_confidence, rival_chosen, np.stack(columns, axis=1)], axis=1)


def _form(table: CandidateTable, batch: Batch, ranges: TokenRange) -> Floats:
    tokens = batch.tokens
    last = len(tokens) - 1
    lines = tokens.line
    first, after = ranges.first, ranges.after
    opens = (first == 0) | (lines[np.maximum(first - 1, 0)] != lines[first])
    closes = (after > last) | (lines[np.minimum(after, last)] != lines[after - 1])
    lengths = np.array([len(document.text) for document in batch.documents], dtype=np.float64)
    signs = np.zeros((len(table), 3))
    rows = zip(table.document.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    for row, (d, start, end) in enumerate(rows):
        text = batch.documents[d].text[start:end]
        signs[row] = (
            sum(c.isdigit() for c in text),
            sum(c.isupper() for c in text),
            sum(c.isspace() for c in text),
        )
    size = (table.end - table.start).astype(np.float64)
    columns = [
        np.log1p((after - first).astype(np.float64)),
        np.log1p(size),
        signs[:, 0] / size,
        signs[:, 1] / size,
        signs[:, 2] / size,
        opens.astype(np.float64),
        closes.astype(np.float64),
        table.start / np.maximum(lengths[table.document], 1.0),
    ]
    return np.stack(columns, axis=1)
