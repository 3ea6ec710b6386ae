"""A rule list learned by itself: from patterns, from nothing, or from the spans of any other system (Brill 1995).

It takes the features, the rules and the number of rules that `train` would give a model of TBED alone, without the
folds and the final estimator. What it finds is measured on notes of other patients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ensemble_deid.config import Config
from ensemble_deid.errors import CorpusError
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.features.batch import Batch, training_view, with_lexicon
from ensemble_deid.features.columns import note_columns
from ensemble_deid.features.table import Column
from ensemble_deid.model.ensemble import as_seen
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.model.pattern_choice import choose_patterns
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import as_read
from ensemble_deid.note.tags import TagScheme, spans_to_tags
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.tbed.rulelist import INITIAL_KEY, RuleList
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.training.rules import CurvePoint, rule_curve
from ensemble_deid.training.training_notes import COLD, checked_notes


@dataclass(frozen=True, slots=True)
class OtherSystem:
    """A system whose spans the rules correct: `annotate` returns the notes with its spans, in the same order."""

    name: str
    annotate: Callable[[Sequence[Document]], Sequence[Document]]


@dataclass(frozen=True, slots=True)
class LearnedRules:
    """A rule list, its curve, and the dev notes as annotated, with the spans it starts from, and with its own."""

    rules: RuleList
    curve: tuple[CurvePoint, ...]
    gold: Sequence[Document] = field(repr=False)
    started: Sequence[Document] = field(repr=False)
    found: Sequence[Document] = field(repr=False)

    @property
    def strict(self) -> Counts:
        return count_view(self.gold, self.found, "strict").total

    @property
    def tokens(self) -> Counts:
        return count_view(self.gold, self.found, "token-binary").total


def learn_rule_list(
    documents: Sequence[Document],
    dev: Sequence[Document],
    *,
    config: Config,
    start: OtherSystem | None = None,
    notify: Callable[[str], None],
    allow_overlap: bool = False,
) -> LearnedRules:
    """Learn rules from annotated notes, and measure them on the notes `dev`, of other patients.

    They start as `config.tbed.initial` says, with `start` from the spans of that system, of which only labels of the
    notes count. Raises CorpusError where there is too little to learn from, where none of that system's labels is
    known, or, unless `allow_overlap`, where dev notes or patients are among those learned from.
    """
    if not any(document.spans for document in dev):
        raise CorpusError(f"the dev corpus ({len(dev)} notes) has no annotated PHI to measure the rules by")
    notes, _ = checked_notes(documents, dev, config=config, warm=COLD, allow_overlap=allow_overlap)
    learned_from, held_out = list(map(as_read, notes)), list(map(as_seen, dev))
    scheme = TagScheme.from_labels(span.label for document in learned_from for span in document.spans)
    choice = choose_patterns(config, scheme.labels, learned_from)
    plain, extractor = fit_feature_extractor(learned_from, scheme.labels, config=config, choice=choice)
    on_dev = extractor.extract(held_out)
    if start is None:
        notify(choice.notice)
    else:
        plain, on_dev = (
            _starting_from(batch, start, given, scheme) for batch, given in ((plain, notes), (on_dev, dev))
        )
    seen = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    tagger = TbedTagger.fit(
        seen, None, FitOptions(scheme, config.tbed, seed=config.seed, device=config.device, progress=notify)
    )
    rules = tagger.rules
    if start is not None:
        rules = replace(rules, header={**rules.header, INITIAL_KEY: f"spans of {start.name}"})
    started, found = (
        [document.with_spans(spans) for document, spans in zip(held_out, answers, strict=True)]
        for answers in (on_dev.initial, tagger.propose(on_dev, n_best=1).best)
    )
    curve = tuple(rule_curve(tagger, seen, on_dev))
    return LearnedRules(rules, curve, held_out, started=started, found=found)


def _starting_from(batch: Batch, system: OtherSystem, documents: Sequence[Document], scheme: TagScheme) -> Batch:
    """Return the batch with a system's spans in the place of the patterns' matches."""
    found = [as_read(document).spans for document in system.annotate(documents)]
    known = tuple(tuple(span for span in spans if span.label in scheme.labels) for spans in found)
    if any(found) and not any(known):
        raise CorpusError(f"{system.name}: none of its labels is among those of the notes: {', '.join(scheme.labels)}")
    initial = Column(spans_to_tags(known, batch.tokens, scheme).codes, scheme.tags)
    columns = batch.table
    others = note_columns(columns["lower"], columns["case"], initial, batch.tokens)
    return replace(batch, table=columns.with_columns({"initial": initial, **others}), initial=known)
