"""Training a model's submodels again without the regex patterns, for the ablation.

The patterns are a submodel, and they are also features of the other submodels: the pattern columns of the network, and
the initial tags of TBED. Dropping the submodel from the stack leaves these features in place; here they go, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ModelError
from ensemble_deid.model.manifest import fingerprint, read_manifest
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.document import Document
from ensemble_deid.submodels import SUBMODELS
from ensemble_deid.training.progress import Reporter
from ensemble_deid.training.train import Trained, train
from ensemble_deid.training.training_notes import training_notes

FEATURE_SOURCES = tuple(row.name for row in SUBMODELS if row.feeds_others)


@dataclass(frozen=True, slots=True)
class TrainingNotes:
    """The notes that a model was trained on; `dev` are those that its network's epoch was chosen on, if any."""

    train: Sequence[Document] = field(repr=False)
    dev: Sequence[Document] = field(repr=False)


def check_training_notes(model: Path, notes: TrainingNotes) -> TrainingNotes:
    """Return the notes to train on as the model was trained: without dev notes if it had none.

    Raises ModelError when they are not the notes that the model was trained on.
    """
    manifest = read_manifest(model)
    if fingerprint(training_notes(notes.train)) != manifest.fingerprint:
        raise ModelError(f"{model}: was trained on other notes; retraining needs the same ones")
    if "started_from" in manifest.choices:
        raise ModelError(
            f"{model}: was trained further from another model; it cannot be retrained from these notes alone"
        )
    if not manifest.dev_fingerprint:
        return TrainingNotes(notes.train, ())
    if fingerprint(notes.dev) != manifest.dev_fingerprint:
        raise ModelError(f"{model}: was trained with other dev notes; retraining needs the same ones (--retrain-dev)")
    return notes


def without_patterns(config: Config) -> Config:
    """Return the configuration of the same stack in which nothing comes from the patterns.

    It is for this one comparison, so no further final estimators are fitted, whose submodels might all be gone. Raises
    ModelError when no submodel is left.
    """
    left = [name for name in config.submodels if name not in FEATURE_SOURCES]
    if not left:
        raise ModelError("without the patterns no submodel is left to retrain")
    content = config.model_dump(mode="json")
    content["regex"] |= {"patterns": NO_PATTERNS.name}
    content["stack"] |= {"also_without": ()}
    if content["tbed"]["initial"] == "regex":
        content["tbed"] |= {"initial": "none"}
    return make_config({**content, "jobs": config.jobs, "submodels": left})


def train_again(notes: TrainingNotes, *, config: Config, report: Reporter) -> Trained:
    """Train a stack again on the same notes, with the configuration that `without_patterns` gave."""
    # Whether dev notes of training patients are acceptable was decided when the model was trained.
    return train(notes.train, notes.dev, config=config, report=report, allow_overlap=True)
