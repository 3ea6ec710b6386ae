"""Training the full stack: the submodels on each fold and on all notes, then the final estimator."""

import logging
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from ensemble_deid import reproducible
from ensemble_deid.config import Config, make_config
from ensemble_deid.corpora.augment import copies_for_training
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch, select_documents, training_view, with_lexicon, with_vocabulary
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.ensemble import Ensemble, arithmetic_of_training, as_seen
from ensemble_deid.model.feature_extractor import FeatureExtractor, fit_feature_extractor
from ensemble_deid.model.manifest import Manifest, fingerprint, installed_packages
from ensemble_deid.model.measured import CURVES, LANGUAGES, curves_record
from ensemble_deid.model.options import OUT_OF_FOLD, members_record
from ensemble_deid.model.pattern_choice import choose_patterns
from ensemble_deid.model.seen_notes import SeenNotes, overlap_choice
from ensemble_deid.note.counts import Counts, strict_counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.label_map import label_groups
from ensemble_deid.note.language import languages_of
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.reading import as_read
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parallel import Reporter
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.voting import choose_best_members
from ensemble_deid.taggers.base import Tagger
from ensemble_deid.taggers.given import Members, all_with_given
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.training.fold_training import TrainingProgress, train_submodels
from ensemble_deid.training.rules import rule_curve
from ensemble_deid.training.run_folder import PartFolder, settings_of_training
from ensemble_deid.training.thresholds import OF_TRAINING
from ensemble_deid.training.training_notes import (
    COLD,
    WarmStart,
    checked_notes,
    read_warm_start,
    refuse_useless,
    training_counts,
)
from ensemble_deid.training.training_points import FinalEstimators, Scored, TrainingPoints, fit_final_estimators

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained ensemble and all that training measured; `dev_counts` is empty without dev notes.

    >>> from ensemble_deid import Config, Deidentifier, read_corpus, train
    >>> trained = train(read_corpus("demo:dev").documents[:10], config=Config(submodels=["regex"], folds=2, jobs=1))
    >>> trained.save("regex_model")
    >>> Deidentifier.load("regex_model").deidentify("Seen on 4/2/2071.", accept_unfit=True).text
    'Seen on [DATE].'
    """

    ensemble: Ensemble
    stacking_dataset: StackingDataset = field(repr=False)
    manifest: Manifest
    dev_counts: dict[str, Counts]
    points: TrainingPoints
    part: Path | None = None

    @property
    def deidentifier(self) -> Deidentifier:
        """The model, ready to use without being saved (in one process: others load it from a directory)."""
        return Deidentifier(replace(self.ensemble, manifest=self.manifest))

    def save(self, directory: str | Path) -> None:
        """Write the model directory, replacing an older model; then remove the part folder, if there is one.

        Raises ModelError where the directory exists and holds something other than a model.
        """
        save_model(self.ensemble, self.stacking_dataset, self.manifest, Path(directory))
        if self.part is not None:
            shutil.rmtree(self.part)


def train(
    documents: Iterable[Document],
    dev: Iterable[Document] = (),
    *,
    config: Config | None = None,
    report: Reporter | None = None,
    notify: Callable[[str], None] = _LOG.warning,
    allow_overlap: bool = False,
    start_from: str | Path | None = None,
    part: str | Path | None = None,
    resume: bool = False,
    members: Members = (),
) -> Trained:
    """Train the stack on annotated notes and score it on dev notes, which are used only to choose the network's epoch.

    `documents` and `dev` are corpora or any other documents, of different patients. Without dev notes, a tenth of the
    patients are held out of the network's training to choose its epoch. `report` is called with a `Step` (done,
    total, message) after each step, `notify` with a sentence on what was chosen for these notes (which patterns, and
    why); it is logged otherwise. The submodels that can start from a model start from that in `start_from`, which must
    have been trained on other notes; the new model has the labels of both. Each submodel and each fold of it is kept in
    the folder `part` as it is done; with `resume`, training goes on with those, and the model is the same. `save`
    removes the folder. `members` (`member_sources`) are other systems: the final estimator learns from their spans as
    from those of submodels. Raises CorpusError when there is too little to learn from, when a member says nothing of a
    note, and, unless `allow_overlap`, when dev notes or their patients are among those trained on; ConfigError for
    settings that have no effect on the submodels, and for a part folder of other notes, settings or versions, or
    without `resume`.

    >>> from ensemble_deid import Config, read_corpus, train
    >>> notes = read_corpus("demo:dev").documents
    >>> config = Config(submodels=["regex", "tbed"], folds=2, jobs=1)
    >>> trained = train(notes[:10], dev=notes[-4:], config=config)
    >>> for name, counts in trained.dev_counts.items():
    ...     print(name, counts.tp > 0)
    regex True
    tbed True
    ensemble True
    """
    documents, dev = tuple(documents), tuple(dev)
    config = _with_members(config or Config(), members)
    config.refuse_without_effect()
    warm = COLD if start_from is None else read_warm_start(Path(start_from), config, notify=notify)
    if reproducible.is_pinned():
        reproducible.check_pinned()
    documents, seen = checked_notes(documents, dev, config=config, warm=warm, allow_overlap=allow_overlap)
    kept = None
    if part is not None:
        others = {"start": dict(warm.record), "computed": _how_computed(config), **_members_record(members)}
        settings = settings_of_training(documents, dev, config, others)
        kept = PartFolder.begin(Path(part), settings, resume=resume)
    run = _Run(report or (lambda step: None), notify, warm, seen, part=kept, members=members)
    return _train(documents, dev, config=config, run=run)


def _with_members(config: Config, members: Members) -> Config:
    """Return the configuration of a stack with these members. Raises ConfigError where one that it names is missing."""
    if set(config.members) - {name for name, _ in members}:
        raise ConfigError(f"members: the spans of {', '.join(config.members)} must be given: --member NAME=...")
    if not members:
        return config
    return make_config({**config.model_dump(mode="json"), "members": [name for name, _ in members]})


def _members_record(members: Members) -> dict[str, Any]:
    return {"members": {name: source.to_json() for name, source in members}} if members else {}


def _how_computed(config: Config) -> dict[str, Any]:
    """Return in which arithmetic networks are trained, and what was pinned, where it was."""
    return {
        **({"arithmetic": arithmetic} if (arithmetic := arithmetic_of_training(config)) else {}),
        **({"reproducible": reproducible.record()} if reproducible.is_pinned() else {}),
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    report: Reporter
    notify: Callable[[str], None]
    warm: WarmStart
    seen: SeenNotes
    part: PartFolder | None
    members: Members


def _train(documents: Sequence[Document], dev_documents: Sequence[Document], *, config: Config, run: _Run) -> Trained:
    of_train, of_dev = fingerprint(documents), fingerprint(dev_documents) if dev_documents else ""
    notes = len(documents)
    augment = config.augment
    copies = copies_for_training(documents, share=augment.share, changes=augment.changes, seed=config.seed)
    documents = [as_read(document) for document in all_with_given([*documents, *copies], run.members)]
    dev_documents = [as_seen(document) for document in all_with_given(dev_documents, run.members)]
    scheme = run.warm.scheme(documents, submodels=config.submodels, notify=run.notify)
    label_groups(config.by_type, scheme.labels)  # raises ConfigError for a type that no label is of
    patterns = choose_patterns(config, scheme.labels, documents)
    run.notify(patterns.notice)
    plain, extractor = fit_feature_extractor(documents, scheme.labels, config=config, choice=patterns)
    dev = extractor.extract(dev_documents) if dev_documents else None
    ensemble, fitted, progress = _fit_ensemble(
        documents, plain, dev, extractor=extractor, scheme=scheme, config=config, run=run
    )
    refuse_useless(fitted.curves[tuple(ensemble.taggers)], threshold=fitted.points.threshold)
    points = fitted.points
    counts: dict[str, Counts] = {}
    if points.unreached:
        run.notify("no threshold keeps within stack.max_false_positives: the one with the best F1 is frozen instead")
    if dev is not None:
        counts, scored = score(ensemble, dev, dev_documents)
        points = points.with_dev(scored)
    manifest = Manifest(
        labels=scheme.labels,
        # The number of processes does not affect a model: with any number the files are the same.
        config=config.model_dump(mode="json", exclude={"jobs"}),
        fingerprint=of_train,
        dev_fingerprint=of_dev,
        training=training_counts(select_documents(plain, range(notes)), copies=len(copies)),
        # A digest of a patient's number gives the number away to whoever tries all numbers.
        seen_notes={} if config.shareable else run.seen.to_record(),
        choices={
            "patterns": patterns.to_record(),
            **extractor.to_record(),
            "operating_point": points.to_record(),
            LANGUAGES: list(languages_of(documents[:notes])),
            **members_record(ensemble.best_members, chosen_on=OUT_OF_FOLD, notes=notes),
            **overlap_choice("dev", run.seen.overlap(dev_documents)),
            **run.warm.record,
            **_how_computed(config),
            **_members_record(run.members),
        },
        figures={
            "cross_validated_f1": ensemble.stacker.cv_f1,
            OF_TRAINING: ensemble.stacker.threshold,
            **({"dev_strict_f1": {name: count.f1 for name, count in counts.items()}} if counts else {}),
            **_rule_curve(ensemble.taggers, plain, extractor, dev),
            CURVES: curves_record(fitted.curves, documents[:notes]),
        },
        packages=installed_packages(),
    )
    progress.finish()
    return Trained(ensemble, fitted.dataset, manifest, counts, points, part=None if run.part is None else run.part.path)


def _fit_ensemble(
    documents: Sequence[Document],
    plain: Batch,
    dev: Batch | None,
    *,
    extractor: FeatureExtractor,
    scheme: TagScheme,
    config: Config,
    run: _Run,
) -> tuple[Ensemble, FinalEstimators, TrainingProgress]:
    groups = [document.group for document in documents]
    taggers, proposals, progress = train_submodels(
        plain, dev, groups, scheme=scheme, config=config, report=run.report, starts=run.warm.taggers, part=run.part
    )
    batch = with_vocabulary(plain, extractor.lexicon)
    fitted = fit_final_estimators(proposals, batch, labels=scheme.labels, config=config, progress=progress.say)
    originals = [k for k, document in enumerate(documents) if not document.is_copy]
    members = choose_best_members(
        [documents[k] for k in originals],
        {name: replace(found, best=tuple(found.best[k] for k in originals)) for name, found in proposals.items()},
        labels=scheme.labels,
        best=config.stack.best_members,
    )
    ensemble = Ensemble(
        config,
        scheme,
        feature_extractor=extractor,
        taggers=taggers,
        stacker=fitted.stacker,
        smaller=fitted.smaller,
        best_members=members,
        members=run.members,
    )
    return ensemble, fitted, progress


def score(ensemble: Ensemble, batch: Batch, documents: Sequence[Document]) -> tuple[dict[str, Counts], Scored]:
    """Return strict entity counts of every submodel and of the ensemble, and all that the ensemble scores."""
    proposals = ensemble.propose(batch)
    answers = {name: [drop_overlaps(spans) for spans in p.best] for name, p in proposals.items()}
    scored = Scored.of(documents, ensemble.stacker.predict_proba(proposals, batch))
    gold = [document.spans for document in documents]
    counts = {name: strict_counts(gold, spans) for name, spans in answers.items()}
    counts["ensemble"] = scored.at(ensemble.stacker.threshold)[0]
    for stacker in ensemble.smaller:
        left_out = ", ".join(name for name in ensemble.taggers if name not in stacker.submodels)
        counts[f"without {left_out}"] = strict_counts(gold, stacker.predict(proposals, batch))
    return counts, scored


def _rule_curve(
    taggers: Mapping[str, Tagger], plain: Batch, extractor: FeatureExtractor, dev: Batch | None
) -> dict[str, Any]:
    """Return the figures after each rule of the TBED submodel, for `rules curve`."""
    tagger = next((tagger for tagger in taggers.values() if isinstance(tagger, TbedTagger)), None)
    if tagger is None:
        return {}
    seen = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    points = rule_curve(tagger, seen, dev)
    return {"rule_curve": [list(astuple(point)) for point in points]}
