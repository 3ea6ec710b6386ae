"""Training every submodel on all notes, and on the rest of each fold for its out-of-fold proposals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.taggers.base import Proposals, Tagger, TokenScores
from ensemble_deid.training.progress import Reporter, Step
from ensemble_deid.training.tasks import WHOLE, plan, run_all

_INNER_DEV_SHARE = 10


@dataclass(slots=True)
class TrainingProgress:
    """How far a training run is, told to a reporter."""

    report: Reporter
    total: float
    done: float = 0.0

    def say(self, message: str) -> None:
        self.report(Step(self.done, self.total, message))

    def finish(self) -> None:
        self.report(Step(self.total, self.total, "trained"))


def train_submodels(
    plain: Batch,
    dev: Batch | None,
    groups: Sequence[str],
    *,
    scheme: TagScheme,
    config: Config,
    report: Reporter,
    starts: Mapping[str, Tagger],
) -> tuple[dict[str, Tagger], dict[str, Proposals], TrainingProgress]:
    """Train every submodel on all notes and on each fold's rest; return them, and their out-of-fold proposals."""
    n_folds = min(config.folds, len(set(groups)))
    folds = group_folds(groups, n_folds, generator(config.seed, "folds"))
    names: tuple[str, ...] = config.submodels
    inner_dev = [] if dev is not None else _inner_dev(groups, config.seed)
    tasks = plan(names, folds.tolist(), n_folds, inner_dev=inner_dev)
    progress = TrainingProgress(report, sum(task.cost for task in tasks) * 1.2)
    taggers: dict[str, Tagger] = {}
    by_fold: dict[tuple[str, int], Proposals] = {}
    for finished in run_all(tasks, plain, dev, scheme=scheme, config=config, starts=starts):
        task = finished.task
        if finished.tagger is not None:
            taggers[task.submodel] = finished.tagger
        if finished.proposals is not None:
            by_fold[(task.submodel, task.fold)] = finished.proposals
        progress.done += task.cost
        part = "all notes" if task.fold == WHOLE else f"fold {task.fold + 1} of {n_folds}"
        last = finished.messages[-1] if finished.messages else "done"
        progress.say(f"{task.submodel}, {part}: {last}")
    proposals = {name: _merge_folds(by_fold, name, folds) for name in names}
    return {name: taggers[name] for name in names}, proposals, progress


def _inner_dev(groups: Sequence[str], seed: int) -> list[int]:
    """Return the notes of a random tenth of the patients; at least one patient."""
    names = sorted(set(groups))
    size = max(1, len(names) // _INNER_DEV_SHARE)
    drawn = {names[k] for k in generator(seed, "inner dev").permutation(len(names))[:size].tolist()}
    return [d for d, group in enumerate(groups) if group in drawn]


def _merge_folds(by_fold: dict[tuple[str, int], Proposals], name: str, folds: np.ndarray[Any, Any]) -> Proposals:
    """Merge the proposals of the folds, in the order of the notes."""
    best: list[Any] = [()] * len(folds)
    candidates: list[Any] = [()] * len(folds)
    scores: dict[int, TokenScores] = {}
    for fold in np.unique(folds).tolist():
        proposals = by_fold[(name, fold)]
        for place, d in enumerate(np.flatnonzero(folds == fold).tolist()):
            best[d] = proposals.best[place]
            candidates[d] = proposals.candidates[place]
            if proposals.tokens:
                scores[d] = proposals.tokens[place]
    return Proposals(tuple(best), tuple(candidates), tuple(scores[d] for d in sorted(scores)))
