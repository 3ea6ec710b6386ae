"""F1 after each rule of a list, and the best number of rules on held-out groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.note.counts import f1_score
from ensemble_deid.note.tags import TagScheme, entity_rows, spans_to_tags
from ensemble_deid.taggers.tbed.applier import RuleApplier
from ensemble_deid.taggers.tbed.templates import Rule


@dataclass(frozen=True, slots=True)
class CountsByRule:
    """Exact matches and entities found, before the first rule and after each; and the annotated entities.

    `phi_found` has how many of the `n_phi` tokens of PHI are tagged as any PHI, in the same order.
    """

    by_rule: tuple[tuple[int, int], ...]
    n_gold: int
    phi_found: tuple[int, ...] = ()
    n_phi: int = 0


def counts_by_rule(rules: Sequence[Rule], batch: Batch, initial: Column, scheme: TagScheme) -> CountsByRule:
    """Apply rules one after another to the initial tags of an annotated batch, counting what is found after each.

    Labels that are not in the scheme count as missed, and have no tag.
    """
    index = {tag: code for code, tag in enumerate(scheme.tags)}
    codes = tag_codes(initial, scheme)
    known = [[span for span in document.spans if span.label in scheme.labels] for document in batch.documents]
    gold = _entities(spans_to_tags(known, batch.tokens, scheme).codes, batch, len(scheme.labels))
    n_gold = sum(len({span.key for span in document.spans}) for document in batch.documents)
    every_label = TagScheme.from_labels(span.label for document in batch.documents for span in document.spans)
    phi = np.flatnonzero(batch.gold(every_label))

    def found() -> tuple[int, int, int]:
        return *_matches(codes, batch, gold, len(scheme.labels)), int(np.count_nonzero(codes[phi]))

    counts, at = [found()], 0
    for firing in RuleApplier(rules).firings(batch.table.columns, initial, batch.tokens.sentence_starts):
        counts += [counts[-1]] * (firing.rule - at)
        at = firing.rule + 1
        codes[firing.tokens] = index[rules[firing.rule].to_tag]
        counts.append(found())
    counts += [counts[-1]] * (len(rules) - at)
    by_rule = tuple((right, system) for right, system, _ in counts)
    return CountsByRule(by_rule, n_gold, tuple(of_phi for *_, of_phi in counts), len(phi))


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


def _entities(codes: Int32s, batch: Batch, n_labels: int) -> Int64s:
    """Return one number for every entity that the tags spell."""
    first, after, label = entity_rows(codes, batch.tokens)
    return (first.astype(np.int64) * (len(codes) + 1) + after) * n_labels + label


def _matches(codes: Int32s, batch: Batch, gold: Int64s, n_labels: int) -> tuple[int, int]:
    found = _entities(codes, batch, n_labels)
    return len(np.intersect1d(found, gold, assume_unique=True)), len(found)
