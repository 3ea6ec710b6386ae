"""Choices stored in a trained model: threshold (Johnson et al. 2020, section 3.4) and best submodels of each label."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, just_below, next_lower, trace_curve
from ensemble_deid.evaluation.operating_points import (
    CHOSEN,
    OUT_OF_FOLD,
    ChosenThreshold,
    KnownNotes,
    ThresholdRule,
    check_target,
    choose_threshold,
    find_point,
    threshold_to_record,
)
from ensemble_deid.model.additions import changeable_files, changes_since_training, listed
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.ensemble import as_seen
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, has_private_file, read_manifest
from ensemble_deid.model.measured import CHOSEN_WITH, SHIPPED, OutOfFold, out_of_fold
from ensemble_deid.model.options import CHOICE, DEV, as_compared, members_record
from ensemble_deid.model.seen_notes import SeenNotes, overlap_choice
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.document import Document
from ensemble_deid.stacking.dataset import ARRAYS as DATASET
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.stacking.voting import choose_best_members

OF_TRAINING = "training_threshold"
"""The figure of the manifest that has the threshold that training chose."""
_OVERLAP = "overlap_of_threshold"


def freeze_threshold(
    model: Path,
    dev: Sequence[Document],
    *,
    rule: ThresholdRule,
    wanted: float,
    allow_overlap: bool = False,
    members: Mapping[str, str | Path] | None = None,
) -> ChosenThreshold:
    """Choose the model's threshold on dev notes and store it in the model, with a record of how it was chosen.

    Raises EvaluationError when the notes allow no choice; ModelError, with the best value that can be reached, when no
    threshold reaches the wanted one; and, unless `allow_overlap`, CorpusError for notes or patients of its training.
    """
    seen = SeenNotes.from_record(read_manifest(model).seen_notes)
    if not allow_overlap:
        seen.refuse(dev, used_for="to choose the threshold on")
    system = [as_compared(note) for note in Deidentifier.load(model, members=members).predict(dev, threshold=0.0)]
    chosen = choose_threshold(dev, system, rule=rule, wanted=wanted)
    if chosen.chosen_at is None:
        raise _unreached(model, trace_curve(dev, system, view=chosen.view), rule, wanted, "these notes")
    curve, score = trace_curve(dev, system, view=chosen.view), chosen.chosen_at.threshold
    threshold = just_below(score, lower=next_lower(curve, score))
    return _freeze(model, chosen, chosen.chosen_at, overlap_choice("threshold", seen.overlap(dev)), threshold=threshold)


def freeze_out_of_fold_threshold(
    model: Path, *, rule: ThresholdRule, wanted: float
) -> tuple[ChosenThreshold, OutOfFold]:
    """Choose the model's threshold on the curve that training left in it, and store it; return both.

    Raises EvaluationError for a target that no curve can have; ModelError when the model has no such curve or was
    changed after it was measured, and as `freeze_threshold`.
    """
    check_target(rule, wanted)
    manifest = read_manifest(model)
    stored = out_of_fold(manifest, manifest.config["submodels"])
    if stored is None:
        raise ModelError(
            f"{model}: holds no curve of its training, since it was trained before models kept one: name annotated "
            f"notes to choose the threshold on, or train it again; {_UNCHANGED}"
        )
    if changes := changes_since_training(manifest, manifest.config["submodels"]):
        raise ModelError(
            f"{model}: the curve of its training was measured before the model's {listed(changes)} changed, "
            f"and does not hold for it: name annotated notes to choose the threshold on; {_UNCHANGED}"
        )
    point = find_point(stored.curve, rule=rule, wanted=wanted)
    if point is None:
        raise _unreached(model, stored.curve, rule, wanted, stored.notes)
    chosen = ChosenThreshold(rule, wanted, stored.curve.view, point.threshold, chosen_at=point, notes=OUT_OF_FOLD)
    return _freeze(model, chosen, point, {}, threshold=just_below(point.threshold)), stored


def freeze_certified_threshold(
    model: Path, point: OperatingPoint, *, missed: float, notes: Sequence[Document]
) -> ChosenThreshold:
    """Store the threshold of a certificate (`audit/certify.py`) and the notes of its audit; return the choice."""
    chosen = ChosenThreshold(
        "certified", missed, "token-binary", point.threshold, chosen_at=point, notes=KnownNotes.of(notes)
    )
    return _freeze(model, chosen, point, {}, threshold=just_below(point.threshold))


def reset_threshold(model: Path) -> tuple[float, str]:
    """Restore the threshold that a model was shipped with, else training's; return it, and who chose it.

    Raises ModelError if the model has no record of it.
    """
    manifest = read_manifest(model)
    figures = manifest.figures
    if (shipped := figures.get(SHIPPED)) is not None:
        _store(model, shipped["threshold"], shipped["figures"], shipped["choices"], came_so=True)
        return float(shipped["threshold"]), "the model came with"
    if not has_private_file(model, DATASET):
        return Stacker.load(model).threshold, "the model came with"
    threshold = figures.get(OF_TRAINING)
    if threshold is None:
        raise ModelError(f"{model}: has no record of the threshold of its training; {_UNCHANGED}")
    _store(model, threshold, {}, {})
    return float(threshold), "training chose"


_UNCHANGED = "the model is as it was"


def _freeze(
    model: Path, chosen: ChosenThreshold, point: OperatingPoint, overlap: dict[str, Any], *, threshold: float
) -> ChosenThreshold:
    """Store the threshold for the point that was chosen, a little below its score, and return the choice with it."""
    frozen = replace(chosen, threshold=threshold, chosen_at=replace(point, threshold=threshold))
    manifest = read_manifest(model)
    record = {CHOSEN: threshold_to_record(frozen), CHOSEN_WITH: changeable_files(manifest), **_shipped(model, manifest)}
    _store(model, threshold, record, overlap)
    return frozen


def _shipped(model: Path, manifest: Manifest) -> dict[str, Any]:
    """Return the figure that keeps the threshold of a model without training's own records, once."""
    if has_private_file(model, DATASET) or SHIPPED in manifest.figures:
        return {}
    kept = {
        "threshold": Stacker.load(model).threshold,
        "figures": {name: manifest.figures[name] for name in (CHOSEN, CHOSEN_WITH) if name in manifest.figures},
        "choices": {name: manifest.choices[name] for name in (_OVERLAP,) if name in manifest.choices},
    }
    return {SHIPPED: kept}


def _store(
    model: Path, threshold: float, record: dict[str, Any], overlap: dict[str, Any], *, came_so: bool = False
) -> None:
    left = (CHOSEN, CHOSEN_WITH, *((SHIPPED,) if came_so else ()))

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        replace(Stacker.load(directory), threshold=threshold).save(directory)
        figures = {name: figure for name, figure in manifest.figures.items() if name not in left}
        choices = {name: choice for name, choice in manifest.choices.items() if name != _OVERLAP}
        return replace(manifest, figures={**figures, **record}, choices={**choices, **overlap})

    update_model(model, edit)


def _unreached(model: Path, curve: Curve, rule: ThresholdRule, wanted: float, notes: str) -> ModelError:
    target = f"{wanted:g} false positives in 1000 tokens" if rule == "false-positives" else f"{rule} {wanted:g}"
    return ModelError(f"{model}: no threshold reaches {target} on {notes}{_best(curve, rule)}; {_UNCHANGED}")


def _best(curve: Curve, rule: ThresholdRule) -> str:
    """Say the best value of the rule's figure on a curve, and at which threshold (the highest that has it)."""

    def value(point: OperatingPoint) -> float:
        if rule == "false-positives":
            return -(point.fp_per_1000 or 0.0)
        return (point.counts.recall if rule == "sensitivity" else point.counts.precision) or 0.0

    points = [curve.point(index) for index in range(len(curve))]
    if not points or not curve.gold:
        return " (they hold no PHI, or the model finds none)"
    best = max(points, key=value)
    other = "precision" if rule == "sensitivity" else "sensitivity"
    rest = (best.counts.precision if rule == "sensitivity" else best.counts.recall) or 0.0
    shown = (
        f"the fewest are {best.fp_per_1000:.2f}" if rule == "false-positives" else f"the highest is {value(best):.4f}"
    )
    return f": {shown}, at threshold {four_digits(best.threshold)}, with {other} {rest:.4f}"


def choose_members(
    model: Path, dev: Sequence[Document], *, best: int, allow_overlap: bool = False
) -> dict[str, tuple[str, ...]]:
    """Choose the best submodels of each label on dev notes, and store them in the model in place of those it had.

    A label that the dev notes do not have keeps the submodels that it had, else all. Raises ConfigError for `best`
    below 1, and, unless `allow_overlap`, CorpusError for notes or patients of the model's training.
    """
    if best < 1:
        raise ConfigError(f"--top: at least 1, not {best}")
    seen = SeenNotes.from_record(read_manifest(model).seen_notes)
    if not allow_overlap:
        seen.refuse(dev, used_for="to choose submodels on")
    ensemble, _ = load_model(model)
    dev = [as_seen(document) for document in dev]
    proposals = ensemble.propose(ensemble.feature_extractor.extract(dev))
    there = {span.label for document in dev for span in document.spans}
    chosen = choose_best_members(dev, proposals, labels=ensemble.scheme.labels, best=best)
    had = ensemble.best_members
    members = {label: names if label in there else had.get(label, names) for label, names in chosen.items()}
    record = members_record(members, chosen_on=DEV, notes=len(dev))
    overlap = overlap_choice(CHOICE, seen.overlap(dev))

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        kept = {name: choice for name, choice in manifest.choices.items() if name != f"overlap_of_{CHOICE}"}
        return replace(manifest, choices={**kept, **record, **overlap})

    update_model(model, edit)
    return members
