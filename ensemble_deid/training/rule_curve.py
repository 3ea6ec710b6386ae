"""Strict F1 after each rule of a list: once dev stops rising, further rules only memorise the training notes."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.counts import f1_score
from ensemble_deid.taggers.tbed.curve import strict_counts_by_rule
from ensemble_deid.taggers.tbed.initial import fit_initial
from ensemble_deid.taggers.tbed.tagger import TbedTagger


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


# The picture of F1 against the number of rules (needs the extra `plot`).


def draw_curve(points: Sequence[CurvePoint], path: Path) -> None:
    """Write the curves of train and, where it was measured, dev as a PNG. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'ensemble_deid[plot]'") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    rules = [point.rules for point in points]
    for name, values in (
        ("train", [point.train_f1 for point in points]),
        ("dev", [point.dev_f1 for point in points]),
    ):
        defined = [(k, 100 * value) for k, value in zip(rules, values, strict=True) if value is not None]
        if defined:
            axes.step(*zip(*defined, strict=True), where="post", label=name)
    axes.set_xlabel("rules applied")
    axes.set_ylabel("strict entity F1 (%)")
    axes.set_title("The rule list, rule by rule")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    picture = io.BytesIO()
    # Without the library's version in the file, the same curve is the same bytes.
    figure.savefig(picture, format="png", dpi=150, metadata={"Software": None})
    write_bytes_atomically(path, picture.getvalue())
