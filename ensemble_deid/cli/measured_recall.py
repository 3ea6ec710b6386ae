"""What recall was measured at the threshold that notes are processed with: whoever hands them out should know."""

from collections.abc import Mapping, Sequence
from typing import Any

from ensemble_deid.evaluation.curve import OperatingPoint
from ensemble_deid.evaluation.operating_points import OUT_OF_FOLD
from ensemble_deid.evaluation.threshold_record import threshold_from_record
from ensemble_deid.model.changes import changes_since, changes_since_training, listed
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.digits import four_digits
from ensemble_deid.training.out_of_fold import out_of_fold
from ensemble_deid.training.thresholds import CHOSEN, CHOSEN_WITH


def measured_recall(manifest: Manifest, threshold: float, *, submodels: Sequence[str]) -> str:
    """Return one sentence about recall at the threshold in use, with the submodels in use.

    The notes that the threshold was chosen on come first, then the curve that training left in the model. What was
    measured before the model was changed is said to be so. Raises ModelError where the curve is damaged.
    """
    whole = set(submodels) == set(manifest.config.get("submodels", ()))
    if whole:
        record = manifest.figures.get(CHOSEN)
        chosen = None if record is None else threshold_from_record(record)
        known = chosen is not None and chosen.notes != OUT_OF_FOLD and chosen.threshold == threshold
        if known and chosen is not None and chosen.chosen_at is not None:
            notes = f"the {len(chosen.notes)} notes that this threshold was chosen on"
            changes = changes_since(manifest, manifest.figures.get(CHOSEN_WITH), submodels)
            return _of_point(chosen.chosen_at, notes, changes)
    stored = out_of_fold(manifest, submodels)
    changes = changes_since_training(manifest, submodels)
    notes = "its training notes, out of fold" if stored is None else stored.notes
    points: Mapping[str, Any] = manifest.choices.get("operating_point", {}).get("points", {}) if whole else {}
    for point in points.values():
        # Exact, where the stored curve has only some of its points.
        if point["threshold"] == threshold:
            wrong = _wrong(point["false_positives_per_1000"])
            return _sentence(threshold, point["token_recall"], wrong, notes, changes)
    if stored is not None:
        exact = stored.curve.knows_fp(threshold)
        return _of_point(stored.curve.at(threshold), stored.notes, changes, exact=exact)
    return (
        f"no recall was measured at the threshold {four_digits(threshold)}{'' if whole else ' with these submodels'}: "
        "measure it on annotated notes of your own (ensemble-deid evaluate)"
    )


def _of_point(point: OperatingPoint, notes: str, changes: Sequence[str] | None, *, exact: bool = True) -> str:
    return _sentence(point.threshold, point.counts.recall, _wrong(point.fp_per_1000, exact=exact), notes, changes)


def _wrong(rate: float | None, *, exact: bool = True) -> str:
    if rate is None:
        return ""
    least = "" if exact else "at least "
    rest = "" if exact else " (the model has no record of how many more below its stored curve)"
    return f", with {least}{rate:.1f} false positives in 1000 tokens{rest}"


def _sentence(threshold: float, recall: float | None, wrong: str, notes: str, changes: Sequence[str] | None) -> str:
    shares = "an undefined share" if recall is None else f"{100 * recall:.1f}%"
    found = f"at its threshold ({four_digits(threshold)}) the model found {shares} of the PHI tokens in {notes}{wrong}"
    again = "measure it again on annotated notes (ensemble-deid evaluate)"
    if changes is None:
        return f"{found}; it is not on record whether the model was changed since: {again}"
    if changes:
        return f"{found}; this was measured before the model's {listed(changes)} changed: {again}"
    return f"{found}; in your notes it may miss more"
