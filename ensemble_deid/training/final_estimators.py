"""Fitting the final estimators of a model: that of all submodels, and those for predicting without some of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from ensemble_deid.config import Config
from ensemble_deid.evaluation.curve import Curve
from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.dataset import StackingDataset, build_stacking_dataset
from ensemble_deid.stacking.search import with_settings
from ensemble_deid.stacking.single_tokens import single_tokens
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.base import Progress, Proposals
from ensemble_deid.training.training_points import TrainingPoints, training_points


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

    The smaller ones (`Config.smaller_stacks`) take C, gamma and class weights from that of all submodels. Each has a
    threshold of its own, chosen in the same way. Labels that no note has (those of a model to start from) are left to
    the submodels' confidence.
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
