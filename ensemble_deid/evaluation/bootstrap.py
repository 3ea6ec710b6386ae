"""The uncertainty of a figure: resampling of patients, and tests of the difference between two systems.

The spans of one patient are not independent, so the patient is what is drawn (with all their notes), not the
span: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapters 8 and 13. The comparison of two
systems is paired (both are scored on the same draw: Koehn 2004, EMNLP) and tested by approximate randomisation
(Noreen 1989, "Computer-Intensive Methods for Testing Hypotheses"; Yeh 2000, COLING).

Rates of independent trials, such as notes with a leak, have an exact upper bound instead (`Share`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb, exp, inf, lgamma, log, log1p, sqrt
from typing import Literal, get_args

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.counts import ratio
from ensemble_deid.seeds import generator


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `total`: of notes, patients or annotations; undefined (None) where there were none."""

    count: int
    total: int

    @property
    def share(self) -> float | None:
        return ratio(self.count, self.total)

    @property
    def upper(self) -> float | None:
        """The exact one-sided 95% upper bound of the rate; None where there was no trial."""
        return clopper_pearson_upper(self.count, self.total) if self.total else None

    @property
    def three_in_n(self) -> float | None:
        """The rule of three, 3 / n, where nothing was seen in n trials; None otherwise."""
        return rule_of_three(self.total) if self.total and not self.count else None


def clopper_pearson_upper(count: int, total: int, *, level: float = 0.95) -> float:
    """Return the exact one-sided upper bound (Clopper and Pearson 1934): for "0 in n" it is 1 - (1 - level)^(1/n).

    Raises EvaluationError unless 0 <= count <= total, total > 0 and 0 < level < 1.
    """
    if not (0 <= count <= total and total > 0):
        raise EvaluationError(f"a rate needs 0 <= count <= total and a total above 0, not {count} of {total}")
    if not 0 < level < 1:
        raise EvaluationError(f"the level of a bound lies between 0 and 1, not {level}")
    return 1.0 if count == total else beta_quantile(level, count + 1, total - count)


def rule_of_three(total: int) -> float:
    """Return 3 / n, at most 1: the 95% upper bound of a rate never seen in n trials (Hanley and Lippman-Hand 1983)."""
    if total <= 0:
        raise EvaluationError(f"a rate needs a total above 0, not {total}")
    return min(1.0, 3 / total)


Measure = Literal["f1", "precision", "recall"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
RESAMPLES = 10_000
LEVEL = 0.95
# Draws are made and summed in pieces of about this many numbers, so that memory grows neither with the number of
# resamples nor with that of patients.
_PIECE = 500_000
LEAST_CLUSTERS = 10
"""Fewer patients, or sites, allow no interval: resampling so few says too little of those that were not drawn."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval; its ends are None where there are too few patients, or no defined resample.

    `undefined` counts the resamples in which the figure was undefined; they are left out.
    """

    low: float | None
    high: float | None
    level: float
    resamples: int
    undefined: int


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The figure of system A minus that of system B on the same notes; None where the figure is undefined.

    `p_value` is two-sided, by approximate randomisation; it is also None where no resamples were asked for.
    """

    measure: Measure
    a: float | None
    b: float | None
    difference: float | None
    interval: Interval
    p_value: float | None


def sum_by_group(counts: Int64s, groups: Sequence[str]) -> Int64s:
    """Add up the rows of `counts`, (documents, ...), that belong to one patient; patients in order of their ids."""
    if len(counts) != len(groups):
        raise EvaluationError(f"{len(counts)} rows of counts came with {len(groups)} patients")
    names, index = np.unique(np.asarray(groups, dtype=object), return_inverse=True)
    summed = np.zeros((len(names), *counts.shape[1:]), dtype=np.int64)
    np.add.at(summed, index, counts)
    return summed


def resample_totals(group_counts: Int64s, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Draw patients with replacement and add their counts: (patients, k) to (resamples, k).

    The draws depend only on `seed`, `resamples` and the number of patients, so tables of the same patients get the same
    draws.
    """
    n = len(group_counts)
    values = group_counts.astype(np.float64)
    rng = generator(seed, "evaluation/bootstrap")
    totals = np.empty((resamples, group_counts.shape[1]))
    for first, size in _pieces(resamples, n):
        drawn = rng.integers(n, size=(size, n)) + np.arange(size)[:, None] * n
        # (size, n): how often each patient was drawn
        weights = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        totals[first : first + size] = weights.astype(np.float64) @ values
    return totals


def measure_of(totals: Floats, measure: Measure) -> Floats:
    """Return F1, precision or recall of counts (..., 3); NaN where it is undefined."""
    tp, fp, fn = totals[..., 0], totals[..., 1], totals[..., 2]
    over: dict[Measure, tuple[Floats, Floats]] = {
        "f1": (2 * tp, 2 * tp + fp + fn),
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
    }
    if measure not in over:
        raise EvaluationError(f"there is no measure {measure!r}; there are: {', '.join(MEASURES)}")
    return divided(*over[measure])


def divided(numerators: Floats, denominators: Floats) -> Floats:
    """Return the quotients; NaN where the denominator is not above 0."""
    values = np.full(numerators.shape, np.nan)
    np.divide(numerators, denominators, out=values, where=denominators > 0)
    return values


def percentile_interval(values: Floats, *, level: float = LEVEL, patients: int) -> Interval:
    """Return the central `level` of the defined `values`, (resamples,)."""
    if not 0 < level < 1:
        raise EvaluationError(f"the level of an interval lies between 0 and 1, not {level}")
    defined = values[~np.isnan(values)]
    undefined = len(values) - len(defined)
    if patients < LEAST_CLUSTERS or not len(defined):
        return Interval(None, None, level, len(values), undefined)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, len(values), undefined)


def bootstrap_interval(
    counts: Int64s,
    groups: Sequence[str],
    *,
    measure: Measure = "f1",
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """Return the interval of a micro figure from per-document counts, (documents, 3), resampling patients."""
    by_group = sum_by_group(counts, groups)
    totals = resample_totals(by_group, resamples=resamples, seed=seed)
    return percentile_interval(measure_of(totals, measure), level=level, patients=len(by_group))


def paired_difference(
    counts_a: Int64s,
    counts_b: Int64s,
    groups: Sequence[str],
    *,
    measure: Measure = "f1",
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> PairedDifference:
    """Compare two systems' per-document counts, (documents, 3) each, rows in the same order of documents.

    The interval is the paired bootstrap over patients of the micro difference A - B; the p value counts, over
    `resamples` random exchanges of whole patients between the systems, those whose difference is at least as
    large as the observed one, the observed one included: (1 + count) / (1 + resamples).
    """
    if counts_a.shape != counts_b.shape:
        raise EvaluationError(f"the counts differ in shape: {counts_a.shape} and {counts_b.shape}")
    a, b = sum_by_group(counts_a, groups), sum_by_group(counts_b, groups)

    def difference(totals: Floats) -> Floats:
        return measure_of(totals[..., :3], measure) - measure_of(totals[..., 3:], measure)

    both = np.concatenate([a, b], axis=1)
    observed = both.sum(axis=0).astype(np.float64)
    draws = difference(resample_totals(both, resamples=resamples, seed=seed))
    interval = percentile_interval(draws, level=level, patients=len(both))
    value = defined(difference(observed))
    return PairedDifference(
        measure,
        a=defined(measure_of(observed[:3], measure)),
        b=defined(measure_of(observed[3:], measure)),
        difference=value,
        interval=interval,
        p_value=None
        if value is None or not resamples
        else _randomisation_p(a, b, value, difference, resamples=resamples, seed=seed),
    )


def _randomisation_p(
    a: Int64s, b: Int64s, observed: float, difference: Callable[[Floats], Floats], *, resamples: int, seed: int
) -> float:
    """Exchange each patient's counts with probability 1/2; return how often the difference is at least as large."""
    rng = generator(seed, "evaluation/randomisation")
    swap = (b - a).astype(np.float64)
    total_a, total_b = a.sum(axis=0).astype(np.float64), b.sum(axis=0).astype(np.float64)
    as_large = 0
    for _, size in _pieces(resamples, len(a)):
        moved = rng.integers(2, size=(size, len(a))).astype(np.float64) @ swap
        values = difference(np.concatenate([total_a + moved, total_b - moved], axis=1))
        # An exchange that leaves a figure undefined is no evidence against chance: it counts as at least as large.
        as_large += int((np.isnan(values) | (np.abs(values) >= abs(observed) - 1e-12)).sum())
    return (1 + as_large) / (1 + resamples)


def sign_flip_p(contributions: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Test whether the sum of the patients' contributions, (patients,), lies below 0 beyond chance; one-sided.

    Each patient's contribution has mean 0 where nothing is amiss, so its sign is drawn at random: the p value counts
    the draws whose sum is at most the observed one, that itself included.
    """
    rng = generator(seed, "evaluation/sign flips")
    observed = float(contributions.sum())
    as_low = 0
    for _, size in _pieces(resamples, len(contributions)):
        signs = 2.0 * rng.integers(2, size=(size, len(contributions))) - 1
        as_low += int((signs @ contributions <= observed + 1e-12).sum())
    return (1 + as_low) / (1 + resamples)


def _pieces(resamples: int, patients: int) -> Iterator[tuple[int, int]]:
    most = max(1, _PIECE // max(1, patients))
    for first in range(0, resamples, most):
        yield first, min(most, resamples - first)


def defined(value: Floats) -> float | None:
    number = float(value)
    return None if np.isnan(number) else number


# Probabilities and quantiles of the few distributions that bounds need, without a statistics library.


_STEPS = 100_000
_TINY = 1e-300
_ENOUGH = 1e-16


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    fraction = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c = 1 + numerator / c or _TINY
            d = 1 / (1 + numerator * d or _TINY)
            fraction *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return front * fraction


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = p, by halving intervals until they have no middle."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if beta_cdf(middle, a, b) < p else (low, middle)
    return high


def t_quantile(p: float, freedom: float) -> float:
    if p < 0.5:
        return -t_quantile(1 - p, freedom)
    share = beta_quantile(2 * p - 1, 0.5, freedom / 2)
    return inf if share >= 1 else sqrt(freedom * share / (1 - share))


def binomial_cdf(k: int, n: int, p: float) -> float:
    return float(k >= n) if k < 0 or k >= n else beta_cdf(1 - p, n - k, k + 1)


def fisher_greater(table: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """Return Fisher's exact probability that the first count is as large or larger, given the margins."""
    (a, b), (c, d) = table
    row, column, total = a + b, a + c, a + b + c + d
    ways = sum(comb(row, k) * comb(total - row, column - k) for k in range(a, min(row, column) + 1))
    return ways / comb(total, column)
