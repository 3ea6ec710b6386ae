"""The TBED submodel: the regex tagger's output corrected by a learned list of rules (Zhao et al. 2020)."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.config import TbedConfig
from ensemble_deid.errors import ConfigError, ModelError, RuleError
from ensemble_deid.features.batch import Batch, select_documents
from ensemble_deid.features.table import Column
from ensemble_deid.features.vocabulary import CALENDAR, WORDS
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme, entity_rows, tags_to_spans
from ensemble_deid.resources import rules_directory
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.taggers.base import FitOptions, Proposals
from ensemble_deid.taggers.confidence import SourceConfidence
from ensemble_deid.taggers.tbed.applier import RuleApplier
from ensemble_deid.taggers.tbed.curve import best_number_of_rules, counts_by_rule, tag_codes
from ensemble_deid.taggers.tbed.initial import REGEX, InitialTagger, fit_initial
from ensemble_deid.taggers.tbed.learner import learn_rules
from ensemble_deid.taggers.tbed.rule_text import write_rule
from ensemble_deid.taggers.tbed.rulelist import INITIAL_KEY, RuleList
from ensemble_deid.taggers.tbed.templates import Rule, TemplateSet, load_templates, with_stanza

_UNUSED_HEAD = "# Not used: on held-out groups the list is best after"
RULES, CONFIDENCE, INITIAL = "tbed.rules", "tbed.json", "tbed_initial.json"


@dataclass(frozen=True, slots=True)
class TbedTagger:
    """The initial tagger, the rule list, and the precision of each rule's spans on the training notes."""

    scheme: TagScheme
    rules: RuleList
    confidence: SourceConfidence
    initial: InitialTagger = REGEX
    _applier: RuleApplier = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_applier", RuleApplier(self.rules.rules))

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, options: FitOptions) -> Self:
        """Learn rules from the errors of the initial tags, with `start` from those of its list. `dev` is not used.

        With `cv_folds` the list is cut after as many rules as are best on held-out groups; the rest of it stays in the
        file as remarks. The rules of `start` come first, those left out whose tags are not in the scheme; one that
        these notes never show at work keeps the confidence that it had.
        """
        scheme, config, start = options.scheme, options.config, options.start
        templates = with_stanza(find_templates(config.templates), train.table.names)
        patients = {document.patient for document in train.documents}
        begin = _Beginning.of(start, scheme, config)
        initial, before = begin.fit(train)
        rules = _learn(train, begin.after(train, before), scheme, templates, config)
        used = _cross_validated_number(train, begin, templates, config, options.seed) if config.cv_folds else len(rules)
        used = min(used, len(rules))
        kept_rules = f"{len(begin.rules)} rules kept, " if start is not None else ""
        options.progress(f"TBED: {kept_rules}{len(rules)} rules learned, {used} used")
        header = {
            "corpus": f"{len(train.documents)} notes of {len(patients)} patients",
            "templates": templates.name,
            INITIAL_KEY: config.initial,
        }
        if begin.rules:
            header["continued"] = f"{len(begin.rules)} rules of another corpus come first"
        whole = [*begin.rules, *rules]
        used += len(begin.rules)
        kept = RuleList(tuple(whole[:used]), header, _unused(whole, used))
        measured = cls.measured(kept, train, scheme=scheme, initial=initial, start=before)
        return replace(measured, confidence=measured.confidence.filled(begin.confidence))

    @classmethod
    def measured(
        cls,
        rules: RuleList,
        train: Batch,
        *,
        scheme: TagScheme,
        initial: InitialTagger = REGEX,
        start: Column | None = None,
    ) -> Self:
        """Make the tagger of a rule list, its confidences measured on annotated notes that begin as `start` says."""
        spans = _tagged(RuleApplier(rules.rules), train, initial.tag(train) if start is None else start, scheme)
        return cls(scheme, rules, SourceConfidence.measured(spans, (d.spans for d in train.documents)), initial)

    def with_rules(self, rules: RuleList) -> Self:
        """Return the tagger with another list; it starts from the same initial tags.

        A rule that the old list has, too, keeps the confidence that training measured; a new one has that of its own
        counts. Raises RuleError for a list made for another initial tagger, or a tag that the model does not know.
        """
        kind = rules.header[INITIAL_KEY]
        if kind != self.initial.kind:
            raise RuleError(f"the list starts from the initial tagger {kind!r}, the model from {self.initial.kind!r}")
        for number, rule in enumerate(rules, 1):
            for tag in (rule.from_tag, rule.to_tag):
                if tag not in self.scheme.tags:
                    known = ", ".join(self.scheme.labels)
                    raise RuleError(f"rule {number} has the tag {tag!r}; the model knows O, and B- and I- of {known}")
        # Lists may repeat a rule: the first of equal rules takes over from the first, the second from the second.
        numbers: dict[object, list[int]] = defaultdict(list)
        for number, rule in enumerate(self.rules, 1):
            numbers[rule.identity].append(number)
        old = self.confidence.counts
        counts = {source: old[source] for source in old if not source.startswith("rule ")}
        for number, rule in enumerate(rules, 1):
            if not numbers[rule.identity]:
                counts[f"rule {number}"] = (rule.fixed, rule.fixed + rule.broken)
            elif (source := f"rule {numbers[rule.identity].pop(0)}") in old:
                counts[f"rule {number}"] = old[source]
        confidence = SourceConfidence({source: counts[source] for source in sorted(counts)})
        return replace(self, rules=rules, confidence=confidence)

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the spans after all rules; a rule list has no second best."""
        found = _tagged(self._applier, batch, self.initial.tag(batch), self.scheme)
        best = tuple(self.confidence.scored(spans) for spans in found)
        return Proposals(best, best)

    def save(self, directory: Path) -> None:
        """Write the rules as text and their figures as JSON."""
        self.rules.save(directory / RULES)
        (directory / CONFIDENCE).write_text(self.confidence.to_json(), encoding="utf-8")
        (directory / INITIAL).write_text(self.initial.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: TbedConfig, device: str) -> Self:
        """Read the rules. Raises ModelError, for a rule list with file, line and column."""
        try:
            rules = RuleList.load(directory / RULES)
        except RuleError as error:
            raise ModelError(str(error)) from None
        tags = frozenset(scheme.tags)
        for k, rule in enumerate(rules.rules, 1):
            if not {rule.from_tag, rule.to_tag} <= tags:
                raise ModelError(f"{directory / RULES}: rule {k} has a tag that the model does not know")
        confidence = SourceConfidence.from_json((directory / CONFIDENCE).read_bytes())
        return cls(scheme, rules, confidence, InitialTagger.from_json((directory / INITIAL).read_bytes()))


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What learning begins with: the initial tags, and the rules of another list that are applied to them first."""

    scheme: TagScheme
    kind: str
    initial: InitialTagger | None = None
    rules: tuple[Rule, ...] = ()
    confidence: SourceConfidence = field(default_factory=lambda: SourceConfidence({}))

    @classmethod
    def of(cls, start: TbedTagger | None, scheme: TagScheme, config: TbedConfig) -> "_Beginning":
        """Begin with the rules of `start` whose tags are in the scheme. Raises ConfigError for other initial tags."""
        if start is None:
            return cls(scheme, config.initial)
        if start.initial.kind != config.initial:
            raise ConfigError(f"tbed.initial: the rules to start from begin with the initial tags {start.initial.kind}")
        numbered = enumerate(start.rules, 1)
        known = [(number, rule) for number, rule in numbered if {rule.from_tag, rule.to_tag} <= set(scheme.tags)]
        words = {word: tag for word, tag in start.initial.words.items() if tag in scheme.tags}
        sources = {f"rule {number}": f"rule {new}" for new, (number, _) in enumerate(known, 1)}
        sources |= {f"initial {label}": f"initial {label}" for label in scheme.labels}
        confidence = start.confidence.renamed(sources)
        return cls(
            scheme, config.initial, InitialTagger(config.initial, words), tuple(rule for _, rule in known), confidence
        )

    def fit(self, train: Batch) -> tuple[InitialTagger, Column]:
        """Return the initial tagger and the initial tags of annotated notes; that of another list stays as it is."""
        if self.initial is None:
            return fit_initial(self.kind, train, self.scheme)
        return self.initial, self.initial.tag(train)

    def after(self, batch: Batch, initial: Column) -> Column:
        """Return the tags after the rules that come first."""
        if not self.rules:
            return initial
        return Column(final_tags(self.rules, batch, initial, self.scheme), self.scheme.tags)


def _learn(train: Batch, start: Column, scheme: TagScheme, templates: TemplateSet, config: TbedConfig) -> list[Rule]:
    owners = [document.group for document in train.documents]
    if len(set(owners)) < config.min_patients:
        # Groups of several patients (sites), too few of them to ask for so many: patients then.
        owners = [document.patient for document in train.documents]
    groups = sorted(set(owners))
    number = {group: k for k, group in enumerate(groups)}
    group_of_document = np.array([number[owner] for owner in owners] or [0])
    return learn_rules(
        train.table.columns,
        start,
        Column(train.gold(scheme), scheme.tags),
        train.tokens.sentence_starts,
        templates.templates,
        max_rules=config.max_rules,
        min_score=config.min_score,
        min_accuracy=config.min_accuracy,
        min_patients=max(1, min(config.min_patients, len(groups))),
        patients=group_of_document[train.tokens.document],
        unsaid={} if config.names_phi else words_of_phi(train, scheme),
    )


def words_of_phi(train: Batch, scheme: TagScheme) -> dict[str, frozenset[str]]:
    """Return, by column, the words of annotated notes that are PHI at least every second time: names, places, numbers.

    Months and weekdays are not among them.
    """
    inside = train.gold(scheme) != scheme.tags.index("O")
    found = {}
    for name in WORDS:
        column = train.table[name]
        total = np.bincount(column.codes, minlength=len(column.values))
        phi = np.bincount(column.codes[inside], minlength=len(column.values))
        mostly = np.flatnonzero((phi > 0) & (2 * phi >= total)).tolist()
        found[name] = frozenset(column.values[k] for k in mostly) - CALENDAR
    return found


def _cross_validated_number(
    train: Batch, begin: _Beginning, templates: TemplateSet, config: TbedConfig, seed: int
) -> int:
    """Return how many rules to use: the number that is best on groups (patients or sites) that were held out."""
    groups = [document.group for document in train.documents]
    folds = group_folds(groups, min(config.cv_folds, len(set(groups))), generator(seed, "TBED folds"))
    counts = []
    for fold in np.unique(folds).tolist():
        inside = select_documents(train, np.flatnonzero(folds != fold).tolist())
        outside = select_documents(train, np.flatnonzero(folds == fold).tolist())
        if not inside.documents:
            continue
        initial, before = begin.fit(inside)
        rules = _learn(inside, begin.after(inside, before), begin.scheme, templates, config)
        tags = begin.after(outside, initial.tag(outside))
        counts.append(counts_by_rule(rules, outside, tags, begin.scheme))
    return best_number_of_rules(counts) if counts else config.max_rules


def _unused(rules: Sequence[Rule], used: int) -> dict[int, tuple[str, ...]]:
    """Return the remarks of a list of the first `used` rules, in which the others can be read."""
    if used == len(rules):
        return {0: ("",)}
    said = f"{_UNUSED_HEAD} {used} of {len(rules)} rules."
    tail = ("", said, *(f"# {write_rule(rule)}" for rule in rules[used:]))
    return {0: tail} if used == 0 else {0: ("",), used: tail}


def is_unused_head(line: str) -> bool:
    """Whether a remark of a rule list is the line above the rules that training did not use."""
    return re.fullmatch(re.escape(_UNUSED_HEAD) + r" [0-9]+ of [0-9]+ rules\.", line) is not None


def find_templates(name: str) -> TemplateSet:
    """Return the named set of `rules/templates`, or the one of a file. Raises RuleError."""
    path = Path(name)
    if path.suffix == ".toml":
        return load_templates(path)
    path = rules_directory() / "templates" / f"{name}.toml"
    if not path.exists():
        known = sorted(other.stem for other in path.parent.glob("*.toml"))
        raise RuleError(f"there is no template set {name!r}; there are: {', '.join(known)}, or a .toml file")
    return load_templates(path)


def final_tags(rules: Sequence[Rule], batch: Batch, initial: Column, scheme: TagScheme) -> Int32s:
    """Return the tags after all rules, as codes of the scheme."""
    after = RuleApplier(rules).apply(batch.table.columns, initial, batch.tokens.sentence_starts)
    return tag_codes(after, scheme)


def _tagged(applier: RuleApplier, batch: Batch, initial: Column, scheme: TagScheme) -> list[tuple[Span, ...]]:
    """Return the spans after all rules; a span's source is the last rule that changed one of its tokens."""
    tags = np.array(initial.strings(), dtype=object)
    last = np.full(len(tags), -1, dtype=np.int64)
    for firing in applier.firings(batch.table.columns, initial, batch.tokens.sentence_starts):
        last[firing.tokens] = firing.rule
        tags[firing.tokens] = applier.rules[firing.rule].to_tag
    codes = tag_codes(Column.from_strings(tags.tolist()), scheme)
    spans = tags_to_spans(codes, batch.tokens, scheme)
    first, after, _ = entity_rows(codes, batch.tokens)
    sources = [int(last[a:b].max()) for a, b in zip(first.tolist(), after.tolist(), strict=True)]
    named = iter(f"rule {source + 1}" if source >= 0 else "" for source in sources)
    labelled = [tuple(replace(span, source=next(named) or f"initial {span.label}") for span in d) for d in spans]
    return labelled
