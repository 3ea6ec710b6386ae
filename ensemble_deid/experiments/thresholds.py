"""A threshold chosen on dev notes and frozen into a model (Johnson et al. 2020, section 3.4)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.operating_points import ChosenThreshold, ThresholdRule, choose_threshold
from ensemble_deid.evaluation.threshold_record import threshold_to_record
from ensemble_deid.pipeline.deidentifier import Deidentifier
from ensemble_deid.pipeline.directory import update_model
from ensemble_deid.pipeline.manifest import Manifest
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.text.document import Document


def freeze_threshold(model: Path, dev: Sequence[Document], *, rule: ThresholdRule, wanted: float) -> ChosenThreshold:
    """Choose the model's threshold on dev notes and store it in the model, with a record of how it was chosen.

    Raises EvaluationError when the notes allow no choice, ModelError when no threshold reaches the wanted value.
    """
    system = Deidentifier.load(model).predict(dev, threshold=0.0)
    chosen = choose_threshold(dev, system, rule=rule, wanted=wanted)
    threshold = chosen.threshold
    if threshold is None:
        raise ModelError(f"{model}: no threshold reaches {rule} {wanted:g} on these notes; the model is as it was")

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        replace(Stacker.load(directory), threshold=threshold).save(directory)
        figures = {**manifest.figures, "threshold": threshold_to_record(chosen)}
        return replace(manifest, figures=figures)

    update_model(model, edit)
    return chosen
