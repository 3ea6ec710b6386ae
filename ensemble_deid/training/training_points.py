"""Fitting a model's final estimators, and the operating points that training offers from their out-of-fold predictions.

The candidates of a training note come from submodels that did not see its patient, and their probabilities from an SVM
that did not either. Two points are offered: the best strict F1, and, for those to whom a missed name costs more than a
removed word, the highest recall that a number of false positives allows (Johnson et al. 2020, section 3.4).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.config import Config, StackConfig
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, just_below, trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.counts import Counts, strict_counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.dataset import StackingDataset, build_stacking_dataset
from ensemble_deid.stacking.search import with_settings
from ensemble_deid.stacking.sequence_scores import single_tokens
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.base import Progress, Proposals

VIEW = "token-binary"
Name = Literal["f1", "recall", "given"]
_BASIS = "out-of-fold predictions of the final estimator on the training notes"


@dataclass(frozen=True, slots=True)
class Scored:
    """Annotated notes with every candidate that does not overlap a more probable one, scored; and their curve."""

    gold: tuple[Document, ...]
    spans: tuple[tuple[Span, ...], ...]
    curve: Curve

    @classmethod
    def of(cls, gold: Sequence[Document], spans: Sequence[Sequence[Span]]) -> "Scored":
        kept = tuple(drop_overlaps(found) for found in spans)
        system = [document.with_spans(found) for document, found in zip(gold, kept, strict=True)]
        return cls(tuple(gold), kept, trace_curve(gold, system, view=VIEW))

    def at(self, threshold: float) -> tuple[Counts, OperatingPoint]:
        """Return the strict counts of entities and the point of PHI tokens at a threshold."""
        kept = [[span for span in found if span.score >= threshold] for found in self.spans]
        return strict_counts((document.spans for document in self.gold), kept), self.curve.at(threshold)


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """A threshold and what it gives out of fold on the training notes, and on dev notes where there are any."""

    name: Name
    threshold: float
    strict: Counts
    tokens: OperatingPoint
    dev: tuple[Counts, OperatingPoint] | None = None


@dataclass(frozen=True, slots=True)
class TrainingPoints:
    """The points on offer, and the name of the frozen one.

    `recall` is missing where no threshold keeps within the false positives; if it was asked for, `unreached` says so,
    and the best F1 is frozen. `curve` is that of PHI tokens in the training notes, out of fold.
    """

    points: tuple[TrainingPoint, ...]
    frozen: Name
    max_false_positives: float
    unreached: bool
    curve: Curve

    @property
    def threshold(self) -> float:
        return next(point.threshold for point in self.points if point.name == self.frozen)

    def with_dev(self, dev: Scored) -> "TrainingPoints":
        return replace(self, points=tuple(replace(point, dev=dev.at(point.threshold)) for point in self.points))

    def to_record(self) -> dict[str, Any]:
        return {
            "frozen": self.frozen,
            "basis": _BASIS,
            "max_false_positives_per_1000": self.max_false_positives,
            "points": {
                point.name: {
                    "threshold": point.threshold,
                    "strict_f1": point.strict.f1,
                    "token_recall": point.tokens.counts.recall,
                    "token_precision": point.tokens.counts.precision,
                    "false_positives_per_1000": point.tokens.fp_per_1000,
                }
                for point in self.points
            },
        }


def training_points(
    documents: Sequence[Document],
    dataset: StackingDataset,
    probability: Floats,
    *,
    cv_threshold: float,
    config: StackConfig,
    others: Callable[[Sequence[Sequence[Span]]], Sequence[Sequence[Span]]] | None = None,
) -> TrainingPoints:
    """Find the operating points on the training notes; their changed copies count for `cv_threshold` alone.

    `probability` (n,) is that of each candidate by cross-validation. `others` returns what is scored beside the
    candidates, given these without those that overlap a more probable one.
    """
    keep = np.ones(len(dataset), dtype=bool)
    spans = dataset.table.spans(probability, keep, len(documents))
    if others is not None:
        more = others([drop_overlaps(found) for found in spans])
        spans = [[*found, *tokens] for found, tokens in zip(spans, more, strict=True)]
    originals = [(note, found) for note, found in zip(documents, spans, strict=True) if not note.is_copy]
    scored = Scored.of([note for note, _ in originals], [found for _, found in originals])
    thresholds: dict[Name, float] = {"f1": cv_threshold}
    recall = find_point(scored.curve, rule="false-positives", wanted=config.max_false_positives)
    if recall is not None:
        within = 1000 * scored.curve.at(cv_threshold).counts.fp <= config.max_false_positives * scored.curve.tokens
        # Where the recall is the same here, the lower threshold misses less in other notes.
        below = just_below(recall.threshold)
        thresholds["recall"] = min(below, cv_threshold) if within else below
    frozen: Name = config.operating_point if config.operating_point in thresholds else "f1"
    if config.threshold is not None:
        frozen, thresholds["given"] = "given", config.threshold
    points = tuple(TrainingPoint(name, threshold, *scored.at(threshold)) for name, threshold in thresholds.items())
    unreached = config.operating_point == "recall" and recall is None
    return TrainingPoints(points, frozen, config.max_false_positives, unreached, scored.curve)


@dataclass(frozen=True, slots=True)
class FinalEstimators:
    """The final estimator of all submodels, its training set and operating points, and the `smaller` ones.

    `curves` has the curve of each on the training notes, out of fold, by its submodels.
    """

    stacker: Stacker
    dataset: StackingDataset
    points: TrainingPoints
    smaller: tuple[Stacker, ...]
    curves: Mapping[tuple[str, ...], Curve]


def fit_final_estimators(
    proposals: Mapping[str, Proposals], batch: Batch, *, labels: tuple[str, ...], config: Config, progress: Progress
) -> FinalEstimators:
    """Fit to the submodels' out-of-fold proposals for annotated notes.

    The smaller ones (`Config.smaller_stacks`) take C, gamma and class weights from that of all submodels; each has a
    threshold of its own. Labels that no note has are left to the submodels' confidence.
    """
    stacker, dataset, points = _fit(proposals, batch, labels, config, progress)
    same = with_settings(config, stacker.svm.settings)
    smaller: list[Stacker] = []
    curves = {stacker.submodels: points.curve}
    for names in config.smaller_stacks:
        fitted, _, its_points = _fit({name: proposals[name] for name in names}, batch, labels, same, progress)
        smaller.append(fitted)
        curves[names] = its_points.curve
    return FinalEstimators(stacker, dataset, points, tuple(smaller), curves)


def _fit(
    proposals: Mapping[str, Proposals], batch: Batch, labels: tuple[str, ...], config: Config, progress: Progress
) -> tuple[Stacker, StackingDataset, TrainingPoints]:
    options = config.stack
    annotated = {span.label for document in batch.documents for span in document.spans}
    dataset = build_stacking_dataset(
        proposals,
        batch,
        labels=labels,
        min_confidence=options.min_confidence,
        net=options.net,
        mentions=options.mentions,
        density=options.trees,
        tables=options.trees,
        unseen=tuple(label for label in labels if label not in annotated),
    )
    stacker, probability = Stacker.fit_and_score(dataset, config=config, progress=progress)
    points = training_points(
        batch.documents,
        dataset,
        probability,
        cv_threshold=stacker.cv_threshold,
        config=options,
        others=partial(single_tokens, proposals=proposals, batch=batch, labels=labels, pool_weight=options.pool_weight)
        if options.tokens
        else None,
    )
    return replace(stacker, threshold=points.threshold), dataset, points
