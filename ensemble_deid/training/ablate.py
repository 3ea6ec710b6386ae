"""Ablation: what each submodel contributes to the ensemble (Zhao et al. 2020, table 6).

Leaving a submodel out drops its candidates and its columns of the final estimator's features, and refits the final
estimator on the stored training set; the other submodels stay as trained. The patterns alone are also features of
others (columns of the network, initial tags of TBED): these can be trained again without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.operating_points import ThresholdRule, choose_threshold
from ensemble_deid.evaluation.views import count_view, resampled_units
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.ensemble import Ensemble, as_seen
from ensemble_deid.model.loading import load_model, model_source
from ensemble_deid.model.manifest import fingerprint, private_files, read_manifest
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.parallel import Reporter, Step
from ensemble_deid.stacking.dataset import FILES as STACKING_FILES
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.search import with_settings
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.stacking.voting import METHODS, SCORED, combine
from ensemble_deid.submodels import SUBMODELS, row_of
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.given import Members
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


Rows = Literal["all", "zhao2020", "as-trained"]
AS_TRAINED, RETRAINED = "as trained", "retrained without patterns"
_FULL = "ensemble"
_REGEX, _TBED, _LEARNED = "regex", "tbed", ("crf", "neural")


@dataclass(frozen=True, slots=True)
class ThresholdTarget:
    """Choose each system's threshold on the notes it is scored on: the sensitivity or precision to reach."""

    rule: ThresholdRule
    wanted: float


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One system, its strict counts, and its recall of PHI tokens.

    `members` is `AS_TRAINED` or `RETRAINED`; `threshold` is None for systems without scores. `counts` is None when no
    threshold follows the rule. `difference` is that to the full ensemble, None for the ensemble itself.
    """

    name: str
    members: str
    threshold: float | None
    counts: Counts | None
    difference: PairedDifference | None
    token_recall: float | None = None


@dataclass(frozen=True, slots=True)
class _System:
    name: str
    members: str
    threshold: float | None
    spans: list[tuple[Span, ...]] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Stack:
    """Members with their proposals for the notes, and the training set for final estimators over them."""

    members: str
    dataset: StackingDataset | None = field(repr=False)
    proposals: dict[str, Proposals] = field(repr=False)
    batch: Batch = field(repr=False)
    config: Config
    rule: ThresholdTarget | None

    @classmethod
    def of(
        cls,
        ensemble: Ensemble,
        dataset: StackingDataset | None,
        documents: Sequence[Document],
        *,
        members: str,
        config: Config,
        rule: ThresholdTarget | None,
    ) -> "_Stack":
        batch = ensemble.feature_extractor.extract(documents)
        return cls(members, dataset, proposals=ensemble.propose(batch), batch=batch, config=config, rule=rule)

    def without(self, removed: Sequence[str], *, gone: Sequence[str] = (), name: str | None = None) -> _System:
        """Refit the final estimator without some of the submodels; `gone` are those that the stack never had."""
        if self.dataset is None:
            raise ValueError("without its training set no final estimator is fitted")
        dataset = self.dataset.without(removed, min_confidence=self.config.stack.min_confidence)
        stacker = Stacker.fit(dataset, config=self.config, progress=lambda message: None)
        return self.system(name or _without((*gone, *removed)), stacker)

    def system(self, name: str, stacker: Stacker) -> _System:
        """Predict with the threshold that the rule chooses, or cross-validation where there is no rule."""
        proposals = {member: self.proposals[member] for member in stacker.submodels}
        if self.rule is None:
            threshold = stacker.cv_threshold
            return _System(name, self.members, threshold, stacker.predict(proposals, self.batch, threshold=threshold))
        return self._above_chosen(name, stacker.predict(proposals, self.batch, threshold=0.0), self.rule)

    def vote(self, method: str, labels: tuple[str, ...]) -> _System:
        if self.rule is None or method not in SCORED:
            spans = combine(self.proposals, labels=labels, method=method)
            return _System(f"vote: {method}", AS_TRAINED, None, spans)
        everything = combine(self.proposals, labels=labels, method=method, threshold=0.0)
        return self._above_chosen(f"vote: {method}", everything, self.rule)

    def _above_chosen(self, name: str, everything: Sequence[tuple[Span, ...]], rule: ThresholdTarget) -> _System:
        chosen, documents = None, self.batch.documents
        if any(everything):
            system = [document.with_spans(spans) for document, spans in zip(documents, everything, strict=True)]
            chosen = choose_threshold(documents, system, rule=rule.rule, wanted=rule.wanted).threshold
        spans = None if chosen is None else [tuple(s for s in found if s.score >= chosen) for found in everything]
        return _System(name, self.members, chosen, spans)


def ablate(
    model: Path,
    documents: Sequence[Document],
    *,
    jobs: int,
    report: Reporter,
    threshold_rule: ThresholdTarget | None = None,
    retrain: TrainingNotes | None = None,
    rows: Rows = "all",
    members: Members = (),
) -> list[AblationRow]:
    """Score the ensemble, the ensemble without each submodel, each submodel alone, and simple votes.

    All final estimators have the C, gamma and class weights of the full one. Thresholds are chosen by cross-validation
    on the training notes, or with `threshold_rule` on `documents`; one that was frozen into the model plays no part.
    With `retrain`, the model's training notes, the patterns are also left out of the features. The `rows` zhao2020 are
    the systems of that paper's tables 4 to 6: the ensemble has the patterns within TBED only. With `as-trained` no
    final estimator is fitted, so that an exported model is scored, too. The spans of the model's `members` are needed.
    Raises ModelError when the notes are others, when the full ensemble cannot follow the rule, and when the model lacks
    private files that the rows need, or a submodel of the paper.
    """
    model_source(model, members=members)
    ensemble, _ = load_model(model, members=members)
    dataset = None
    if rows != "as-trained":
        private = private_files(model, *STACKING_FILES, purpose="an ablation (but for --rows as-trained)")
        dataset = StackingDataset.load(private)
    documents = [as_seen(ensemble.with_given(document)) for document in documents]
    notes = None if retrain is None else check_training_notes(model, retrain)
    config = _with_settings(ensemble.config, ensemble.stacker, jobs=jobs)
    # Now, since the other rows take long.
    changed = None if notes is None else without_patterns(config)
    names = tuple(ensemble.taggers)
    plan = _plan(names, rows, model)
    total = 1 + len(plan) + (notes is not None)
    report(Step(0, total, "the ensemble"))
    stack = _Stack.of(ensemble, dataset, documents, members=AS_TRAINED, config=config, rule=threshold_rule)
    systems = [] if rows == "zhao2020" else [stack.system(_FULL, ensemble.stacker)]
    if rows == "as-trained":
        for kept in ensemble.config.smaller_stacks:
            smaller = load_model(model, submodels=kept, members=members)[0].stacker
            systems.append(stack.system(_without([name for name in names if name not in kept]), smaller))
    for done, (name, removed) in enumerate(plan.items(), 1):
        report(Step(done, total, name))
        systems.append(stack.without(removed, name=name))
    if notes is not None and changed is not None:
        trained = train(
            notes.train,
            notes.dev,
            config=changed,
            report=lambda step: report(Step(total - 1, total, f"retraining without patterns: {step.message}")),
            # Whether dev notes of training patients are acceptable was decided when the model was trained.
            allow_overlap=True,
            members=members,
        )
        systems += _retrained(trained, documents, config, threshold_rule)
    for name, proposed in stack.proposals.items():
        systems.append(_System(f"{name} alone", AS_TRAINED, None, [drop_overlaps(spans) for spans in proposed.best]))
    systems += [stack.vote(method, ensemble.scheme.labels) for method in METHODS if rows != "zhao2020"]
    return _rows(documents, systems, model)


def _retrained(
    trained: Trained, documents: Sequence[Document], config: Config, rule: ThresholdTarget | None
) -> list[_System]:
    """Return the ensemble without the patterns, and without all submodels that have no marginals."""
    ensemble, dataset = trained.ensemble, trained.stacking_dataset
    stack = _Stack.of(ensemble, dataset, documents, members=RETRAINED, config=config, rule=rule)
    systems = [stack.system(_without(FEATURE_SOURCES), ensemble.stacker)]
    others = _rule_based(tuple(stack.proposals))
    if 0 < len(others) < len(stack.proposals):
        systems.append(stack.without(others, gone=FEATURE_SOURCES))
    return systems


def _plan(names: Sequence[str], rows: Rows, model: Path) -> dict[str, tuple[str, ...]]:
    """Return what is left out in turn: each submodel, and the rule-based ones together; something must remain."""
    if rows != "all":
        return _zhao2020_systems(names, model) if rows == "zhao2020" else {}
    rule_based = _rule_based(names)
    removals = [(name,) for name in names] + ([rule_based] if len(rule_based) > 1 else [])
    return {_without(removed): removed for removed in removals if len(removed) < len(names)}


def _zhao2020_systems(names: Sequence[str], model: Path) -> dict[str, tuple[str, ...]]:
    """Return the ensemble and the rows of table 6, with what each leaves out. Raises ModelError for other submodels."""
    missing = [name for name in (_REGEX, _TBED, *_LEARNED) if name not in names]
    if missing:
        raise ModelError(
            f"{model}: has no submodel {missing[0]!r}, which table 6 needs: train with --submodels "
            f"{','.join((_REGEX, _TBED, *_LEARNED))}"
        )
    members = (_TBED, *_LEARNED)
    kept = {
        f"{_FULL} of {', '.join(members)}": members,
        f"without {_TBED} (with {_REGEX})": (_REGEX, *_LEARNED),
        f"without {_TBED} (without {_REGEX})": _LEARNED,
        **{_without([gone]): tuple(name for name in members if name != gone) for gone in _LEARNED},
    }
    return {system: tuple(name for name in names if name not in members) for system, members in kept.items()}


def _without(names: Sequence[str]) -> str:
    return f"without {' and '.join(names)}"


def _rule_based(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not row_of(name).has_marginals)


def _with_settings(config: Config, stacker: Stacker, *, jobs: int) -> Config:
    """Return the configuration with these settings as the whole grid, and the threshold left to cross-validation.

    Single tokens are scored if the model scores them: one from before `stack.tokens` does not.
    """
    content = with_settings(config, stacker.svm.settings).model_dump(mode="json")
    return make_config(
        {**content, "jobs": jobs, "stack": {**content["stack"], "threshold": None, "tokens": stacker.tokens}}
    )


def _rows(documents: Sequence[Document], systems: Sequence[_System], model: Path) -> list[AblationRow]:
    rows: list[AblationRow] = []
    full = None
    for system in systems:
        if system.spans is None:
            if full is None:
                raise ModelError(f"{model}: no threshold of the ensemble reaches what the rule asks for on these notes")
            rows.append(AblationRow(system.name, system.members, None, None, None))
            continue
        answers = [document.with_spans(found) for document, found in zip(documents, system.spans, strict=True)]
        table = count_view(documents, answers, "strict")
        difference = None
        if full is not None:
            units = resampled_units(documents, table)
            difference = paired_difference(table.per_document, full.per_document, units)
        full = full or table
        recall = count_view(documents, answers, "token-binary").total.recall
        row = AblationRow(system.name, system.members, system.threshold, table.total, difference, token_recall=recall)
        rows.append(row)
    return rows
