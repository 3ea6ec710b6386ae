"""Letting a trained model learn from reviewed notes of a site: its submodels stay, its final estimator is corrected.

With it come rules for the errors that the rule list leaves in them, enforced patterns of sentences that repeat with PHI
at the same places, and an inclusion list of those that repeat without, each where it helps on patients held out.

What is gained is measured on patients that were not learned from: the notes are divided by patient, and each part is
scored by a model that learned from the others alone. The threshold is chosen on these scores.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ensemble_deid.config_sections import TbedConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, just_below, next_lower, trace_curve
from ensemble_deid.evaluation.operating_points import (
    CHOSEN,
    ChosenThreshold,
    KnownNotes,
    find_point,
    threshold_to_record,
)
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.pattern_text import patterns_text
from ensemble_deid.features.patterns import PatternSet, find_all
from ensemble_deid.model.additions import INCLUSION, PATTERNS, InclusionList, changeable_files, parse_inclusion_list
from ensemble_deid.model.directory import beside, variant_name, write_manifest
from ensemble_deid.model.ensemble import Ensemble, view_of
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, copy_private_files, file_hashes, read_manifest
from ensemble_deid.model.measured import CHOSEN_WITH, SHIPPED
from ensemble_deid.model.portions import PORTION
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps, join_overlaps
from ensemble_deid.note.reading import Reading, read
from ensemble_deid.note.span import ENFORCED
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator
from ensemble_deid.stacking.site_stage import ScoredCandidates, SiteStage
from ensemble_deid.stacking.stacker import SITE, Stacker
from ensemble_deid.taggers.base import FitOptions, Proposals
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.training.harvest import HarvestLimits, frequent_sentences, harvest_patterns
from ensemble_deid.training.model_additions import addition
from ensemble_deid.training.rule_approvals import FILE as APPROVALS
from ensemble_deid.training.rule_replacement import new_rules_of
from ensemble_deid.training.thresholds import OF_TRAINING

_VIEW = "token-binary"
_LEAST_PATIENTS = 3
"""Patients who must have a pattern or a sentence: it holds words of their notes."""
_TBED = "tbed"
LEARNED = "learned"
"""The list of the manifest's choices that records what a model learned from reviewed notes."""


class Lists(NamedTuple):
    """Whether there are new rules, harvested patterns, and sentences."""

    rules: bool = False
    patterns: bool = False
    sentences: bool = False


_ANY = tuple(sorted((Lists(*which) for which in product((False, True), repeat=3)), key=sum))


@dataclass(frozen=True, slots=True)
class Learned:
    """From how many notes a model learned, what, and both models on the same notes, each patient held out.

    The points are those with the highest recall at the wanted false positives; None where a model does not reach them.
    """

    notes: int
    patients: int
    before: OperatingPoint | None
    after: OperatingPoint | None
    rules: int = 0
    patterns: int = 0
    sentences: int = 0


@dataclass(frozen=True, slots=True)
class SiteAdditions:
    """What reviewed notes repeat: patterns, all enforced, of sentences with PHI, and sentences without."""

    patterns: PatternSet | None
    sentences: InclusionList | None

    @classmethod
    def harvested(cls, documents: Sequence[Document], *, min_patients: int) -> "SiteAdditions":
        """Harvest what at least three patients, or as many as are asked for, have."""
        least = max(_LEAST_PATIENTS, min_patients)
        limits = HarvestLimits(patients=least, occurrences=least)
        found = harvest_patterns(documents, limits).patterns if len({d.patient for d in documents}) > 1 else ()
        patterns = tuple(replace(pattern, enforce=True) for pattern in found)
        frequent = frequent_sentences(documents, min_patients=least)
        text = frequent.text(name="reviewed notes", least=least) if frequent.patients else ""
        return cls(PatternSet("site", patterns, "") if patterns else None, parse_inclusion_list(text) if text else None)

    def only(self, which: Lists) -> "SiteAdditions":
        return SiteAdditions(self.patterns if which.patterns else None, self.sentences if which.sentences else None)

    def applied(self, found: Document) -> Document:
        """Return a note as found with the patterns' matches, and without spans in the sentences."""
        spans = found.spans
        if self.patterns is not None:
            reading = read(found.text)
            matches = find_all(self.patterns, reading.document(found.with_spans(())))
            enforced = reading.original_spans(replace(span, source=ENFORCED + span.source) for span in matches)
            spans = (*spans, *enforced)
        if self.sentences is not None:
            spans = self.sentences.apply(found.with_spans(spans))[0].spans
        return found.with_spans(join_overlaps(spans, prefer=lambda span: (span.is_enforced, span.score)))


@dataclass(frozen=True, slots=True, eq=False)
class ReviewedNote:
    """A reviewed note as the model reads it, with what the submodels propose, which no learning changes."""

    document: Document
    reading: Reading
    batch: Batch
    proposals: dict[str, Proposals]

    @property
    def view(self) -> Document:
        return self.batch.documents[0]

    def with_rules(self, tagger: TbedTagger) -> "ReviewedNote":
        return replace(self, proposals={**self.proposals, _TBED: tagger.propose(self.batch, n_best=1)})

    def scored(self, stacker: Stacker) -> ScoredCandidates:
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
        view = view_of(reading, document)
        if len(view.text) > PORTION // 3:
            raise ModelError(f"{document.id}: is too long to learn from: leave it out")
        batch = ensemble.feature_extractor.extract([view])
        if len(batch.tokens):
            notes.append(ReviewedNote(document, reading, batch, ensemble.propose(batch)))
        progress(done)
    return notes


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """A part of the notes to measure on, and what was learned from the others: `ruled` has all notes by their rules."""

    left_out: tuple[bool, ...]
    ruled: Sequence[ReviewedNote]
    additions: SiteAdditions


@dataclass(frozen=True, slots=True, eq=False)
class FittedToSite:
    """What is learned: the estimators by variant, the lists, and the threshold of the whole stack."""

    stackers: Mapping[str, Stacker]
    tagger: TbedTagger | None
    new_rules: int
    additions: SiteAdditions
    chosen: ChosenThreshold


@dataclass(frozen=True, slots=True, eq=False)
class SiteLearner:
    """A model and the reviewed notes that it learns from.

    What is kept of words and forms, `min_patients` have. What is chosen is chosen at `wanted` false positives in 1000
    tokens, on `folds` parts of the patients held out.
    """

    model: Path
    ensemble: Ensemble
    notes: Sequence[ReviewedNote]
    wanted: float
    folds: int = 5
    min_patients: int = 1

    def fit(self, allowed: Lists) -> FittedToSite:
        """Learn from the notes, and choose on patients held out which of the allowed lists are learned, too."""
        gold, submodels = [note.document for note in self.notes], self.ensemble.config.submodels
        parts = self._by_patient(rules=allowed.rules)
        whole = self._held_out(Stacker.load(self.model), parts)
        which = _most_helpful(whole, gold, wanted=self.wanted, allowed=allowed)
        tagger, new = self._rules(self.notes) if which.rules else (None, 0)
        stackers: dict[str, Stacker] = {}
        thresholds: dict[str, ChosenThreshold] = {}
        for names in (submodels, *self.ensemble.config.smaller_stacks):
            variant = variant_name(submodels, names)
            stacker = Stacker.load(self.model, variant=variant)
            answers = self._held_out(stacker, parts, [which]) if variant else whole
            chosen = _threshold(trace_curve(gold, answers[which], view=_VIEW), gold, wanted=self.wanted)
            learned_from = [(note.view, note.scored(stacker)) for note in _ruled(self.notes, tagger)]
            stage = SiteStage.fit(learned_from, min_patients=self.min_patients)
            stackers[variant] = replace(stacker, site=stage, threshold=chosen.threshold or 0.0)
            thresholds[variant] = chosen
        additions = SiteAdditions.harvested(gold, min_patients=self.min_patients).only(which)
        return FittedToSite(stackers, tagger, new, additions, thresholds[""])

    def _rules(self, notes: Sequence[ReviewedNote]) -> tuple[TbedTagger | None, int]:
        """Return the model's rules and, after them, new ones for their errors in the notes; and how many are new.

        None is for no new rules.
        """
        ensemble = self.ensemble
        tagger, config = ensemble.taggers.get(_TBED), ensemble.config.of_submodel(_TBED)
        if not (isinstance(tagger, TbedTagger) and isinstance(config, TbedConfig)):
            return None, 0
        config = config.model_copy(update={"min_patients": max(config.min_patients, self.min_patients)})
        batch = ensemble.feature_extractor.extract([note.view for note in notes])
        options = FitOptions(ensemble.scheme, config, ensemble.config.seed, start=tagger)
        fitted = TbedTagger.fit(batch, None, options)
        new = len(fitted.rules) - len(tagger.rules)
        return (tagger.with_rules(fitted.rules), new) if new else (None, 0)

    def _by_patient(self, *, rules: bool) -> list[Fold]:
        """Divide the notes by patient, and learn rules (if wanted) and additions from all but each part."""
        patients = sorted({note.document.patient for note in self.notes})
        order = generator(self.ensemble.config.seed, "learn folds").permutation(len(patients)).tolist()
        fold = {patients[row]: place % self.folds for place, row in enumerate(order)}
        parts = []
        for number in range(min(self.folds, len(patients))):
            left_out = tuple(fold[note.document.patient] == number for note in self.notes)
            others = [note for note, out in zip(self.notes, left_out, strict=True) if not out]
            tagger, _ = self._rules(others) if rules else (None, 0)
            additions = SiteAdditions.harvested([note.document for note in others], min_patients=self.min_patients)
            parts.append(Fold(left_out, _ruled(self.notes, tagger), additions))
        return parts

    def _held_out(
        self, stacker: Stacker, parts: Sequence[Fold], choices: Sequence[Lists] = _ANY
    ) -> dict[Lists, list[Document]]:
        """Return each note as found by an estimator that learned from the notes of other patients alone.

        Returns one answer for each choice of what else is learned.
        """
        found: dict[Lists, dict[str, Document]] = {which: {} for which in choices}
        plain = [note.scored(stacker) for note in self.notes]
        for part in parts:
            for rules in sorted({which.rules for which in choices}):
                as_read = part.ruled if rules else self.notes
                scored = plain if as_read is self.notes else [note.scored(stacker) for note in as_read]
                rows = list(zip(as_read, scored, part.left_out, strict=True))
                others = [(note.view, one) for note, one, left_out in rows if not left_out]
                site = replace(stacker, site=SiteStage.fit(others, min_patients=self.min_patients))
                for note, one, left_out in rows:
                    answer = note.found(self.ensemble, site, one) if left_out else None
                    for which in choices:
                        if answer is not None and which.rules == rules:
                            found[which][note.document.id] = part.additions.only(which).applied(answer)
        return {which: [answers[note.document.id] for note in self.notes] for which, answers in found.items()}


def _ruled(notes: Sequence[ReviewedNote], tagger: TbedTagger | None) -> Sequence[ReviewedNote]:
    return notes if tagger is None else [note.with_rules(tagger) for note in notes]


def _most_helpful(
    answers: Mapping[Lists, Sequence[Document]], gold: Sequence[Document], *, wanted: float, allowed: Lists
) -> Lists:
    """Return which lists leave the fewest PHI tokens at the wanted false positives; of equals, the fewest lists."""

    def missed(lists: Lists) -> float:
        point = find_point(trace_curve(gold, answers[lists], view=_VIEW), rule="false-positives", wanted=wanted)
        return float("inf") if point is None else point.counts.fn

    possible = [lists for lists in _ANY if all(may or not has for has, may in zip(lists, allowed, strict=True))]
    return min(possible, key=missed)


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

    Raises ConfigError for fewer than two folds; ModelError for a model that has learned already (it would be measured
    on notes that it knows), for notes of fewer than two patients, and where no threshold reaches what is wanted;
    CorpusError for notes that it was trained on.
    """
    manifest = read_manifest(model)
    if SITE in manifest.files:
        raise ModelError(f"{model}: has learned from reviewed notes already: name the model that it came from")
    seen = SeenNotes.from_record(manifest.seen_notes)
    seen.refuse(documents, used_for="to learn from")
    if out.exists():
        raise ModelError(f"{out}: exists; what has learned is a new model")
    if folds < 2:
        raise ConfigError(f"--folds: at least 2, not {folds}")
    if len({document.patient for document in documents}) < 2:
        raise ModelError("there is nothing to learn from and measure on: finish notes of at least two patients")
    ensemble, manifest = load_model(model)
    notes = prepare(ensemble, documents, progress)
    # Lists that people put into the model stay as they are.
    reviewed = bool(manifest.rules_replaced) or APPROVALS in manifest.files
    allowed = Lists(not reviewed, not {PATTERNS} & set(manifest.files), not {INCLUSION} & set(manifest.files))
    with one_thread():
        after = SiteLearner(model, ensemble, notes, wanted, folds=folds, min_patients=min_patients).fit(allowed)
        stacker = Stacker.load(model)
        found = [note.found(ensemble, stacker, note.scored(stacker)) for note in notes]
    gold = [note.document for note in notes]
    before = find_point(trace_curve(gold, found, view=_VIEW), rule="false-positives", wanted=wanted)
    additions, chosen = after.additions, after.chosen
    result = Learned(
        len(notes),
        len({note.patient for note in gold}),
        before,
        chosen.chosen_at,
        rules=after.new_rules,
        patterns=0 if additions.patterns is None else len(additions.patterns.patterns),
        sentences=0 if additions.sentences is None else len(additions.sentences.sentences),
    )
    record = {"notes": result.notes, "patients": result.patients, "remark": remark}
    record |= {"rules": result.rules, "patterns": result.patterns, "sentences": result.sentences}
    record |= {"before": _rates(result.before), "after": _rates(result.after)}
    known = seen.and_also(documents, seed=ensemble.config.seed).to_record()
    choices = {**manifest.choices, LEARNED: [record]}
    _write(model, out, replace(manifest, seen_notes=known, choices=choices), after)
    return result


def _threshold(curve: Curve, gold: Sequence[Document], *, wanted: float) -> ChosenThreshold:
    point = find_point(curve, rule="false-positives", wanted=wanted)
    if point is None:
        raise ModelError(f"no threshold reaches {wanted:g} false positives in 1000 tokens on the notes held out")
    threshold = just_below(point.threshold, lower=next_lower(curve, point.threshold))
    chosen_at = replace(point, threshold=threshold)
    return ChosenThreshold("false-positives", wanted, _VIEW, threshold, chosen_at=chosen_at, notes=KnownNotes.of(gold))


def _rates(point: OperatingPoint | None) -> dict[str, float] | None:
    return None if point is None else {**asdict(point.counts), "tokens": point.tokens}


def _write(model: Path, out: Path, manifest: Manifest, after: FittedToSite) -> None:
    with beside(out) as scratch:
        for name in read_manifest(model).files:
            shutil.copyfile(model / name, scratch / name)
        copy_private_files(model, scratch)
        for variant, stacker in after.stackers.items():
            stacker.save(scratch, variant=variant)
        remark = {"remark": "learned from reviewed notes"}
        if after.tagger is not None:
            manifest = new_rules_of(after.tagger, **remark)(scratch, manifest)
        if after.additions.patterns is not None:
            patterns = after.additions.patterns.patterns
            text = patterns_text(patterns, name="added", description="Harvested from reviewed notes.")
            manifest = addition(PATTERNS, text, {"added": str(len(patterns)), **remark})(scratch, manifest)
        if after.additions.sentences is not None:
            n = str(len(after.additions.sentences.sentences))
            text = after.additions.sentences.source
            manifest = addition(INCLUSION, text, {"sentences": n, **remark})(scratch, manifest)
        changed = changeable_files(replace(manifest, files=file_hashes(scratch)))
        # The threshold of before is one of other scores.
        own = {CHOSEN: threshold_to_record(after.chosen), CHOSEN_WITH: changed, OF_TRAINING: after.chosen.threshold}
        figures = {name: figure for name, figure in manifest.figures.items() if name != SHIPPED} | own
        write_manifest(scratch, replace(manifest, figures=figures))
