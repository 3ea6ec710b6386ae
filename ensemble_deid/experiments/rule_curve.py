"""Strict F1 after each rule of a list: where dev stops rising, the rest of the list is memory of the training notes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.pipeline.manifest import read_manifest
from ensemble_deid.taggers.tbed.applier import RuleApplier
from ensemble_deid.taggers.tbed.initial import fit_initial
from ensemble_deid.taggers.tbed.tagger import TbedTagger, tag_codes
from ensemble_deid.text.counts import f1_score
from ensemble_deid.text.tags import entity_rows, spans_to_tags


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Strict entity F1 on train and dev after the first `rules` rules; None where it is undefined."""

    rules: int
    train_f1: float | None
    dev_f1: float | None


def rule_curve(tagger: TbedTagger, train: Batch, dev: Batch | None) -> list[CurvePoint]:
    """Return train and dev F1 after each rule, from none to all."""
    start = fit_initial(tagger.initial.kind, train, tagger.scheme)[1]
    on_train = _f1_by_rule(tagger, train, start)
    on_dev = [None] * len(on_train) if dev is None else _f1_by_rule(tagger, dev, tagger.initial.tag(dev))
    return [CurvePoint(k, a, b) for k, (a, b) in enumerate(zip(on_train, on_dev, strict=True))]


def model_curve(model: Path) -> list[CurvePoint]:
    """Return the curve that training measured. Raises ModelError where there is none."""
    points = read_manifest(model).figures.get("rule_curve")
    if not points:
        raise ModelError(f"{model}: the model has no rule list: it was trained without tbed")
    return [CurvePoint(int(rules), on_train, on_dev) for rules, on_train, on_dev in points]


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
