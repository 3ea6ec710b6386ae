"""Precision, recall and F1 of any part of the annotations, with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.evaluation.bootstrap import (
    MEASURES,
    Interval,
    Measure,
    divided,
    measure_of,
    percentile_interval,
    resample_totals,
    sum_by_group,
)
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.views import CountTable, to_counts
from ensemble_deid.note.counts import Counts

ScorePart = Literal["total", "label", "category", "subset"]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are made: `resamples` draws of patients (0: none are made), `level`, `seed`.

    Raises EvaluationError for a negative number of resamples or a level that is not between 0 and 1.
    """

    resamples: int
    level: float
    seed: int

    def __post_init__(self) -> None:
        if self.resamples < 0:
            raise EvaluationError(f"the number of resamples is 0 or more, not {self.resamples}")
        if not 0 < self.level < 1:
            raise EvaluationError(f"the level of an interval lies between 0 and 1, not {self.level}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure (None: undefined) and its interval (None: not asked for)."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The micro figures of one part (`part`, `name`) of the annotations under one view."""

    view: str
    part: ScorePart
    name: str
    counts: Counts
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class Macro:
    """Mean and population standard deviation over the documents where the figure is defined."""

    mean: float | None
    sd: float | None
    documents: int


@dataclass(frozen=True, slots=True)
class MacroScore:
    """The macro figures of everything under one view."""

    view: str
    precision: Macro
    recall: Macro
    f1: Macro


@dataclass(frozen=True, slots=True)
class Row:
    """What a Score is made of: counts of every document, (documents, 3)."""

    view: str
    part: ScorePart
    name: str
    counts: Int64s


def score_rows(rows: Sequence[Row], groups: Sequence[str], resampling: Resampling) -> tuple[Score, ...]:
    """All rows are resampled by the same draws of patients."""
    intervals = _intervals(rows, groups, resampling) if rows and resampling.resamples else [{}] * len(rows)
    scores: list[Score] = []
    for row, interval in zip(rows, intervals, strict=True):
        counts = to_counts(row.counts.sum(axis=0))
        estimates = {name: Estimate(getattr(counts, name), interval.get(name)) for name in MEASURES}
        scores.append(Score(row.view, row.part, row.name, counts, **estimates))
    return tuple(scores)


def estimate_ratio(
    numerators: Int64s, denominators: Int64s, groups: Sequence[str], resampling: Resampling, *, per: float = 1.0
) -> Estimate:
    """Estimate `per` times the sum of numerators over the sum of denominators, (documents,) each."""
    whole, part = float(denominators.sum()), float(numerators.sum())
    value = per * part / whole if whole else None
    if not resampling.resamples:
        return Estimate(value)
    by_group = sum_by_group(np.column_stack([numerators, denominators]), groups)
    totals = resample_totals(by_group, resamples=resampling.resamples, seed=resampling.seed)
    drawn = divided(per * totals[:, 0], totals[:, 1])
    return Estimate(value, percentile_interval(drawn, level=resampling.level, patients=len(by_group)))


def macro_score(view: str, table: CountTable) -> MacroScore:
    """Average a view's figures over documents; a document where a figure is undefined is left out of its mean."""
    counts = table.per_document.astype(np.float64)
    return MacroScore(view, **{measure: _macro(measure_of(counts, measure)) for measure in MEASURES})


def _macro(values: Floats) -> Macro:
    defined = values[~np.isnan(values)]
    if not len(defined):
        return Macro(None, None, 0)
    return Macro(float(defined.mean()), float(defined.std()), len(defined))


def _intervals(rows: Sequence[Row], groups: Sequence[str], resampling: Resampling) -> list[dict[Measure, Interval]]:
    # (patients, rows * 3), resampled to (resamples, rows, 3)
    by_group = sum_by_group(np.concatenate([row.counts for row in rows], axis=1), groups)
    totals = resample_totals(by_group, resamples=resampling.resamples, seed=resampling.seed)
    drawn = totals.reshape(len(totals), len(rows), 3)
    level, patients = resampling.level, len(by_group)
    return [
        {
            measure: percentile_interval(measure_of(drawn[:, index], measure), level=level, patients=patients)
            for measure in MEASURES
        }
        for index in range(len(rows))
    ]
