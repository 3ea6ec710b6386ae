"""True positives, false positives and false negatives, what follows from them, and strict counting."""

from collections.abc import Iterable
from dataclasses import dataclass

from ensemble_deid.note.span import Span


def ratio(numerator: float, denominator: float) -> float | None:
    """Return the quotient, or None where the denominator is zero: undefined is neither 0 nor 1."""
    return numerator / denominator if denominator else None


def f1_score(tp: int, *, gold: int, system: int) -> float | None:
    """Return 2 TP / (gold + system), the sizes being those of the two sides; None where both are empty."""
    return ratio(2 * tp, gold + system)


@dataclass(frozen=True, slots=True)
class Counts:
    """Annotations found (`tp`), made up (`fp`) and missed (`fn`); counts of parts add up.

    Precision, recall and F1 are None where they are undefined. Raises ValueError for a negative count.
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
        return f1_score(self.tp, gold=self.gold, system=self.system)


def strict_counts(gold: Iterable[Iterable[Span]], system: Iterable[Iterable[Span]]) -> Counts:
    """Count exact matches of start, end and label (Zhao et al. 2020, "strict entity matching"), note by note.

    Both sides name the same notes in the same order; duplicates within a note count once. Raises ValueError when the
    numbers of notes differ.
    """
    tp = fp = fn = 0
    for golds, systems in zip(gold, system, strict=True):
        wanted, found = {span.key for span in golds}, {span.key for span in systems}
        tp += len(wanted & found)
        fp += len(found - wanted)
        fn += len(wanted - found)
    return Counts(tp, fp, fn)
