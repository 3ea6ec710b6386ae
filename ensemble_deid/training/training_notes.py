"""Which notes are trained on, which of them folds keep together, and when they are refused.

A warm start trains a model's submodels further on other notes, as far as they can be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError, CorpusError, ModelError
from ensemble_deid.evaluation.curve import Curve
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.document import Document, grouped_by_site
from ensemble_deid.note.tags import TagScheme, tag_loss
from ensemble_deid.seeds import generator
from ensemble_deid.submodels import BY_NAME, row_of
from ensemble_deid.taggers.base import Tagger

_LEAST_FOUND = 0.01
"""The least share of the PHI tokens; a model below it has learned nothing."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The submodels to start from, by name, and what the new model's manifest keeps of where they come from.

    `seen` are the notes and patients that they were trained on, `labels` what that model finds, in its order.
    """

    taggers: Mapping[str, Tagger] = field(default_factory=dict, repr=False)
    labels: tuple[str, ...] = ()
    seen: SeenNotes | None = field(default=None, repr=False)
    record: Mapping[str, Any] = field(default_factory=dict)

    def scheme(
        self, documents: Sequence[Document], *, submodels: Sequence[str], notify: Callable[[str], None]
    ) -> TagScheme:
        """Return the tags of the labels of the notes and of the model to start from, and say what only that one knows.

        Submodels that begin with nothing never predict a label that the notes lack.
        """
        annotated = {span.label for document in documents for span in document.spans}
        kept = [label for label in self.labels if label not in annotated]
        if kept:
            new = [name for name in submodels if name not in self.taggers and not row_of(name).feeds_others]
            without = f"; {', '.join(new)} cannot learn them" if new else ""
            notify(
                f"labels that only the model to start from has: {', '.join(kept)}: {', '.join(self.taggers)} can still "
                f"find them{without}; for these, the submodels' highest confidence stands for the final estimator's"
            )
        return TagScheme.from_labels({*annotated, *self.labels})


COLD = WarmStart()


def read_warm_start(model: Path, config: Config, *, notify: Callable[[str], None]) -> WarmStart:
    """Load a model to start from, and say which submodels begin with nothing all the same.

    Its final estimator and its lexicon are learned anew. Raises ModelError for a damaged model, ConfigError where the
    new model is to be shareable (it would hold the other notes' words) or no submodel can start from this one.
    """
    if config.shareable:
        raise ConfigError("shareable: a model that starts from another one holds words of that one's notes")
    ensemble, manifest = load_model(model, device="cpu")
    taggers = {}
    for name in config.submodels:
        if name in ensemble.taggers and row_of(name).starts_from_model:
            taggers[name] = ensemble.taggers[name]
        elif name not in ensemble.taggers:
            notify(f"{name}: {model} has none to start from, so it is trained from nothing")
        elif not row_of(name).feeds_others:
            notify(f"{name}: cannot start from a trained model (its optimiser has no initial weights): from nothing")
    if not taggers:
        can = ", ".join(name for name, row in BY_NAME.items() if row.starts_from_model)
        raise ConfigError(f"{model}: no submodel to be trained can start from it; those that can are {can}")
    record = {"model": manifest.checksum, "submodels": list(taggers), "labels": list(manifest.labels)}
    seen = SeenNotes.from_record(manifest.seen_notes)
    return WarmStart(taggers, manifest.labels, seen, {"started_from": record})


def training_notes(documents: Sequence[Document]) -> list[Document]:
    """Return the notes that have text: a blank note teaches nothing, and could leave a fold with nothing to learn."""
    return [document for document in documents if document.text.strip()]


def in_fold_groups(documents: Sequence[Document], *, config: Config) -> list[Document]:
    """Return the notes with the groups that folds keep together, as `group_by` says.

    What is learned from such folds holds for new groups. `auto` takes sites where there are at least as many as folds.
    Raises ConfigError where notes are to be kept together by patient, and some name none.
    """
    without = sum(document.patient_id is None for document in documents)
    if config.group_by == "patient" and without:
        raise ConfigError(f"group_by = patient: {without} of {len(documents)} notes name no patient")
    sites = {document.site for document in documents} - {None}
    by_site = config.group_by == "site" or (config.group_by == "auto" and len(sites) >= config.folds)
    return grouped_by_site(documents) if by_site else list(documents)


def checked_notes(
    documents: Sequence[Document], dev: Sequence[Document], *, config: Config, warm: WarmStart, allow_overlap: bool
) -> tuple[list[Document], SeenNotes]:
    """Return the notes to train on, in their fold groups, and the digests by which the model will know them again.

    Raises CorpusError where there is too little to learn from, and, unless `allow_overlap`, where notes or patients are
    among those of the model to start from, or dev notes among those trained on.
    """
    notes = in_fold_groups(training_notes(documents), config=config)
    if not any(document.spans for document in notes):
        raise CorpusError(f"the training corpus ({len(notes)} notes) has no annotated PHI to learn from")
    if len({document.group for document in notes}) < 2:
        raise CorpusError(
            "training needs notes of at least two patients (or sites): folds keep the notes of each together"
        )
    patients = len({document.patient for document in notes})
    if config.shareable and patients < config.min_patients_outside:
        raise CorpusError(
            f"a shareable model needs notes of at least {config.min_patients_outside} patients "
            f"(min_patients_outside); these are of {patients}"
        )
    if warm.seen is None:
        seen = SeenNotes.of(notes, seed=config.seed)
    else:
        if not allow_overlap:
            warm.seen.refuse(notes, used_for="for training")
        seen = warm.seen.and_also(notes, seed=config.seed)
    if not allow_overlap:
        seen.refuse(dev, used_for="for dev")
    return notes, seen.with_dev(dev)


def training_counts(batch: Batch, *, copies: int) -> dict[str, int]:
    """Return how much is trained on, besides `copies`, and how many annotated spans the tokens cut or lose."""
    documents = batch.documents
    loss = tag_loss(documents, batch.tokens)
    return {
        "notes": len(documents),
        **({"copies": copies} if copies else {}),
        "patients": len({d.patient_id or d.id for d in documents}),
        "sites": len({d.site for d in documents} - {None}),
        "groups": len({d.group for d in documents}),
        "spans": loss.spans,
        "spans_cut": loss.cut,
        "spans_lost": loss.lost,
    }


def sample_sites(documents: Sequence[Document], n_sites: int, *, seed: int) -> tuple[Document, ...]:
    """Return the notes of `n_sites` sites, in their order; a larger sample of the same seed includes a smaller one.

    Raises ConfigError where a note names no site, or there are fewer sites.
    """
    sites = {document.site for document in documents}
    if None in sites:
        raise ConfigError("only notes that all name their site can be drawn by site")
    names = sorted(site for site in sites if site is not None)
    if not 1 <= n_sites <= len(names):
        raise ConfigError(f"{n_sites} sites cannot be drawn: the notes are of {len(names)}")
    order = generator(seed, "sites").permutation(len(names))
    chosen = {names[k] for k in order[:n_sites].tolist()}
    return tuple(document for document in documents if document.site in chosen)


class UselessModelError(ModelError):
    """A model that finds next to nothing of its own training notes."""


def refuse_useless(curve: Curve, *, threshold: float) -> None:
    """Raise UselessModelError where a model finds next to nothing of its training notes, each scored out of fold."""
    counts = curve.at(threshold).counts
    if counts.gold and counts.tp < _LEAST_FOUND * counts.gold:
        raise UselessModelError(
            f"the model finds {counts.tp} of the {counts.gold} PHI tokens of its training notes, out of fold, and is "
            "not saved: are the annotations at their places, and are there enough notes?"
        )
