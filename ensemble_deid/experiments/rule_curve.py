"""Strict F1 after each rule of a list: once dev stops rising, further rules only memorise the training notes."""

from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.pipeline.manifest import read_manifest
from ensemble_deid.taggers.tbed.curve import strict_counts_by_rule
from ensemble_deid.taggers.tbed.initial import fit_initial
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.text.counts import f1_score


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
    counts = strict_counts_by_rule(tagger.rules.rules, batch, initial, tagger.scheme)
    return [f1_score(right, gold=counts.n_gold, system=found) for right, found in counts.by_rule]
