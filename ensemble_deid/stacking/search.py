"""Choosing C, gamma, class weights and threshold of the final estimator by cross-validation over groups of notes."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Flags, Floats, Int64s
from ensemble_deid.config import Config, StackConfig
from ensemble_deid.note.counts import f1_score
from ensemble_deid.note.overlaps import drop_overlaps, suppressed_scores
from ensemble_deid.parallel import delayed, in_processes
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.features import learned, measure_statistics, statistics_columns
from ensemble_deid.stacking.sequence_scores import pooled_with_sequences
from ensemble_deid.stacking.svm import ZHAO2020, Sigmoid, Svm, SvmSettings
from ensemble_deid.stacking.trees import TreePair

_FOLDS = 3
_THRESHOLDS = tuple(k / 100 for k in range(5, 96, 5))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The result of the search: SVM settings, sigmoid, and by cross-validation the best threshold and its F1.

    That F1 is slightly optimistic: settings and threshold were chosen on it. `svm` (n,) is the probability of each
    candidate by an SVM and statistics that did not see its group, and `probability` the score that comes of it, with
    the trees or the sequence models where it is so configured.
    """

    settings: SvmSettings
    sigmoid: Sigmoid
    cv_threshold: float
    cv_f1: float | None
    svm: Floats
    probability: Floats


def strict_f1(table: CandidateTable, scores: Floats, threshold: float, correct: Flags, n_gold: int) -> float | None:
    """Return the strict F1 after threshold and resolution; gold spans that are no candidates count as missed.

    None where it is undefined: no gold and no predictions.
    """
    truth = dict(zip(zip(table.document.tolist(), table.keys(), strict=True), correct.tolist(), strict=True))
    n_documents = int(table.document.max()) + 1 if len(table) else 0
    kept = [drop_overlaps(spans) for spans in table.spans(scores, scores >= threshold, n_documents)]
    found = sum(len(spans) for spans in kept)
    true_positives = sum(truth[(d, span.key)] for d, spans in enumerate(kept) for span in spans)
    return f1_score(true_positives, gold=n_gold, system=found)


def _without_fold(dataset: StackingDataset, features: Floats, held_out: Flags, *, least: int) -> Floats:
    """Return the features, with statistics counted only on candidates that are not `held_out`.

    `least` is the number of patients that a key must have.
    """
    out, columns = features.copy(), statistics_columns(features, dataset.context)
    inside, outside = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    train, rest = dataset.select(inside), dataset.select(outside)
    statistics = measure_statistics(train.table, train.context, train.correct, min_patients=least)
    out[inside, columns] = learned(train.table, train.context, statistics, counted=train.correct)
    out[outside, columns] = learned(rest.table, rest.context, statistics)
    return out


def _decisions(by_fold: Sequence[Floats], correct: Flags, folds: Int64s, settings: SvmSettings) -> Floats:
    """Return the SVM's decision value for each row, (n,); the SVM is trained without the row's fold.

    `by_fold` has the features of all rows once for each fold, with statistics that do not count that fold.
    """
    out = np.zeros(len(folds))
    for fold, features in zip(np.unique(folds).tolist(), by_fold, strict=True):
        held_out = folds == fold
        out[held_out] = _decided(features[~held_out], correct[~held_out], features[held_out], settings)
    return out


def settings_grid(options: StackConfig) -> list[SvmSettings]:
    """Return the settings to try. A weight is C+ / C-, and C is the larger of the two."""
    if options.preset == "zhao2020":
        return [ZHAO2020]
    grid = itertools.product(options.c_grid, options.gamma_grid, options.weight_grid)
    return [SvmSettings(c * min(1.0, w), c * min(1.0, 1 / w), gamma) for c, gamma, w in grid]


def with_settings(config: Config, settings: SvmSettings) -> Config:
    c, weight = max(settings.c_positive, settings.c_negative), settings.c_positive / settings.c_negative
    grid = {"preset": "search", "c_grid": (c,), "gamma_grid": (settings.gamma,), "weight_grid": (weight,)}
    return config.model_copy(update={"stack": config.stack.model_copy(update=grid)})


def least_patients(config: Config) -> int:
    """Return how many patients must have a key for its statistics to be kept."""
    return config.min_patients_outside if config.shareable else 1


def choose(dataset: StackingDataset, features: Floats, *, config: Config, progress: Callable[[str], None]) -> Chosen:
    """Search the grid on a sample of groups, then choose sigmoid and threshold for the best settings on all data.

    The statistics among the features are counted again without each fold. Gold spans that no submodel proposed count
    against recall. Ties go to the settings that come first in the grid, and to the threshold nearest to one half.
    """
    options = config.stack
    rng = generator(config.seed, "stacker search")
    grid = settings_grid(options)
    best = grid[0]
    if len(grid) > 1:
        best = _search(dataset, features, grid, rng, config=config)
    folds = group_folds(dataset.context.groups, _FOLDS, rng)
    numbers = np.unique(folds).tolist()
    fitted = [sample_rows(np.flatnonzero(folds != fold), options.fit_candidates, rng) for fold in numbers]
    tasks = (
        delayed(_decided)(nested[rows], dataset.correct[rows], nested[folds == fold], best)
        for fold, rows in zip(numbers, fitted, strict=True)
        for nested in [_without_fold(dataset, features, folds == fold, least=least_patients(config))]
    )
    decisions = np.zeros(len(features))
    for fold, values in zip(numbers, in_processes(tasks, jobs=config.jobs), strict=True):
        decisions[folds == fold] = values
    sigmoid = Sigmoid.fit(decisions, dataset.correct)
    svm = sigmoid.probability(decisions)
    if options.trees:
        rank, score = _judged_by_trees(dataset, features, svm, folds, config=config)
    else:
        rank, score = svm, pooled_with_sequences(svm, dataset.context.more, options.pool_weight)
    probability = suppressed_scores(rank, score, dataset.table)
    threshold, f1 = _best_of(dataset.table, probability, dataset.correct, dataset.n_gold)
    shown = "undefined" if f1 is None else f"{100 * f1:.2f}"
    progress(f"stacker: C+ {best.c_positive:g}, C- {best.c_negative:g}, gamma {best.gamma:g}, CV F1 {shown}")
    return Chosen(best, sigmoid, threshold, f1, svm=svm, probability=probability)


def _judged_by_trees(
    dataset: StackingDataset, features: Floats, svm: Floats, folds: Int64s, *, config: Config
) -> tuple[Floats, Floats]:
    """Return the rank and the score that trees give the candidates of each fold, which learned from the others.

    They have seen other candidates' SVM probabilities, by SVMs that knew this fold: the gain is the same on dev notes.
    """
    numbers, least = np.unique(folds).tolist(), least_patients(config)
    tasks = (
        delayed(_judged)(nested, svm, dataset.correct, dataset.phi, folds == fold)
        for fold in numbers
        for nested in [_without_fold(dataset, features, folds == fold, least=least)]
    )
    rank, score = np.zeros(len(svm)), np.zeros(len(svm))
    for fold, judged in zip(numbers, in_processes(tasks, jobs=config.jobs), strict=True):
        rank[folds == fold], score[folds == fold] = judged
    return rank, score


def _judged(features: Floats, svm: Floats, correct: Flags, phi: Flags, held_out: Flags) -> tuple[Floats, Floats]:
    trees = TreePair.fit(svm[~held_out], features[~held_out], correct=correct[~held_out], phi=phi[~held_out])
    return trees.judged(svm[held_out], features[held_out])


def _search(
    dataset: StackingDataset,
    features: Floats,
    grid: Sequence[SvmSettings],
    rng: np.random.Generator,
    *,
    config: Config,
) -> SvmSettings:
    groups = dataset.context.groups
    rows = _sample(groups, config.stack.search_candidates, rng)
    folds = group_folds([groups[i] for i in rows.tolist()], _FOLDS, rng)
    part, least = dataset.select(rows), least_patients(config)
    held_out = [np.isin(np.arange(len(dataset)), rows[folds == fold]) for fold in np.unique(folds).tolist()]
    by_fold = [_without_fold(dataset, features, rest, least=least)[rows] for rest in held_out]
    n_gold = round(dataset.n_gold * len(rows) / max(1, len(dataset)))
    calls = (delayed(_decisions)(by_fold, part.correct, folds, settings) for settings in grid)
    f1s = []
    for decisions in in_processes(calls, jobs=config.jobs):
        probability = Sigmoid.fit(decisions, part.correct).probability(decisions)
        f1s.append(_rank(_best_of(part.table, probability, part.correct, n_gold)[1]))
    return grid[int(np.argmax(f1s))]


def _decided(features: Floats, correct: Flags, held_out: Floats, settings: SvmSettings) -> Floats:
    with one_thread():
        return Svm.fit(features, correct, settings).decision_function(held_out)


def sample_rows(rows: Int64s, size: int, rng: np.random.Generator) -> Int64s:
    """Return at most `size` of the rows, in their order: the time to fit an SVM grows with the square of their number.

    Single rows, not whole groups, since every group has something to teach.
    """
    return rows if len(rows) <= size else np.sort(rng.choice(rows, size, replace=False))


def _sample(groups: Sequence[str], size: int, rng: np.random.Generator) -> Int64s:
    """Return the rows of shuffled groups, whole ones, until there are at least `size`, in table order."""
    names, index = np.unique(np.asarray(groups, dtype=object), return_inverse=True)
    counts = np.bincount(index, minlength=len(names))
    order = rng.permutation(len(names))
    needed = int(np.searchsorted(np.cumsum(counts[order]), size)) + 1
    return np.flatnonzero(np.isin(index, order[:needed])).astype(np.int64)


def _best_of(table: CandidateTable, probability: Floats, correct: Flags, n_gold: int) -> tuple[float, float | None]:
    f1s = {t: strict_f1(table, probability, t, correct, n_gold) for t in _THRESHOLDS}
    threshold = max(_THRESHOLDS, key=lambda t: (_rank(f1s[t]), -abs(t - 0.5), t))
    return threshold, f1s[threshold]


def _rank(f1: float | None) -> float:
    """Return the number to choose by: an undefined F1 ranks with 0, that of an answer with nothing right in it."""
    return 0.0 if f1 is None else f1
