"""Training the full stack: the submodels on each fold and on all notes, then the final estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ensemble_deid.config import Config
from ensemble_deid.errors import CorpusError
from ensemble_deid.experiments.progress import Reporter, Step
from ensemble_deid.experiments.rule_curve import rule_curve
from ensemble_deid.experiments.tasks import WHOLE, plan, run_all
from ensemble_deid.features.batch import Batch, training_view, with_lexicon
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.feature_extractor import FeatureExtractor, fit_feature_extractor
from ensemble_deid.pipeline.manifest import Manifest, fingerprint, installed_packages
from ensemble_deid.seeding import generator
from ensemble_deid.stacking.dataset import StackingDataset, build_stacking_dataset
from ensemble_deid.stacking.search import group_folds
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.base import Proposals, TrainableTagger
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.text.counts import Counts, strict_counts
from ensemble_deid.text.document import Document, grouped_by_site
from ensemble_deid.text.span import drop_overlaps
from ensemble_deid.text.tags import TagScheme, tag_loss

_INNER_DEV_SHARE = 10


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained ensemble, the stacker's training set, the manifest, and the counts on dev (empty without dev notes)."""

    ensemble: Ensemble
    stacking_dataset: StackingDataset = field(repr=False)
    manifest: Manifest
    dev_counts: dict[str, Counts]


def train(
    documents: Sequence[Document], dev_documents: Sequence[Document], *, config: Config, report: Reporter
) -> Trained:
    """Train the stack on annotated notes and score it on dev notes, which are used only to choose the network's epoch.

    Without dev notes, a tenth of the patients are held out of the network's training to choose its epoch. Raises
    CorpusError when there is too little to learn from.
    """
    documents = in_fold_groups(training_notes(documents), config=config)
    labels = _check(documents)
    scheme = TagScheme.from_labels(labels)
    plain, extractor = fit_feature_extractor(documents, scheme.labels, config=config)
    dev = extractor.extract(dev_documents) if dev_documents else None

    groups = [document.group for document in documents]
    n_folds = min(config.folds, len(set(groups)))
    folds = group_folds(groups, n_folds, generator(config.seed, "folds"))
    names: tuple[str, ...] = config.submodels
    inner_dev = [] if dev_documents else _inner_dev(groups, config.seed)
    tasks = plan(names, folds.tolist(), n_folds, inner_dev=inner_dev)
    total = sum(task.cost for task in tasks) * 1.2
    done = 0.0
    taggers: dict[str, TrainableTagger] = {}
    by_fold: dict[tuple[str, int], Proposals] = {}
    for finished in run_all(tasks, plain, dev, scheme=scheme, config=config):
        task = finished.task
        if finished.tagger is not None:
            taggers[task.submodel] = finished.tagger
        if finished.proposals is not None:
            by_fold[(task.submodel, task.fold)] = finished.proposals
        done += task.cost
        part = "all notes" if task.fold == WHOLE else f"fold {task.fold + 1} of {n_folds}"
        last = finished.messages[-1] if finished.messages else "done"
        report(Step(done, total, f"{task.submodel}, {part}: {last}"))

    proposals = {name: _merge_folds(by_fold, name, folds) for name in names}
    stacking_dataset = build_stacking_dataset(
        proposals, plain, labels=scheme.labels, min_confidence=config.stack.min_confidence
    )
    stacker = Stacker.fit(stacking_dataset, config=config, progress=lambda message: report(Step(done, total, message)))
    ordered = {name: taggers[name] for name in names}
    ensemble = Ensemble(config, scheme, extractor, ordered, stacker)
    counts = score(ensemble, dev, dev_documents) if dev is not None else {}
    loss = tag_loss(documents, plain.tokens)
    manifest = Manifest(
        labels=scheme.labels,
        # The number of processes does not affect a model: with any number the files are the same.
        config=config.model_dump(mode="json", exclude={"jobs"}),
        fingerprint=fingerprint(documents),
        dev_fingerprint=fingerprint(dev_documents) if dev_documents else "",
        training={
            "notes": len(documents),
            "patients": len({d.patient_id or d.id for d in documents}),
            "sites": len({d.site for d in documents} - {None}),
            "groups": len(set(groups)),
            "spans": loss.spans,
            "spans_cut": loss.cut,
            "spans_lost": loss.lost,
        },
        figures={**_figures(counts, stacker), **_rule_curve(ordered, plain, extractor, dev)},
        packages=installed_packages(),
    )
    report(Step(total, total, "trained"))
    return Trained(ensemble, stacking_dataset, manifest, counts)


def training_notes(documents: Sequence[Document]) -> list[Document]:
    """Return the notes that have text: a blank note teaches nothing, and could leave a fold with nothing to learn."""
    return [document for document in documents if document.text.strip()]


def in_fold_groups(documents: Sequence[Document], *, config: Config) -> list[Document]:
    """Return the notes with the groups that folds keep together, as `group_by` says.

    What is learned from such folds (the final estimator, how far the lexicon can be trusted) holds for new groups: with
    sites, for sites that training has not seen. `auto` takes sites where there are at least as many as folds.
    """
    sites = {document.site for document in documents} - {None}
    by_site = config.group_by == "site" or (config.group_by == "auto" and len(sites) >= config.folds)
    return grouped_by_site(documents) if by_site else list(documents)


def _check(documents: Sequence[Document]) -> set[str]:
    """Return the labels. Raises CorpusError when stacking is impossible."""
    labels = {span.label for document in documents for span in document.spans}
    if not labels:
        raise CorpusError(f"the training corpus ({len(documents)} notes) has no annotated PHI to learn from")
    if len({document.group for document in documents}) < 2:
        raise CorpusError(
            "training needs notes of at least two patients (or sites): folds keep the notes of each together"
        )
    return labels


def _inner_dev(groups: Sequence[str], seed: int) -> list[int]:
    """Return the notes of a random tenth of the patients; at least one patient."""
    names = sorted(set(groups))
    size = max(1, len(names) // _INNER_DEV_SHARE)
    drawn = {names[k] for k in generator(seed, "inner dev").permutation(len(names))[:size].tolist()}
    return [d for d, group in enumerate(groups) if group in drawn]


def _merge_folds(by_fold: dict[tuple[str, int], Proposals], name: str, folds: np.ndarray[Any, Any]) -> Proposals:
    """Merge the proposals of the folds, in the order of the notes."""
    best: list[Any] = [()] * len(folds)
    candidates: list[Any] = [()] * len(folds)
    for fold in np.unique(folds).tolist():
        proposals = by_fold[(name, fold)]
        for place, d in enumerate(np.flatnonzero(folds == fold).tolist()):
            best[d] = proposals.best[place]
            candidates[d] = proposals.candidates[place]
    return Proposals(tuple(best), tuple(candidates))


def score(ensemble: Ensemble, batch: Batch, documents: Sequence[Document]) -> dict[str, Counts]:
    """Return strict entity counts of every submodel and of the ensemble."""
    proposals = ensemble.propose(batch)
    answers = {name: [drop_overlaps(spans) for spans in p.best] for name, p in proposals.items()}
    answers["ensemble"] = ensemble.stacker.predict(proposals, batch)
    counts = {}
    for name, spans in answers.items():
        counts[name] = strict_counts((document.spans for document in documents), spans)
    return counts


def _figures(counts: dict[str, Counts], stacker: Stacker) -> dict[str, Any]:
    figures: dict[str, Any] = {"cross_validated_f1": stacker.cv_f1}
    if counts:
        figures["dev_strict_f1"] = {name: count.f1 for name, count in counts.items()}
    return figures


def _rule_curve(
    taggers: dict[str, TrainableTagger], plain: Batch, extractor: FeatureExtractor, dev: Batch | None
) -> dict[str, Any]:
    """Return F1 on train and dev after each rule of the TBED submodel, for `rules curve`."""
    tagger = next((tagger for tagger in taggers.values() if isinstance(tagger, TbedTagger)), None)
    if tagger is None:
        return {}
    seen = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    points = rule_curve(tagger, seen, dev)
    return {"rule_curve": [[point.rules, point.train_f1, point.dev_f1] for point in points]}
