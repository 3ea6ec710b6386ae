"""A curve as plain data, to be stored in a model and read back: figures only, nothing of the notes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ensemble_deid.evaluation.curve import CURVE_VIEWS, Curve
from ensemble_deid.evaluation.pairs import EvaluationError

_STEPS = 500
_COUNTS, _COLUMNS = ("gold", "tokens"), ("thresholds", "tp", "fp")
_KEYS = {"view", *_COUNTS, *_COLUMNS}


def curve_to_record(curve: Curve) -> dict[str, Any]:
    """Return a curve as JSON-ready data, thinned to the points at which recall has grown by a fifth of a per cent.

    Of equal recalls, the highest threshold is kept, since it has the fewest false positives.
    """
    steps = curve.tp * _STEPS // max(1, curve.gold)
    kept = np.flatnonzero(np.diff(steps, prepend=-1))
    # The last points are those of all candidates: the highest recall that there is, first reached.
    ends = np.flatnonzero(curve.tp == curve.tp[-1])[:1] if len(curve) else kept
    kept = np.union1d(kept, ends)
    return {
        "view": curve.view,
        "gold": curve.gold,
        "tokens": curve.tokens,
        "thresholds": curve.thresholds[kept].tolist(),
        "tp": curve.tp[kept].tolist(),
        "fp": curve.fp[kept].tolist(),
    }


def curve_from_record(record: Any) -> Curve:
    """Read back what `curve_to_record` gave. Raises EvaluationError where it is not such a record."""
    if not isinstance(record, Mapping) or set(record) != _KEYS or record["view"] not in CURVE_VIEWS:
        raise EvaluationError(f"a stored curve has the keys {sorted(_KEYS)} and one of the views {CURVE_VIEWS}")
    columns = [record[name] for name in _COLUMNS]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise EvaluationError("the columns of a stored curve are lists of one length")
    numbers = [*columns[0], *columns[1], *columns[2], *(record[name] for name in _COUNTS)]
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise EvaluationError("a stored curve has a value that is no number")
    thresholds = np.array(columns[0], dtype=np.float64)
    tp, fp = (np.array(column, dtype=np.int64) for column in columns[1:])
    gold, tokens = (int(record[name]) for name in _COUNTS)
    falls = bool((np.diff(thresholds) < 0).all()) and bool(((thresholds >= 0) & (thresholds <= 1)).all())
    rises = all(bool((np.diff(column, prepend=0) >= 0).all()) for column in (tp, fp))
    if not (falls and rises and tokens >= 0 and gold >= int(tp.max(initial=0))):
        raise EvaluationError("a stored curve falls from threshold to threshold, and its counts rise up to all PHI")
    return Curve(record["view"], thresholds, tp, fp, gold, tokens)
