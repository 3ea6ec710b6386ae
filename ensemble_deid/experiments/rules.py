"""Working with rule lists: check, apply, explain, put back into a model, trace F1 rule by rule."""

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.config import Config
from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.features.batch import Batch, with_lexicon
from ensemble_deid.features.table import Column
from ensemble_deid.pipeline.directory import load_model, update_model
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.feature_extractor import fit_feature_extractor
from ensemble_deid.pipeline.manifest import Manifest, read_manifest
from ensemble_deid.taggers.confidence import SourceConfidence
from ensemble_deid.taggers.tbed.applier import RuleApplier
from ensemble_deid.taggers.tbed.initial import KINDS, fit_initial
from ensemble_deid.taggers.tbed.rule import Rule
from ensemble_deid.taggers.tbed.rule_text import write_rule
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import CONFIDENCE, RULES, TbedTagger, final_tags, tag_codes
from ensemble_deid.text.counts import f1_score
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span
from ensemble_deid.text.tags import TagScheme, entity_rows, spans_to_tags, tags_to_spans


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule on a corpus: the tags it put right and wrong there, at its turn in the list; the rest stayed wrong."""

    number: int
    rule: Rule
    fixed: int
    broken: int
    changed: int

    @property
    def score(self) -> int:
        """Fixed less broken."""
        return self.fixed - self.broken


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span of the final tags, the pattern that started it ("" where none did), and the rules that changed it."""

    span: Span
    pattern: str
    rules: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Strict entity F1 on train and dev after the first `rules` rules; None where it is undefined."""

    rules: int
    train_f1: float | None
    dev_f1: float | None


@dataclass(frozen=True, slots=True)
class RuleCorpus:
    """Annotated notes ready for rules: the batch as training sees it (each patient left out of their own lexicon)."""

    batch: Batch = field(repr=False)
    initial: Column = field(repr=False)
    scheme: TagScheme

    @classmethod
    def of(cls, documents: Sequence[Document], rules: RuleList, *, config: Config) -> "RuleCorpus":
        """Prepare a corpus for a rule list that stands by itself, outside a model.

        The rules start from what the list's header says. Raises RuleError when that is no initial tagger.
        """
        kind = rules.header["initial tagger"]
        if kind not in KINDS:
            raise RuleError(f"the list's header names the initial tagger {kind!r}; there are: {', '.join(KINDS)}")
        labels = {span.label for document in documents for span in document.spans} | labels_of(rules.rules)
        scheme = TagScheme.from_labels(labels)
        plain, extractor = fit_feature_extractor(documents, scheme.labels, config=config)
        batch = with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True)
        return cls(batch, fit_initial(kind, batch, scheme)[1], scheme)


def labels_of(rules: Sequence[Rule]) -> set[str]:
    """Return the labels that the rules' tags name."""
    return {tag[2:] for rule in rules for tag in (rule.from_tag, rule.to_tag) if tag != "O"}


def check_rules(rules: Sequence[Rule], corpus: RuleCorpus) -> list[CheckedRule]:
    """Return every rule with what it does on the corpus, in list order; a rule that never fires has zeros."""
    batch = corpus.batch
    names = np.array(corpus.scheme.tags, dtype=object)
    gold = names[batch.gold(corpus.scheme)]
    counts = [(0, 0, 0)] * len(rules)
    firings = RuleApplier(rules).firings(batch.table.columns, corpus.initial, batch.tokens.sentence_starts)
    for firing in firings:
        rule, right = rules[firing.rule], gold[firing.tokens]
        counts[firing.rule] = (int((right == rule.to_tag).sum()), int((right == rule.from_tag).sum()), len(right))
    return [CheckedRule(k, rule, *count) for k, (rule, count) in enumerate(zip(rules, counts, strict=True), 1)]


def apply_rules_to(rules: Sequence[Rule], corpus: RuleCorpus) -> list[Document]:
    """Return the documents with the spans that patterns and rules find."""
    batch = corpus.batch
    codes = final_tags(rules, batch, corpus.initial, corpus.scheme)
    spans = tags_to_spans(codes, batch.tokens, corpus.scheme, source="tbed")
    return [document.with_spans(found) for document, found in zip(batch.documents, spans, strict=True)]


def explain_note(model: Path, document: Document) -> tuple[RuleList, list[TracedSpan]]:
    """Return a model's rule list and, for every span that it leaves on a note, how it came about."""
    ensemble, tagger = _model_with_rules(model)
    batch = ensemble.feature_extractor.extract([document])
    rules, scheme = tagger.rules.rules, ensemble.scheme
    touched: list[list[int]] = [[] for _ in range(len(batch.tokens))]
    initial = tagger.initial.of(batch)
    firings = RuleApplier(rules).firings(batch.table.columns, initial, batch.tokens.sentence_starts)
    for firing in firings:
        for token in firing.tokens.tolist():
            touched[token].append(firing.rule + 1)
    codes = final_tags(rules, batch, initial, scheme)
    spans = [span for found in tags_to_spans(codes, batch.tokens, scheme, source="tbed") for span in found]
    first, after, _ = entity_rows(codes, batch.tokens)
    traced = []
    for span, low, high in zip(spans, first.tolist(), after.tolist(), strict=True):
        numbers = sorted({number for row in range(low, high) for number in touched[row]})
        patterns = [start.source for start in batch.initial[0] if start.overlaps(span)]
        traced.append(TracedSpan(span, patterns[0] if patterns else "", tuple(numbers)))
    return tagger.rules, traced


def replace_rules(model: Path, rules: RuleList, *, remark: str = "") -> tuple[int, int]:
    """Put a reviewed rule list into a model, which records it; return how many rules were kept and how many are new.

    A kept rule keeps the confidence that training measured; a new one is believed by its own counts. Raises RuleError
    for a tag that the model does not know.
    """
    ensemble, tagger = _model_with_rules(model)
    unknown = sorted(labels_of(rules.rules) - set(ensemble.scheme.labels))
    if unknown:
        raise RuleError(f"the rules name {unknown[0]!r}; the model knows {', '.join(ensemble.scheme.labels)}")
    place = {rule.identity: k for k, rule in enumerate(tagger.rules.rules, 1)}
    counts = {s: c for s, c in tagger.confidence.counts.items() if not s.startswith("rule ")}
    kept = 0
    for k, rule in enumerate(rules.rules, 1):
        old = place.get(rule.identity)
        measured = None if old is None else tagger.confidence.counts.get(f"rule {old}", (0, 0))
        kept += old is not None
        counts[f"rule {k}"] = measured if measured is not None else (rule.fixed, rule.fixed + rule.broken)
    confidence = SourceConfidence(counts)
    text = rules.text()

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        record = {
            "before": hashlib.sha256((directory / RULES).read_bytes()).hexdigest(),
            "after": hashlib.sha256(text.encode()).hexdigest(),
            "rules": str(len(rules)),
            "remark": remark,
        }
        (directory / RULES).write_bytes(text.encode())
        (directory / CONFIDENCE).write_text(confidence.to_json(), encoding="utf-8")
        return replace(manifest, rules_replaced=(*manifest.rules_replaced, record))

    update_model(model, edit)
    return kept, len(rules) - kept


def rule_curve(tagger: TbedTagger, train: Batch, dev: Batch | None) -> list[CurvePoint]:
    """Return train and dev F1 after each rule, from none to all."""
    start = fit_initial(tagger.initial.kind, train, tagger.scheme)[1]
    on_train = _f1_by_rule(tagger, train, start)
    on_dev = [None] * len(on_train) if dev is None else _f1_by_rule(tagger, dev, tagger.initial.of(dev))
    return [CurvePoint(k, a, b) for k, (a, b) in enumerate(zip(on_train, on_dev, strict=True))]


def _f1_by_rule(tagger: TbedTagger, batch: Batch, initial: Column) -> list[float | None]:
    """Return strict F1 of the tags before the first rule and after each."""
    scheme, rules = tagger.scheme, tagger.rules.rules
    index = {tag: code for code, tag in enumerate(scheme.tags)}
    codes = tag_codes(initial, scheme)
    # Labels that training never showed count as missed, and have no tag.
    known = [[span for span in document.spans if span.label in scheme.labels] for document in batch.documents]
    gold = _entities(spans_to_tags(known, batch.tokens, scheme).codes, batch, len(scheme.labels))
    n_gold = sum(len({span.key for span in document.spans}) for document in batch.documents)
    values = [_f1(codes, batch, gold, n_gold, len(scheme.labels))]
    at = 0
    applier = RuleApplier(rules)
    for firing in applier.firings(batch.table.columns, initial, batch.tokens.sentence_starts):
        values += [values[-1]] * (firing.rule - at)
        at = firing.rule + 1
        codes[firing.tokens] = index[rules[firing.rule].to_tag]
        values.append(_f1(codes, batch, gold, n_gold, len(scheme.labels)))
    return values + [values[-1]] * (len(rules) - at)


def _entities(codes: NDArray[np.int32], batch: Batch, n_labels: int) -> NDArray[np.int64]:
    """Return one number for every entity that the tags spell."""
    first, after, label = entity_rows(codes, batch.tokens)
    return (first.astype(np.int64) * (len(codes) + 1) + after) * n_labels + label


def _f1(codes: NDArray[np.int32], batch: Batch, gold: NDArray[np.int64], n_gold: int, n_labels: int) -> float | None:
    found = _entities(codes, batch, n_labels)
    right = len(np.intersect1d(found, gold, assume_unique=True))
    return f1_score(right, gold=n_gold, system=len(found))


def _model_with_rules(model: Path) -> tuple[Ensemble, TbedTagger]:
    ensemble, _ = load_model(model)
    tagger = ensemble.taggers.get("tbed")
    if not isinstance(tagger, TbedTagger):
        raise ModelError(f"{model}: the model has no rule list: it was trained without tbed")
    return ensemble, tagger


def model_rules(model: Path) -> RuleList:
    """Return a model's rule list. Raises ModelError where it has none."""
    return _model_with_rules(model)[1].rules


def model_curve(model: Path) -> list[CurvePoint]:
    """Return the curve that training measured. Raises ModelError where there is none."""
    points = read_manifest(model).figures.get("rule_curve")
    if not points:
        raise ModelError(f"{model}: the model has no rule list: it was trained without tbed")
    return [CurvePoint(int(rules), on_train, on_dev) for rules, on_train, on_dev in points]


def diff_rules(a: RuleList, b: RuleList) -> list[str]:
    """Return one line a difference, in the order of the lists: `-` only in A, `+` only in B (a moved rule is both)."""
    before = [rule.identity for rule in a.rules]
    after = [rule.identity for rule in b.rules]
    lines = []
    for how, low, high, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if how != "equal":
            lines += [f"- {k + 1}: {write_rule(a.rules[k])}" for k in range(low, high)]
            lines += [f"+ {k + 1}: {write_rule(b.rules[k])}" for k in range(start, end)]
    return lines
