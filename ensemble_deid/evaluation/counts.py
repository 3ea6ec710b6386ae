"""True positives, false positives and false negatives, and what follows from them."""

from dataclasses import dataclass


def ratio(numerator: float, denominator: float) -> float | None:
    """Return the quotient, or None where the denominator is zero: undefined is neither 0 nor 1."""
    return numerator / denominator if denominator else None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many annotations were found (`tp`), made up (`fp`) and missed (`fn`); counts of parts add up.

    Precision, recall and F1 are None where they are undefined (nothing to divide by).
    Raises ValueError on a negative count.
    """

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def __post_init__(self) -> None:
        if min(self.tp, self.fp, self.fn) < 0:
            raise ValueError(f"counts are never negative: tp={self.tp} fp={self.fp} fn={self.fn}")

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def gold(self) -> int:
        """Annotations that should be found."""
        return self.tp + self.fn

    @property
    def system(self) -> int:
        """Annotations that the system gave."""
        return self.tp + self.fp

    @property
    def precision(self) -> float | None:
        """TP / (TP + FP): positive predictive value; None where the system gave nothing."""
        return ratio(self.tp, self.system)

    @property
    def recall(self) -> float | None:
        """TP / (TP + FN): sensitivity; None where there was nothing to find."""
        return ratio(self.tp, self.gold)

    @property
    def f1(self) -> float | None:
        """2 TP / (2 TP + FP + FN); None only where there was nothing to find and nothing was given."""
        return ratio(2 * self.tp, self.gold + self.system)
