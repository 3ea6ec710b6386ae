"""The tasks of a training run: one submodel on some of the patients. Each runs in a process of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from joblib import delayed

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch, select_documents, training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_lexicon
from ensemble_deid.model.submodels import fit_submodel
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parallel import in_processes
from ensemble_deid.reproducible import one_thread
from ensemble_deid.submodels import BY_NAME
from ensemble_deid.taggers.base import Proposals, Tagger

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
    def cost(self) -> float:
        """Estimated share of the work, for ordering the tasks and for the progress bar."""
        return BY_NAME[self.submodel].relative_cost * len(self.train)


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
        stop_by = tuple(inner_dev) if BY_NAME[name].stops_early_on_dev else ()
        tasks.append(Task(name, WHOLE, tuple(d for d in everything if d not in set(stop_by)), stop_by))
    for fold in range(n_folds):
        inside = tuple(d for d in everything if folds[d] != fold)
        held_out = tuple(d for d in everything if folds[d] == fold)
        tasks += [Task(name, fold, inside, held_out) for name in submodels]
    return sorted(tasks, key=lambda task: (-task.cost, task.submodel, task.fold))


def run_all(
    tasks: Sequence[Task],
    batch: Batch,
    dev: Batch | None,
    *,
    scheme: TagScheme,
    config: Config,
    starts: Mapping[str, Tagger] = MappingProxyType({}),
) -> Iterator[TaskResult]:
    """Run the tasks in `config.jobs` processes and yield each result as it completes, in no fixed order.

    `batch` is the plain batch of all training notes; `dev` (with its lexicon) is for the whole submodels only. `starts`
    has the trained submodels that others of their name start from.
    """
    runs = (
        delayed(run_task)(
            task,
            batch,
            dev if task.fold == WHOLE else None,
            scheme=scheme,
            config=config,
            start=starts.get(task.submodel),
        )
        for task in tasks
    )
    yield from in_processes(runs, jobs=config.jobs, ordered=False)


def run_task(
    task: Task,
    batch: Batch,
    dev: Batch | None,
    *,
    scheme: TagScheme,
    config: Config,
    start: Tagger | None = None,
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
