"""F1 after each rule of a list, and the best number of rules on held-out groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.note.counts import f1_score
from ensemble_deid.note.tags import TagScheme, entity_rows, spans_to_tags
from ensemble_deid.taggers.tbed.applier import RuleApplier
from ensemble_deid.taggers.tbed.templates import Rule

_T = TypeVar("_T")
Entities = tuple[Int32s, Int32s, Int32s]
"""First token, token after the last, and label of each, as `entity_rows` has them."""


@dataclass(frozen=True, slots=True)
class CountsByRule:
    """Exact matches and entities found, before the first rule and after each; and the annotated entities."""

    by_rule: tuple[tuple[int, int], ...]
    n_gold: int


def after_each_rule(
    rules: Sequence[Rule], batch: Batch, initial: Column, scheme: TagScheme, *, measure: Callable[[Int32s], _T]
) -> list[_T]:
    """Apply rules one after another; return the `measure` of the tags before the first rule and after each.

    `measure` takes codes of the scheme's tags, (n_tokens,), and is called again only where a rule has changed some.
    """
    index = {tag: code for code, tag in enumerate(scheme.tags)}
    codes = tag_codes(initial, scheme)
    found, at = [measure(codes)], 0
    for firing in RuleApplier(rules).firings(batch.table.columns, initial, batch.tokens.sentence_starts):
        found += [found[-1]] * (firing.rule - at)
        at = firing.rule + 1
        codes[firing.tokens] = index[rules[firing.rule].to_tag]
        found.append(measure(codes))
    return found + [found[-1]] * (len(rules) - at)


def counts_by_rule(rules: Sequence[Rule], batch: Batch, initial: Column, scheme: TagScheme) -> CountsByRule:
    """Count the entities found in an annotated batch, and those of them that are right, by the number of rules applied.

    Labels that are not in the scheme, and spans that begin or end inside a token, count as missed.
    """
    gold = _gold_entities(batch, scheme)

    def matches(codes: Int32s) -> tuple[int, int]:
        found = _numbered(entity_rows(codes, batch.tokens), batch, scheme)
        return len(np.intersect1d(found, gold, assume_unique=True)), len(found)

    by_rule = after_each_rule(rules, batch, initial, scheme, measure=matches)
    return CountsByRule(tuple(by_rule), sum(len({span.key for span in note.spans}) for note in batch.documents))


def best_number_of_rules(folds: Sequence[CountsByRule]) -> int:
    """Return after how many rules the strict F1 over all held-out folds is best, the fewest of equals.

    A fold whose list is shorter keeps the counts of its last rule.
    """
    longest = max((len(fold.by_rule) for fold in folds), default=1)
    n_gold = sum(fold.n_gold for fold in folds)
    scores = []
    for number in range(longest):
        at = [fold.by_rule[min(number, len(fold.by_rule) - 1)] for fold in folds]
        right, found = sum(pair[0] for pair in at), sum(pair[1] for pair in at)
        f1 = f1_score(right, gold=n_gold, system=found)
        # Undefined only where nothing is annotated and nothing found, which is just right: no answer is better.
        scores.append(1.0 if f1 is None else f1)
    return int(np.argmax(scores)) if scores else 0


def tag_codes(tags: Column, scheme: TagScheme) -> Int32s:
    """Return tags as codes of the scheme, int32 (n_tokens,)."""
    index = {tag: code for code, tag in enumerate(scheme.tags)}
    # Tags outside the scheme cannot be used: patterns are restricted to its labels before a batch is made.
    table = np.array([index.get(tag, 0) for tag in tags.values] or [0], dtype=np.int32)
    return table[tags.codes]


def _gold_entities(batch: Batch, scheme: TagScheme) -> Int64s:
    """Return the annotated entities that tags can spell, as numbers."""
    known = [[span for span in document.spans if span.label in scheme.labels] for document in batch.documents]
    tokens = batch.tokens
    first, after, label = entity_rows(spans_to_tags(known, tokens, scheme).codes, tokens)
    keys = [{span.key for span in spans} for spans in known]
    places = zip(tokens.start[first].tolist(), tokens.end[after - 1].tolist(), label.tolist(), strict=True)
    owners = tokens.document[first].tolist()
    exact = [(start, end, scheme.labels[k]) in keys[row] for row, (start, end, k) in zip(owners, places, strict=True)]
    kept = np.flatnonzero(np.array(exact, dtype=bool))
    return _numbered((first[kept], after[kept], label[kept]), batch, scheme)


def _numbered(entities: Entities, batch: Batch, scheme: TagScheme) -> Int64s:
    """Return one number for every entity."""
    first, after, label = entities
    return (first.astype(np.int64) * (len(batch.tokens) + 1) + after) * len(scheme.labels) + label
