"""The combiners of one model on the same notes, and the choice of the submodels that `per-type` takes for each label.

Murugadoss et al. 2021 take what any model claims; Zhao et al. 2020 let an SVM decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.count_table import CountTable
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, read_manifest
from ensemble_deid.model.options import CHOICE, COMBINERS, DEV, SVM, combine_named, members_record
from ensemble_deid.model.seen_notes import SeenNotes, overlap_choice
from ensemble_deid.note.completion import complete
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import as_read
from ensemble_deid.stacking.voting import choose_best_members

VIEWS = ("strict", "token-binary")
"""Whole annotations with their labels; tokens as PHI or not, which is what removing PHI is about."""


@dataclass(frozen=True, slots=True)
class CombinerFigures:
    """One combiner in one view; the differences to the final estimator are None for that itself."""

    combiner: str
    view: str
    counts: Counts
    recall: PairedDifference | None
    f1: PairedDifference | None


def compare_combiners(
    model: Path, documents: Sequence[Document], *, resamples: int, seed: int = 0
) -> list[CombinerFigures]:
    """Score every combiner that the model can serve; each submodel runs once.

    `per-type` is left out for a model that does not say which submodels are best. Raises ModelError, and
    EvaluationError where there are no notes.
    """
    ensemble, _ = load_model(model)
    deidentifier = Deidentifier(ensemble)
    documents = [as_read(document) for document in documents]
    batch = ensemble.feature_extractor.extract(documents)
    proposals = ensemble.propose(batch)
    answers: dict[str, list[Document]] = {}
    for combiner in COMBINERS:
        if combiner == SVM:
            found = ensemble.stacker.predict(proposals, batch)
        elif combiner == "per-type" and not ensemble.best_members:
            continue
        else:
            found = combine_named(combiner, proposals, labels=ensemble.scheme.labels, members=ensemble.best_members)
        labels = ensemble.scheme.labels
        completed = (complete(note.text, spans, labels) for note, spans in zip(documents, found, strict=True))
        notes = (note.with_spans(spans) for note, spans in zip(documents, completed, strict=True))
        answers[combiner] = [deidentifier.without_listed(note)[0] for note in notes]
    figures = []
    for view in VIEWS:
        tables = {combiner: count_view(documents, answer, view) for combiner, answer in answers.items()}
        figures += [_figures(name, view, tables, resamples=resamples, seed=seed) for name in tables]
    return figures


def _figures(combiner: str, view: str, tables: dict[str, CountTable], *, resamples: int, seed: int) -> CombinerFigures:
    own, base = tables[combiner], tables[SVM]
    if combiner == SVM:
        return CombinerFigures(combiner, view, own.total, None, None)
    recall, f1 = (
        paired_difference(
            own.per_document, base.per_document, own.groups, measure=measure, resamples=resamples, seed=seed
        )
        for measure in ("recall", "f1")
    )
    return CombinerFigures(combiner, view, own.total, recall, f1)


def choose_members(
    model: Path, dev: Sequence[Document], *, best: int, allow_overlap: bool = False
) -> dict[str, tuple[str, ...]]:
    """Choose the best submodels of each label on dev notes, and store them in the model in place of those it had.

    A label that the dev notes do not have keeps the submodels that it had; where it had none, all count for it. Raises
    ConfigError for `best` below 1, and, unless `allow_overlap`, CorpusError when any of the notes or patients are among
    those that the model was trained on.
    """
    if best < 1:
        raise ConfigError(f"--top: at least 1, not {best}")
    seen = SeenNotes.from_record(read_manifest(model).seen_notes)
    if not allow_overlap:
        seen.refuse(dev, used_for="to choose submodels on")
    ensemble, _ = load_model(model)
    dev = [as_read(document) for document in dev]
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
