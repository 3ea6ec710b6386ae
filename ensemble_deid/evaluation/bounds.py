"""Upper bounds of a rate that was observed `count` times in `total` independent trials."""

from dataclasses import dataclass

from scipy.stats import beta

from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.counts import ratio


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `total`: of notes, patients or annotations; undefined (None) where there were none."""

    count: int
    total: int

    @property
    def share(self) -> float | None:
        """count / total."""
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
    return 1.0 if count == total else float(beta.ppf(level, count + 1, total - count))


def rule_of_three(total: int) -> float:
    """Return 3 / n, at most 1: the 95% upper bound of a rate never seen in n trials (Hanley and Lippman-Hand 1983)."""
    if total <= 0:
        raise EvaluationError(f"a rate needs a total above 0, not {total}")
    return min(1.0, 3 / total)
