"""A threshold chosen on dev notes and frozen into a model (Johnson et al. 2020, section 3.4)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.operating_points import ChosenThreshold, ThresholdRule, choose_threshold, target_text
from ensemble_deid.evaluation.threshold_record import threshold_to_record
from ensemble_deid.pipeline.deidentifier import Deidentifier
from ensemble_deid.pipeline.directory import update_model
from ensemble_deid.pipeline.manifest import Manifest, read_manifest
from ensemble_deid.pipeline.seen_notes import SeenNotes, overlap_choice
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.text.document import Document


def freeze_threshold(
    model: Path, dev: Sequence[Document], *, rule: ThresholdRule, wanted: float, allow_overlap: bool = False
) -> ChosenThreshold:
    """Choose the model's threshold on dev notes and store it in the model, with a record of how it was chosen.

    Raises EvaluationError when the notes allow no choice, ModelError when no threshold reaches the wanted value, and,
    unless `allow_overlap`, CorpusError when any of the notes or patients are among those that the model was trained on.
    """
    seen = SeenNotes.from_record(read_manifest(model).seen_notes)
    if not allow_overlap:
        seen.refuse(dev, used_for="to choose the threshold on")
    system = Deidentifier.load(model).predict(dev, threshold=0.0)
    chosen = choose_threshold(dev, system, rule=rule, wanted=wanted)
    threshold = chosen.threshold
    if threshold is None:
        raise ModelError(
            f"{model}: no threshold gives {target_text(rule, wanted)} on these notes; the model is as it was"
        )

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        replace(Stacker.load(directory), threshold=threshold).save(directory)
        figures = {**manifest.figures, "threshold": threshold_to_record(chosen)}
        kept = {key: value for key, value in manifest.choices.items() if key != "overlap_of_threshold"}
        choices = {**kept, **overlap_choice("threshold", seen.overlap(dev))}
        return replace(manifest, figures=figures, choices=choices)

    update_model(model, edit)
    return chosen
