"""Letting a trained model learn from reviewed notes of a site: its submodels stay, its final estimator is corrected.

What is gained is measured on patients that were not learned from: the notes are divided by patient, and each part is
scored by a model that learned from the others alone. The threshold is chosen on these scores.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, just_below, trace_curve
from ensemble_deid.evaluation.operating_points import (
    CHOSEN,
    ChosenThreshold,
    KnownNotes,
    find_point,
    threshold_to_record,
)
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.additions import changeable_files
from ensemble_deid.model.directory import beside, variant_name, write_manifest
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, file_hashes, read_manifest
from ensemble_deid.model.measured import CHOSEN_WITH
from ensemble_deid.model.portions import PORTION
from ensemble_deid.model.private import copy_private_files
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.reading import Reading, read
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator
from ensemble_deid.stacking.site_stage import ScoredCandidates, SiteStage
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.base import Proposals

_VIEW = "token-binary"
LEARNED = "learned"
"""The list of the manifest's choices that records what a model learned from reviewed notes."""


@dataclass(frozen=True, slots=True)
class Learned:
    """From how many notes a model learned, and both models on the same notes, each patient held out.

    The points are those with the highest recall at the wanted false positives; None where a model does not reach them.
    """

    notes: int
    patients: int
    before: OperatingPoint | None
    after: OperatingPoint | None


@dataclass(frozen=True, slots=True, eq=False)
class ReviewedNote:
    """A reviewed note as the model reads it, with what the submodels propose, which no learning changes."""

    document: Document
    reading: Reading
    batch: Batch
    proposals: dict[str, Proposals]

    @property
    def view(self) -> Document:
        """The note as read, with its annotations."""
        return self.batch.documents[0]

    def scored(self, stacker: Stacker) -> ScoredCandidates:
        """Return the candidates as one of the model's estimators scores them."""
        return stacker.scored(self.proposals, self.batch)

    def found(self, ensemble: Ensemble, stacker: Stacker, scored: ScoredCandidates) -> Document:
        """Return the note with what an estimator finds at threshold 0."""
        (spans,) = stacker.resolved(scored, self.proposals, self.batch)
        whole = ensemble.completed(self.view, drop_overlaps(spans))
        return self.document.with_spans(self.reading.original_spans(whole))


def prepare(ensemble: Ensemble, documents: Sequence[Document], progress: Callable[[int], None]) -> list[ReviewedNote]:
    """Have the submodels read the notes, once. Raises ModelError for a note that is not read in one piece."""
    notes = []
    for done, document in enumerate(documents, start=1):
        reading = read(document.text)
        view = reading.document(document)
        if len(view.text) > PORTION // 3:
            raise ModelError(f"{document.id}: is too long to learn from: leave it out")
        batch = ensemble.feature_extractor.extract([view])
        if len(batch.tokens):
            notes.append(ReviewedNote(document, reading, batch, ensemble.propose(batch)))
        progress(done)
    return notes


def held_out(
    ensemble: Ensemble,
    stacker: Stacker,
    notes: Sequence[ReviewedNote],
    scored: Sequence[ScoredCandidates],
    *,
    folds: int,
    min_patients: int,
) -> list[Document]:
    """Return each note as found by an estimator that learned from the notes of other patients alone."""
    patients = sorted({note.document.patient for note in notes})
    order = generator(ensemble.config.seed, "learn folds").permutation(len(patients)).tolist()
    fold = {patients[row]: place % folds for place, row in enumerate(order)}
    found: dict[str, Document] = {}
    for number in range(min(folds, len(patients))):
        inside = [fold[note.document.patient] == number for note in notes]
        rows = list(zip(notes, scored, inside, strict=True))
        others = [(note.view, one) for note, one, left_out in rows if not left_out]
        stage = SiteStage.fit(others, min_patients=min_patients)
        for note, one, left_out in rows:
            if left_out:
                found[note.document.id] = note.found(ensemble, replace(stacker, site=stage), one)
    return [found[note.document.id] for note in notes]


def learn(
    model: Path,
    out: Path,
    documents: Sequence[Document],
    *,
    wanted: float,
    folds: int = 5,
    min_patients: int = 1,
    remark: str = "",
    progress: Callable[[int], None] = lambda done: None,
) -> Learned:
    """Write a model into `out` that has learned from reviewed notes; its threshold gives `wanted` false positives.

    What it learns of words and forms is of those that `min_patients` patients have.

    Raises ConfigError for fewer than two folds; ModelError for a model that has learned already (it would be measured
    on notes that it knows), for notes of fewer than two patients, and where no threshold reaches what is wanted;
    CorpusError for notes that it was trained on.
    """
    ensemble, manifest = load_model(model)
    if ensemble.stacker.site is not None:
        raise ModelError(f"{model}: has learned from reviewed notes already: name the model that it came from")
    seen = SeenNotes.from_record(manifest.seen_notes)
    seen.refuse(documents, used_for="to learn from")
    if out.exists():
        raise ModelError(f"{out}: exists; what has learned is a new model")
    if folds < 2:
        raise ConfigError(f"--folds: at least 2, not {folds}")
    if len({document.patient for document in documents}) < 2:
        raise ModelError("there is nothing to learn from and measure on: finish notes of at least two patients")
    notes = prepare(ensemble, documents, progress)
    gold = [note.document for note in notes]
    unlearned: list[Document] = []
    learned: dict[str, tuple[Stacker, ChosenThreshold]] = {}
    with one_thread():
        for names in (ensemble.config.submodels, *ensemble.config.smaller_stacks):
            variant = variant_name(ensemble.config.submodels, names)
            stacker = Stacker.load(model, variant=variant)
            scored = [note.scored(stacker) for note in notes]
            found = held_out(ensemble, stacker, notes, scored, folds=folds, min_patients=min_patients)
            chosen = _threshold(trace_curve(gold, found, view=_VIEW), gold, wanted=wanted)
            views = [(note.view, one) for note, one in zip(notes, scored, strict=True)]
            stage = SiteStage.fit(views, min_patients=min_patients)
            if not variant:
                unlearned = [note.found(ensemble, stacker, one) for note, one in zip(notes, scored, strict=True)]
            learned[variant] = replace(stacker, site=stage, threshold=chosen.threshold or 0.0), chosen
    before = find_point(trace_curve(gold, unlearned, view=_VIEW), rule="false-positives", wanted=wanted)
    chosen = learned[""][1]
    result = Learned(len(notes), len({note.patient for note in gold}), before, chosen.chosen_at)
    record = {"notes": result.notes, "patients": result.patients, "remark": remark}
    record |= {"before": _rates(result.before), "after": _rates(result.after)}
    known = seen.and_also(documents, seed=ensemble.config.seed).to_record()
    choices = {**manifest.choices, LEARNED: [record]}
    stackers = {variant: stacker for variant, (stacker, _) in learned.items()}
    _write(model, out, replace(manifest, seen_notes=known, choices=choices), stackers, chosen)
    return result


def _threshold(curve: Curve, gold: Sequence[Document], *, wanted: float) -> ChosenThreshold:
    point = find_point(curve, rule="false-positives", wanted=wanted)
    if point is None:
        raise ModelError(f"no threshold reaches {wanted:g} false positives in 1000 tokens on the notes held out")
    threshold = just_below(point.threshold)
    chosen_at = replace(point, threshold=threshold)
    return ChosenThreshold("false-positives", wanted, _VIEW, threshold, chosen_at=chosen_at, notes=KnownNotes.of(gold))


def _rates(point: OperatingPoint | None) -> dict[str, float] | None:
    return None if point is None else {**asdict(point.counts), "tokens": point.tokens}


def _write(model: Path, out: Path, manifest: Manifest, stackers: dict[str, Stacker], chosen: ChosenThreshold) -> None:
    with beside(out) as scratch:
        for name in read_manifest(model).files:
            shutil.copyfile(model / name, scratch / name)
        copy_private_files(model, scratch)
        for variant, stacker in stackers.items():
            stacker.save(scratch, variant=variant)
        changed = changeable_files(replace(manifest, files=file_hashes(scratch)))
        figures = {**manifest.figures, CHOSEN: threshold_to_record(chosen), CHOSEN_WITH: changed}
        write_manifest(scratch, replace(manifest, figures=figures))
