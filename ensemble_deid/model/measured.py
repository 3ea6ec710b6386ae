"""The record of a model: its threshold, the recall measured at it, and the languages of its training notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_deid.evaluation.curve import OperatingPoint
from ensemble_deid.evaluation.operating_points import CHOSEN, OUT_OF_FOLD, target_text, threshold_from_record
from ensemble_deid.model.additions import changes_since, changes_since_training, listed
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.out_of_fold import out_of_fold
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.language import NAMES
from ensemble_deid.stacking.stacker import Stacker

CHOSEN_WITH = "threshold_chosen_with"
"""The figure of the manifest that has the files, of those that can be changed, with which the threshold was chosen."""
SHIPPED = "shipped_threshold"
"""The figure of the manifest that has the threshold of an exported model, and its record, once another was chosen."""
LANGUAGES = "languages"
"""The choice of the manifest that has the languages of the training notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Recall of PHI tokens and false positives in 1,000 tokens at a threshold, None where undefined; on which notes.

    `changes` are what was changed in the model since.
    """

    recall: float | None
    false_positives: float | None
    notes: str
    changes: Sequence[str]


def measured_at(manifest: Manifest, threshold: float, *, submodels: Sequence[str]) -> Measured | None:
    """Return what was measured of a model at a threshold, with these submodels; None for nothing.

    The notes that the threshold was chosen on come first, then the curve that training left in the model. Raises
    ModelError where the curve is damaged.
    """
    whole = set(submodels) == set(manifest.config.get("submodels", ()))
    if whole:
        record = manifest.figures.get(CHOSEN)
        chosen = None if record is None else threshold_from_record(record)
        known = chosen is not None and chosen.notes != OUT_OF_FOLD and chosen.threshold == threshold
        if known and chosen is not None and chosen.chosen_at is not None:
            notes = f"the {chosen.notes.count} notes that this threshold was chosen on"
            changes = changes_since(manifest, manifest.figures.get(CHOSEN_WITH, {}), submodels)
            return _of_point(chosen.chosen_at, notes, changes)
    stored = out_of_fold(manifest, submodels)
    changes = changes_since_training(manifest, submodels)
    points: Mapping[str, Any] = manifest.choices.get("operating_point", {}).get("points", {}) if whole else {}
    for point in points.values():
        # Exact, where the stored curve has only some of its points.
        if point["threshold"] == threshold:
            notes = "its training notes, out of fold" if stored is None else stored.notes
            recall, wrong = point["token_recall"], point["false_positives_per_1000"]
            return Measured(recall=recall, false_positives=wrong, notes=notes, changes=changes)
    return None if stored is None else _of_point(stored.curve.at(threshold), stored.notes, changes)


def _of_point(point: OperatingPoint, notes: str, changes: Sequence[str]) -> Measured:
    return Measured(recall=point.counts.recall, false_positives=point.fp_per_1000, notes=notes, changes=changes)


def threshold_text(model: Path, manifest: Manifest) -> str:
    """Say what a model's threshold is and how it was chosen."""
    submodels = manifest.config.get("submodels", ())
    record = manifest.figures.get(CHOSEN)
    if record is None or threshold_from_record(record).notes == OUT_OF_FOLD:
        changes = changes_since_training(manifest, submodels)
    else:
        changes = changes_since(manifest, manifest.figures.get(CHOSEN_WITH, {}), submodels)
    since = f"; the model's {listed(changes)} changed since" if changes else ""
    return _choice(model, manifest) + since


def _choice(model: Path, manifest: Manifest) -> str:
    threshold = Stacker.load(model).threshold
    record = manifest.figures.get(CHOSEN)
    if record is not None:
        chosen = threshold_from_record(record)
        notes = "the training notes, out of fold," if chosen.notes == OUT_OF_FOLD else f"{chosen.notes.count} notes"
        text = f"{four_digits(threshold)}, chosen on {notes} for {target_text(chosen.rule, chosen.wanted)}"
        overlap = manifest.choices.get("overlap_of_threshold")
        return f"{text}; {overlap} of these were training notes" if overlap else text
    choice = manifest.choices.get("operating_point")
    if not isinstance(choice, dict):
        return f"{four_digits(threshold)}, as training left it"
    how = {
        "f1": "the best strict F1 by cross-validation on the training notes",
        "recall": "the highest token recall at up to "
        f"{choice.get('max_false_positives_per_1000', 0):g} false positives in 1000 tokens, by cross-validation on the "
        "training notes",
        "given": "given in the configuration",
    }
    return f"{four_digits(threshold)}: {how.get(str(choice.get('frozen')), 'as training left it')}"


def languages_of_training(manifest: Manifest) -> tuple[str, ...]:
    """Return the languages of the notes that a model was trained on, none where there is no record of them."""
    return tuple(language for language in manifest.choices.get(LANGUAGES, ()) if language in NAMES)
