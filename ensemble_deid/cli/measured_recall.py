"""What recall was measured at the threshold that notes are processed with: whoever hands them out should know."""

from collections.abc import Mapping
from typing import Any

from ensemble_deid.evaluation.threshold_record import threshold_from_record
from ensemble_deid.experiments.thresholds import CHOSEN
from ensemble_deid.pipeline.manifest import Manifest


def measured_recall(manifest: Manifest, threshold: float, *, whole: bool = True) -> str:
    """Return one sentence about recall at the threshold in use; `whole` is False where submodels are left out."""
    if whole:
        record = manifest.figures.get(CHOSEN)
        chosen = None if record is None else threshold_from_record(record)
        if chosen is not None and chosen.chosen_at is not None and chosen.threshold == threshold:
            at, notes = chosen.chosen_at, f"the {len(chosen.notes)} notes that this threshold was chosen on"
            return _sentence(threshold, at.counts.recall, at.fp_per_1000, notes)
        points: Mapping[str, Any] = manifest.choices.get("operating_point", {}).get("points", {})
        for point in points.values():
            if point["threshold"] == threshold:
                rate = point["false_positives_per_1000"]
                return _sentence(threshold, point["token_recall"], rate, "its training notes, out of fold")
    return (
        f"no recall was measured at the threshold {threshold:.3f}{'' if whole else ' with these submodels'}: "
        "measure it on annotated notes of your own (ensemble-deid evaluate)"
    )


def _sentence(threshold: float, recall: float | None, rate: float | None, notes: str) -> str:
    shares = "an undefined share" if recall is None else f"{100 * recall:.1f}%"
    wrong = "" if rate is None else f", with {rate:.1f} false positives in 1000 tokens"
    return (
        f"at its threshold ({threshold:.3f}) the model found {shares} of the PHI tokens in {notes}{wrong}; "
        "in your notes it may miss more"
    )
