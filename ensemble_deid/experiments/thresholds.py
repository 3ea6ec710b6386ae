"""A threshold chosen on dev notes and frozen into a model (Johnson et al. 2020, section 3.4)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, trace_curve
from ensemble_deid.evaluation.operating_points import ChosenThreshold, ThresholdRule, choose_threshold
from ensemble_deid.evaluation.threshold_record import threshold_to_record
from ensemble_deid.pipeline.deidentifier import Deidentifier
from ensemble_deid.pipeline.directory import update_model
from ensemble_deid.pipeline.manifest import Manifest, read_manifest
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.text.document import Document

# Figures of the manifest: how the model's threshold was chosen on dev notes, and the one that training chose.
CHOSEN, OF_TRAINING = "threshold", "training_threshold"


def freeze_threshold(model: Path, dev: Sequence[Document], *, rule: ThresholdRule, wanted: float) -> ChosenThreshold:
    """Choose the model's threshold on dev notes and store it in the model, with a record of how it was chosen.

    Raises EvaluationError when the notes allow no choice, and ModelError when no threshold reaches the wanted value;
    its message gives the highest value that can be reached.
    """
    system = Deidentifier.load(model).predict(dev, threshold=0.0)
    chosen = choose_threshold(dev, system, rule=rule, wanted=wanted)
    if chosen.threshold is None:
        highest = _highest(trace_curve(dev, system, view=chosen.view), rule)
        raise ModelError(f"{model}: no threshold reaches {rule} {wanted:g} on these notes{highest}; {_UNCHANGED}")
    _store(model, chosen.threshold, {CHOSEN: threshold_to_record(chosen)})
    return chosen


def reset_threshold(model: Path) -> float:
    """Restore the threshold that training chose, and return it. Raises ModelError if the model has no record of it."""
    threshold = read_manifest(model).figures.get(OF_TRAINING)
    if threshold is None:
        raise ModelError(f"{model}: has no record of the threshold of its training; {_UNCHANGED}")
    _store(model, threshold, {})
    return float(threshold)


_UNCHANGED = "the model is as it was"


def _store(model: Path, threshold: float, record: dict[str, object]) -> None:
    def edit(directory: Path, manifest: Manifest) -> Manifest:
        replace(Stacker.load(directory), threshold=threshold).save(directory)
        kept = {name: figure for name, figure in manifest.figures.items() if name != CHOSEN}
        return replace(manifest, figures={**kept, **record})

    update_model(model, edit)


def _highest(curve: Curve, rule: ThresholdRule) -> str:
    """Say the highest sensitivity or precision on a curve, and at which threshold (the highest that has it)."""

    def value(point: OperatingPoint) -> float:
        return (point.counts.recall if rule == "sensitivity" else point.counts.precision) or 0.0

    points = [curve.point(index) for index in range(len(curve))]
    if not points or not curve.gold:
        return " (they hold no PHI, or the model finds none)"
    best = max(points, key=value)
    other = "precision" if rule == "sensitivity" else "sensitivity"
    rest = best.counts.precision if rule == "sensitivity" else best.counts.recall
    return f": the highest is {value(best):.4f}, at threshold {best.threshold:.4f}, with {other} {rest or 0.0:.4f}"
