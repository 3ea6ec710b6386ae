"""Upper bounds of a leak rate: exact for equal trials, cluster-robust for weighted patients, and valid at any time.

`notes_to_read` turns the exact bound of Clopper and Pearson 1934 round. `clustered_upper` gives that bound an effective
number of trials (Korn and Graubard 1998, Survey Methodology 24:193), with a jackknife over patients; few leaking
patients widen it. `betting_upper` holds however often it is looked at: a bet against "the rate is at least r"
multiplies its capital by 1 - bet * (leak - r) at each unit, and if the rate is r or more, the capital ever reaches 20
with a probability of at most 1 in 20 (Ville 1939). Bets of several sizes share the starting capital (Waudby-Smith and
Ramdas 2024, JRSS B 86:1, "grid Kelly", one-sided).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Flags, Floats
from ensemble_deid.evaluation.bootstrap import beta_quantile, clopper_pearson_upper, t_quantile
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.counts import ratio

LOOK_EVERY = 20
"""The bound is looked at after every so many units."""
# The largest bet is the best where nothing leaks, as in most releases.
_SHARES = np.array([1.0, 0.9, 0.75, 0.5, 0.3, 0.15, 0.07])
_CAPITAL = np.array([0.4, 0.1, 0.15, 0.1, 0.1, 0.1, 0.05])
_STEPS = 50
_FEW_LEAKING = 10


def notes_to_read(bound: float, *, leaks: int = 0, confidence: float = 0.95) -> int:
    """Return how many units to read so that `leaks` among them still show a rate of at most `bound`.

    Raises EvaluationError for a bound or a confidence that is not between 0 and 1, or a bound below 1e-6.

    >>> from ensemble_deid import notes_to_read
    >>> notes_to_read(0.01), notes_to_read(0.01, leaks=2)
    (299, 628)
    """
    return _fewest(bound, confidence, leaks, lambda n: clopper_pearson_upper(leaks, n, level=confidence))


def notes_until_stop(bound: float, *, confidence: float = 0.95) -> int:
    """Return how many units without a leak let the sequential bound reach `bound`."""

    def upper(n: int) -> float:
        return betting_upper(Units.equal(np.zeros(n)), largest=1.0, confidence=confidence)

    return _fewest(bound, confidence, 0, upper)


@dataclass(frozen=True, slots=True)
class Units:
    """Units (patients, or notes) in the order in which they were read; every array is (units,).

    `leaks` of `sizes` trials each; `weights` are inverse probabilities of being drawn, `strata` numbers of strata.
    """

    leaks: Floats
    sizes: Floats
    weights: Floats
    strata: Floats

    @classmethod
    def equal(cls, leaks: Floats) -> "Units":
        """Return units of one trial each that were drawn with equal probability."""
        ones = np.ones(len(leaks))
        return cls(np.asarray(leaks, dtype=np.float64), ones, ones, np.zeros(len(leaks)))

    def at(self, chosen: slice | Flags) -> "Units":
        return Units(self.leaks[chosen], self.sizes[chosen], self.weights[chosen], self.strata[chosen])

    @property
    def rate(self) -> float | None:
        """The weighted share of trials that are leaks; None without trials."""
        return ratio(float((self.weights * self.leaks).sum()), float((self.weights * self.sizes).sum()))

    @property
    def simple(self) -> bool:
        """Whether each unit is one trial, all drawn with equal probability: then the exact bound holds."""
        return bool(np.all(self.sizes == 1) and np.allclose(self.weights, self.weights[:1]))


def upper_bound(units: Units, *, confidence: float = 0.95) -> float | None:
    """Return the exact bound where it holds, else the cluster-robust one; None without trials."""
    if not float(units.sizes.sum()):
        return None
    if units.simple:
        return clopper_pearson_upper(int(units.leaks.sum()), len(units.leaks), level=confidence)
    return clustered_upper(units, confidence=confidence)


def clustered_upper(units: Units, *, confidence: float = 0.95) -> float:
    """Return the bound of a weighted rate in units of several trials (see the module).

    Where fewer than ten units leak, the trials of a unit count as one: their likeness cannot be estimated.
    """
    leaks, sizes = units.weights * units.leaks, units.weights * units.sizes
    rate, trials = float(leaks.sum() / sizes.sum()), float(units.sizes.sum())
    if rate >= 1:
        return 1.0
    together = _equal_number(sizes)
    effective = min(trials, together)
    variance = _jackknife(leaks, sizes, units.strata)
    if variance > 0:
        plain = rate * (1 - rate) / variance
        free = min(together - len(np.unique(units.strata)), _equal_number(leaks) / 2)
        spread = t_quantile(confidence, max(1.0, trials - 1)) / t_quantile(confidence, max(1.0, free))
        few = int((units.leaks > 0).sum()) < _FEW_LEAKING
        effective = min(plain, effective) if few else min(plain * spread**2, trials)
    return beta_quantile(confidence, rate * effective + 1, effective * (1 - rate))


def betting_upper(units: Units, *, largest: float, confidence: float = 0.95) -> float:
    """Return the bound of the weighted rate of units of one trial, valid at any time of looking (see the module).

    `largest` is the largest weight of the whole sample, so that it is the same at every look.
    """
    scaled, enough = units.weights / largest, -np.log(1 - confidence)
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        rate = (low + high) / 2
        if _log_capital(rate, scaled * units.leaks, scaled) >= enough:
            high = rate
        else:
            low = rate
    return high


def sequential_bounds(units: Units, *, largest: float, confidence: float = 0.95) -> list[tuple[int, float]]:
    """Return (units read, bound) after every `LOOK_EVERY` units and at the end; the lowest bound so far holds."""
    looks = sorted({*range(LOOK_EVERY, len(units.leaks) + 1, LOOK_EVERY), len(units.leaks)} - {0})
    lowest, found = 1.0, []
    for count in looks:
        lowest = min(lowest, betting_upper(units.at(slice(count)), largest=largest, confidence=confidence))
        found.append((count, lowest))
    return found


def _log_capital(rate: float, leaks: Floats, sizes: Floats) -> float:
    """Return the logarithm of the capital of all bets that the true rate is below `rate`; it grows with `rate`."""
    # (units, bets)
    factors = 1 - _SHARES / (1 - rate) * (leaks - rate * sizes)[:, None]
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(factors, 0.0)).sum(axis=0) + np.log(_CAPITAL)
    return float(np.logaddexp.reduce(logs))


def _equal_number(weights: Floats) -> float:
    """Return the number of equal weights that average as well as these (Kish 1965); 0 without any."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def _jackknife(leaks: Floats, sizes: Floats, strata: Floats) -> float:
    """Return the variance of the ratio of the sums, leaving out one unit of a stratum at a time."""
    rate, variance = leaks.sum() / sizes.sum(), 0.0
    for stratum in np.unique(strata):
        inside = strata == stratum
        n = int(inside.sum())
        if n > 1:
            scale = n / (n - 1)
            part = leaks[~inside].sum() + scale * (leaks[inside].sum() - leaks[inside])
            whole = sizes[~inside].sum() + scale * (sizes[inside].sum() - sizes[inside])
            variance += float(((part / whole - rate) ** 2).sum()) / scale
    return variance


def _fewest(bound: float, confidence: float, least: int, upper: Callable[[int], float]) -> int:
    if not (1e-6 <= bound < 1 and 0 < confidence < 1):
        raise EvaluationError(f"a bound and a confidence lie between 0 and 1, not {bound:g} and {confidence:g}")
    low, high = least, max(1, least)
    while upper(high) > bound:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if upper(middle) <= bound else (middle, high)
    return high
