"""The curve that training leaves in a model: what it found in its training notes, out of fold, at every threshold.

The notes of a patient, or of a site where folds are by site, were scored by submodels and a final estimator that saw
none of them. So a threshold can be chosen, and its recall be told, without annotated notes of one's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.curve import CURVE_VIEWS, Curve, OperatingPoint, just_below
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document

# A curve as plain data, to be stored in a model and read back: figures only, nothing of the notes.
#
# Of tens of thousands of points some hundred are kept. What is read back answers for a threshold between two of them
# with the lowest recall and the most false positives that any threshold there has, so that it never promises too much.


# Between two kept points recall grows by less than a fifth of a per cent, and false positives by no more than one in
# ten thousand tokens, or a fiftieth of what they are: what is printed with one digit behind the point.
_RECALL_STEPS = 500
_TOKENS_A_STEP = 10_000
_SHARE_A_STEP = 50
_COUNTS, _COLUMNS = ("gold", "tokens"), ("thresholds", "tp", "fp")
_BETWEEN = "fp_between"
_KEYS = {"view", *_COUNTS, *_COLUMNS, _BETWEEN}


@dataclass(frozen=True, slots=True)
class StoredCurve(Curve):
    """Some points of a curve; `fp_between` are the most false positives of any threshold below each, above the next."""

    fp_between: Int64s

    def at(self, threshold: float) -> OperatingPoint:
        """Return the counts at a threshold: exact at a stored point and just below it, else no better than the true."""
        # Named, since super() needs a cell that a dataclass with slots replaces.
        exact = Curve.at(self, threshold)
        kept = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        if not kept or threshold >= just_below(float(self.thresholds[kept - 1])):
            return exact
        counts = Counts(exact.counts.tp, int(self.fp_between[kept - 1]), exact.counts.fn)
        return OperatingPoint(threshold, counts, self.tokens)


def curve_to_record(curve: Curve) -> dict[str, Any]:
    """Return a curve as JSON-ready data, thinned to the points at which recall or false positives have grown.

    Of equal recalls within a step of false positives, the highest threshold is kept, since it has the fewest.
    """
    kept = _kept(curve)
    last = np.append(kept[1:], len(curve))[: len(kept)] - 1
    return {
        "view": curve.view,
        "gold": curve.gold,
        "tokens": curve.tokens,
        "thresholds": curve.thresholds[kept].tolist(),
        "tp": curve.tp[kept].tolist(),
        "fp": curve.fp[kept].tolist(),
        _BETWEEN: curve.fp[last].tolist(),
    }


def _kept(curve: Curve) -> Int64s:
    """Return the indexes of the points to store: the first, each where a step is exceeded, and the first of all PHI."""
    steps = curve.tp * _RECALL_STEPS // max(1, curve.gold)
    kept: list[int] = []
    before = 0
    for index, (step, fp) in enumerate(zip(steps.tolist(), curve.fp.tolist(), strict=True)):
        more = fp - before
        if (
            not kept
            or step > steps[kept[-1]]
            or (more * _TOKENS_A_STEP > curve.tokens and more * _SHARE_A_STEP > before)
        ):
            kept.append(index)
            before = fp
    # The highest recall that there is, first reached.
    ends = np.flatnonzero(curve.tp == curve.tp.max(initial=0))[:1]
    return np.union1d(np.array(kept, dtype=np.int64), ends)


def curve_from_record(record: Any) -> StoredCurve:
    """Read back what `curve_to_record` gave. Raises EvaluationError where it is not such a record."""
    if not isinstance(record, Mapping) or set(record) != _KEYS or record["view"] not in CURVE_VIEWS:
        raise EvaluationError(f"a stored curve has the keys {sorted(_KEYS)} and one of the views {CURVE_VIEWS}")
    columns = [record[name] for name in (*_COLUMNS, _BETWEEN)]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise EvaluationError("the columns of a stored curve are lists of one length")
    numbers = [number for column in columns for number in column] + [record[name] for name in _COUNTS]
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise EvaluationError("a value of a stored curve is not a number")
    thresholds = np.array(columns[0], dtype=np.float64)
    tp, fp, between = (np.array(column, dtype=np.int64) for column in columns[1:])
    gold, tokens = (int(record[name]) for name in _COUNTS)
    falls = bool((np.diff(thresholds) < 0).all()) and bool(((thresholds >= 0) & (thresholds <= 1)).all())
    rises = all(bool((np.diff(column, prepend=0) >= 0).all()) for column in (tp, fp))
    lies_between = bool((between >= fp).all()) and bool((between[:-1] <= fp[1:]).all())
    if not (falls and rises and lies_between and tokens >= 0 and gold >= int(tp.max(initial=0))):
        raise EvaluationError("a stored curve falls from threshold to threshold, and its counts rise up to all PHI")
    return StoredCurve(record["view"], thresholds, tp, fp, gold=gold, tokens=tokens, fp_between=between)


CURVES = "out_of_fold_curves"
"""The figure of the manifest that has a curve for every final estimator."""


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """A model's curve of PHI tokens, and in words which notes it was measured on."""

    curve: StoredCurve
    notes: str


def curves_record(curves: Mapping[tuple[str, ...], Curve], documents: Sequence[Document]) -> dict[str, Any]:
    """Return what a manifest keeps: the curves by their submodels, on how many notes, what the folds kept together."""
    by_site = any(document.group != document.patient for document in documents)
    return {
        "notes": len(documents),
        "groups": len({document.group for document in documents}),
        "held_out": "site" if by_site else "patient",
        "curves": {",".join(names): curve_to_record(curve) for names, curve in curves.items()},
    }


def out_of_fold(manifest: Manifest, submodels: Sequence[str]) -> OutOfFold | None:
    """Return the curve of the final estimator of some submodels, None where training left none.

    Raises ModelError where the record is damaged.
    """
    record = manifest.figures.get(CURVES)
    if record is None:
        return None
    try:
        found = record["curves"].get(",".join(submodels))
        notes, groups, held_out = record["notes"], record["groups"], str(record["held_out"])
        if found is None:
            return None
        text = f"its {notes:,} training notes of {groups:,} {held_out}s, out of fold"
        return OutOfFold(curve_from_record(found), text)
    except (EvaluationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"the model's figure {CURVES} is damaged ({type(error).__name__})") from None
