"""Training every submodel on all notes, and on the rest of each fold for its out-of-fold proposals.

Each task is one submodel on some of the patients, and runs in a process of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch, select_documents, training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_lexicon
from ensemble_deid.model.submodels import fit_submodel, load_submodel
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parallel import Reporter, Step, delayed, in_processes
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.submodels import row_of
from ensemble_deid.taggers.base import Proposals, Tagger, TokenScores
from ensemble_deid.training.run_folder import PartFolder, read_proposals, write_proposals

WHOLE = -1


@dataclass(frozen=True, slots=True)
class Task:
    """Train `submodel` on the notes `train`, then predict the notes `held_out` (both are indexes).

    `fold` is the fold held out, or `WHOLE` for the submodel that goes into the model; the notes held out of a whole
    task are used to choose when to stop.
    """

    submodel: str
    fold: int
    train: tuple[int, ...] = field(repr=False)
    held_out: tuple[int, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The task's name in a part folder, such as `crf-all` and `crf-fold-1`."""
        return f"{self.submodel}-{'all' if self.fold == WHOLE else f'fold-{self.fold + 1}'}"

    @property
    def cost(self) -> float:
        """Estimated share of the work, for ordering the tasks and for the progress bar."""
        return row_of(self.submodel).relative_cost * len(self.train)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outcome of a task: the tagger (whole tasks only), or its proposals for the held-out notes."""

    task: Task
    tagger: Tagger | None
    proposals: Proposals | None
    messages: tuple[str, ...]


def plan(submodels: Sequence[str], folds: Sequence[int], n_folds: int, *, inner_dev: Sequence[int]) -> list[Task]:
    """Return all tasks, longest first, so that no long task is left to run alone at the end.

    The notes `inner_dev` are held out of the final training of the submodels that stop early on dev notes.
    """
    everything = tuple(range(len(folds)))
    tasks = []
    for name in submodels:
        stop_by = tuple(inner_dev) if row_of(name).stops_early_on_dev else ()
        tasks.append(Task(name, WHOLE, tuple(d for d in everything if d not in set(stop_by)), stop_by))
    for fold in range(n_folds):
        inside = tuple(d for d in everything if folds[d] != fold)
        held_out = tuple(d for d in everything if folds[d] == fold)
        tasks += [Task(name, fold, inside, held_out) for name in submodels]
    return sorted(tasks, key=lambda task: (-task.cost, task.submodel, task.fold))


def run_task(
    task: Task, batch: Batch, dev: Batch | None, *, scheme: TagScheme, config: Config, start: Tagger | None = None
) -> TaskResult:
    """Run one task. The lexicon is learned from the task's own training notes, so nothing leaks into it."""
    messages: list[str] = []
    with one_thread():
        part = select_documents(batch, task.train)
        lexicon = fit_lexicon(part, config=config)
        train = training_view(with_lexicon(part, lexicon, leave_own_patient_out=True))
        held_out = None
        if task.held_out:
            held_out = with_lexicon(select_documents(batch, task.held_out), lexicon, leave_own_patient_out=False)
        stop_by = (held_out or dev) if task.fold == WHOLE else None
        tagger = fit_submodel(
            task.submodel, train, stop_by, scheme=scheme, config=config, progress=messages.append, start=start
        )
        if task.fold == WHOLE or held_out is None:
            return TaskResult(task, tagger, None, tuple(messages))
        return TaskResult(task, None, tagger.propose(held_out, n_best=config.stack.n_best), tuple(messages))


_INNER_DEV_SHARE = 10
_DONE_BEFORE = "done before"


@dataclass(slots=True)
class TrainingProgress:
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
    part: PartFolder | None = None,
) -> tuple[dict[str, Tagger], dict[str, Proposals], TrainingProgress]:
    """Train every submodel on all notes and on each fold's rest; return them, and their out-of-fold proposals.

    A task that `part` has a result of is not run again, and the results of the others are kept there.
    """
    n_folds = min(config.folds, len(set(groups)))
    folds = group_folds(groups, n_folds, generator(config.seed, "folds"))
    names: tuple[str, ...] = config.submodels
    inner_dev = [] if dev is not None else _inner_dev(groups, config.seed)
    tasks = plan(names, folds.tolist(), n_folds, inner_dev=inner_dev)
    progress = TrainingProgress(report, sum(task.cost for task in tasks) * 1.2)
    taggers: dict[str, Tagger] = {}
    by_fold: dict[tuple[str, int], Proposals] = {}
    kept = [] if part is None else [found for task in tasks if (found := _kept(task, part, scheme, config)) is not None]
    done = {found.task for found in kept}
    runs = (
        # Dev notes are for the whole submodels only.
        delayed(run_task)(
            task,
            plain,
            dev if task.fold == WHOLE else None,
            scheme=scheme,
            config=config,
            start=starts.get(task.submodel),
        )
        for task in tasks
        if task not in done
    )
    for finished in chain(kept, in_processes(runs, jobs=config.jobs, ordered=False)):
        task = finished.task
        if part is not None and task not in done:
            whole, found = finished.tagger, finished.proposals
            if whole is not None:
                part.keep(task.name, whole.save)
            elif found is not None:
                part.keep(task.name, partial(write_proposals, found))
        if finished.tagger is not None:
            taggers[task.submodel] = finished.tagger
        if finished.proposals is not None:
            by_fold[(task.submodel, task.fold)] = finished.proposals
        progress.done += task.cost
        notes = "all notes" if task.fold == WHOLE else f"fold {task.fold + 1} of {n_folds}"
        last = finished.messages[-1] if finished.messages else "done"
        progress.say(f"{task.submodel}, {notes}: {last}")
    proposals = {name: _merge_folds(by_fold, name, folds) for name in names}
    return {name: taggers[name] for name in names}, proposals, progress


def _kept(task: Task, part: PartFolder, scheme: TagScheme, config: Config) -> TaskResult | None:
    """Return the result of a task from an interrupted training, None where it has none."""
    folder = part.kept(task.name)
    if folder is None:
        return None
    if task.fold == WHOLE:
        tagger = load_submodel(task.submodel, folder, scheme=scheme, config=config)
        return TaskResult(task, tagger, None, (_DONE_BEFORE,))
    return TaskResult(task, None, read_proposals(folder), (_DONE_BEFORE,))


def _inner_dev(groups: Sequence[str], seed: int) -> list[int]:
    """Return the notes of a random tenth of the patients; at least one patient."""
    names = sorted(set(groups))
    size = max(1, len(names) // _INNER_DEV_SHARE)
    drawn = {names[k] for k in generator(seed, "inner dev").permutation(len(names))[:size].tolist()}
    return [d for d, group in enumerate(groups) if group in drawn]


def _merge_folds(by_fold: dict[tuple[str, int], Proposals], name: str, folds: np.ndarray[Any, Any]) -> Proposals:
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
