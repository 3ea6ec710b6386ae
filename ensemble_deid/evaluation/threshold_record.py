"""A chosen threshold as plain data, to be stored in a model and read back."""

from collections.abc import Mapping
from typing import Any, get_args

from ensemble_deid.evaluation.curve import CURVE_VIEWS, OperatingPoint
from ensemble_deid.evaluation.operating_points import ChosenThreshold, ThresholdRule
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.counts import Counts


def threshold_to_record(chosen: ChosenThreshold) -> dict[str, Any]:
    """Return the choice as JSON-ready data; `notes` are digests of the notes it was chosen on, not their text."""
    at = chosen.chosen_at
    return {
        "rule": chosen.rule,
        "wanted": chosen.wanted,
        "view": chosen.view,
        "threshold": chosen.threshold,
        "chosen_at": None
        if at is None
        else {"tp": at.counts.tp, "fp": at.counts.fp, "fn": at.counts.fn, "tokens": at.tokens},
        "notes": list(chosen.notes),
    }


def threshold_from_record(record: Mapping[str, Any]) -> ChosenThreshold:
    """Read back what `threshold_to_record` gave. Raises EvaluationError where it is not such a record."""
    keys = {"rule", "wanted", "view", "threshold", "chosen_at", "notes"}
    if set(record) != keys:
        raise EvaluationError(f"a stored threshold has the keys {sorted(keys)}, not {sorted(record)}")
    threshold, at = record["threshold"], record["chosen_at"]
    if record["rule"] not in get_args(ThresholdRule) or record["view"] not in CURVE_VIEWS:
        raise EvaluationError(f"a stored threshold cannot have rule {record['rule']!r} and view {record['view']!r}")
    rule, wanted = record["rule"], record["wanted"]
    most = 1000 if rule == "false-positives" else 1
    if not (_is_number(wanted, most=most) and (threshold is None or _is_number(threshold))):
        raise EvaluationError(
            f"a stored threshold is a number between 0 and 1, and what it was wanted for one up to {most}"
        )
    if (threshold is None) != (at is None):
        raise EvaluationError("a stored threshold comes with the operating point it was chosen at, or without both")
    if not (isinstance(record["notes"], list) and all(isinstance(note, str) for note in record["notes"])):
        raise EvaluationError("the notes of a stored threshold are a list of digests")
    point = None if threshold is None or at is None else _point(float(threshold), at)
    return ChosenThreshold(
        rule=record["rule"],
        wanted=float(record["wanted"]),
        view=record["view"],
        threshold=None if threshold is None else float(threshold),
        chosen_at=point,
        notes=tuple(record["notes"]),
    )


def _point(threshold: float, at: Any) -> OperatingPoint:
    keys = ("tp", "fp", "fn", "tokens")
    if not (isinstance(at, Mapping) and set(at) == set(keys) and all(isinstance(at[key], int) for key in keys)):
        raise EvaluationError(f"the operating point of a stored threshold has the whole numbers {', '.join(keys)}")
    if min(at[key] for key in keys) < 0:
        raise EvaluationError("the operating point of a stored threshold has a negative count")
    return OperatingPoint(threshold, Counts(at["tp"], at["fp"], at["fn"]), at["tokens"])


def _is_number(value: Any, *, most: float = 1) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
