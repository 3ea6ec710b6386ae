"""A threshold with a promise about the notes of other patients of the same place, from a random sample of notes.

The loss of a unit (a patient, a site or a note) is the share of its PHI words that the model misses; it can only grow
with the threshold. Two promises: the expected loss of a new unit is at most r (conformal risk control: Angelopoulos,
Bates, Fisch, Lei and Schuster 2022, arXiv:2208.02814), which needs 1/r - 1 units at least; and with a confidence of 95%
the mean loss is at most r (Learn then Test: Angelopoulos, Bates, Candes, Jordan and Lei 2021, arXiv:2110.01052, with
the p value of Hoeffding and Bentkus). Both hold for units that come as those of the sample did, and for no others.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from math import ceil, exp, log

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.evaluation.bootstrap import binomial_cdf
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, sides_with_scores, trace_curve
from ensemble_deid.evaluation.operating_points import NoScoresError
from ensemble_deid.evaluation.pairs import EvaluationError, pair_documents
from ensemble_deid.evaluation.views import view_named
from ensemble_deid.note.document import Document

VIEW = "token-binary"
_MOST_UNITS = 100_000
_NEVER = -1.0
"""The score of a word that the model proposes at no threshold."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The highest threshold that keeps a promise, with the mean loss and the false positives of the sample there.

    Where none does, `point` and `loss` are None, and `more` is how many units more would do if they were like these at
    the lowest threshold; None where no number would.
    """

    point: OperatingPoint | None
    loss: float | None
    more: int | None = None

    @property
    def threshold(self) -> float | None:
        """The threshold; None where the promise cannot be made."""
        return None if self.point is None else self.point.threshold


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a sample of `units` lets one promise: a missed share of at most `missed`.

    `expected` holds on average over samples and new units, `confident` with a probability of `confidence`. `lowest` is
    the mean loss at the lowest threshold: what the model misses whatever the threshold.

    >>> from ensemble_deid import Document, Span, certify
    >>> note = Document("a", "Ann Lee", (Span(0, 7, "PATIENT"),), patient_id="1")
    >>> scored = note.with_spans([Span(0, 3, "PATIENT", 0.9), Span(4, 7, "PATIENT", 0.5)])
    >>> certify([note], [scored], missed=0.2).expected.more
    3
    """

    missed: float
    confidence: float
    units: int
    notes: int
    lowest: float
    expected: Promise
    confident: Promise

    def to_json(self) -> str:
        """Return the certificate as text."""
        return json.dumps(asdict(self), indent=1) + "\n"


def certify(
    gold: Sequence[Document],
    scored: Sequence[Document],
    *,
    missed: float = 0.05,
    confidence: float = 0.95,
    unit_of: Callable[[Document], str] = lambda note: note.group,
) -> Certificate:
    """Find the thresholds that promise a missed share of at most `missed` in the notes of other units.

    `scored` are the model's predictions at threshold 0 for the notes of `gold`, which must be drawn at random and must
    not have taught the model anything. Raises EvaluationError where the documents do not match or a number is
    impossible, NoScoresError where no scores differ.

    >>> from ensemble_deid import Document, Span, certify
    >>> notes = [Document(str(n), "Ann Lee", (Span(0, 7, "PATIENT"),)) for n in range(40)]
    >>> parts = (Span(0, 3, "PATIENT", 0.9), Span(4, 7, "PATIENT", 0.5))
    >>> certify(notes, [note.with_spans(parts) for note in notes]).expected.threshold
    0.5
    """
    if not (0 < missed < 1 and 0 < confidence < 1):
        raise EvaluationError(f"a share and a confidence lie between 0 and 1, not {missed:g} and {confidence:g}")
    curve = trace_curve(gold, scored, view=VIEW)
    if not len(curve):
        raise NoScoresError("a threshold needs a system that scores its annotations; here are none")
    thresholds = curve.thresholds[::-1]
    losses = _losses(gold, scored, thresholds, unit_of)
    units, mean = len(losses), losses.mean(axis=0)

    def expected(n: int, loss: float) -> bool:
        return (n * loss + 1) / (n + 1) <= missed

    def confident(n: int, loss: float) -> bool:
        return hoeffding_bentkus(loss, n, missed) <= 1 - confidence

    return Certificate(
        missed,
        confidence,
        units,
        notes=len(gold),
        lowest=float(mean[0]),
        expected=_promise(expected, curve, thresholds, mean, units=units),
        confident=_promise(confident, curve, thresholds, mean, units=units),
    )


def hoeffding_bentkus(loss: float, units: int, missed: float) -> float:
    """Return the p value of "the mean loss is above `missed`", losses lying between 0 and 1 (Bates et al. 2021)."""
    if loss >= missed:
        return 1.0
    divergence = (1 - loss) * log((1 - loss) / (1 - missed)) + (loss * log(loss / missed) if loss else 0.0)
    # Rounding up what is a whole number but for its last digits would cost a whole count.
    bentkus = exp(1) * binomial_cdf(ceil(units * loss - 1e-9), units, missed)
    return min(1.0, exp(-units * divergence), bentkus)


def _losses(
    gold: Sequence[Document], scored: Sequence[Document], thresholds: Floats, unit_of: Callable[[Document], str]
) -> Floats:
    """Return the missed share of each unit's PHI words at each threshold, (units, thresholds); 0 without any PHI."""
    best: defaultdict[str, list[float]] = defaultdict(list)
    view = view_named(VIEW)
    for pair in pair_documents(gold, scored):
        words, scores = sides_with_scores(pair, view)
        best[unit_of(pair.gold)] += [scores.get(word, _NEVER) for word in words]
    losses = np.zeros((len(best), len(thresholds)))
    for row, unit in enumerate(sorted(best)):
        if best[unit]:
            losses[row] = np.searchsorted(np.sort(best[unit]), thresholds, side="left") / len(best[unit])
    return losses


def _promise(
    kept: Callable[[int, float], bool], curve: Curve, thresholds: Floats, mean: Floats, *, units: int
) -> Promise:
    """Return the highest of the ascending thresholds up to which the promise is kept."""
    losses = list(takewhile(lambda loss: kept(units, loss), mean.tolist()))
    if losses:
        return Promise(curve.at(float(thresholds[len(losses) - 1])), losses[-1], 0)
    loss, high = float(mean[0]), 2 * units
    while not kept(high, loss):
        high *= 2
        if high > _MOST_UNITS:
            return Promise(None, None, None)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle, loss) else (middle, high)
    return Promise(None, None, high - units)
