"""The pieces that training is made of: one submodel on one part of the patients. Each runs in a process of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from joblib import delayed
from threadpoolctl import threadpool_limits

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch, select_documents, with_lexicon
from ensemble_deid.parallel import in_processes
from ensemble_deid.pipeline.feature_extractor import fit_lexicon
from ensemble_deid.pipeline.submodels import submodel_class
from ensemble_deid.taggers.base import Proposals, TrainableTagger
from ensemble_deid.text.tags import TagScheme

WHOLE = -1
_COST = {"neural": 3.0, "crf": 2.0, "tbed": 0.2, "regex": 0.05}


@dataclass(frozen=True, slots=True)
class Task:
    """Train `submodel` on the notes `train`; then let it propose on the notes `held_out` (both are indexes).

    `fold` is the fold held out, or `WHOLE` for the submodel that goes into the model; what a whole task holds out
    serves to choose when to stop.
    """

    submodel: str
    fold: int
    train: tuple[int, ...] = field(repr=False)
    held_out: tuple[int, ...] = field(repr=False)

    @property
    def cost(self) -> float:
        """Rough share of the work, for the order of the tasks and the progress bar."""
        return _COST[self.submodel] * len(self.train)


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a task: the tagger (whole tasks only), or its proposals for the held-out notes."""

    task: Task
    tagger: TrainableTagger | None
    proposals: Proposals | None
    messages: tuple[str, ...]


def plan(submodels: Sequence[str], folds: Sequence[int], n_folds: int, *, inner_dev: Sequence[int]) -> list[Task]:
    """Return all tasks, the longest first, so that none is left to run alone at the end.

    `inner_dev` are notes that the whole network does not learn from, to choose its epoch by.
    """
    everything = tuple(range(len(folds)))
    held = set(inner_dev)
    kept = tuple(d for d in everything if d not in held)
    tasks = [Task(name, WHOLE, everything, ()) for name in submodels if name != "neural"]
    tasks += [Task(name, WHOLE, kept, tuple(inner_dev)) for name in submodels if name == "neural"]
    for fold in range(n_folds):
        inside = tuple(d for d in everything if folds[d] != fold)
        held_out = tuple(d for d in everything if folds[d] == fold)
        tasks += [Task(name, fold, inside, held_out) for name in submodels]
    return sorted(tasks, key=lambda task: (-task.cost, task.submodel, task.fold))


def run_all(
    tasks: Sequence[Task], batch: Batch, dev: Batch | None, *, scheme: TagScheme, config: Config
) -> Iterator[Done]:
    """Run the tasks over `config.jobs` processes and yield each as it is done, in no fixed order.

    `batch` is the plain batch of all training notes; `dev` (with its lexicon) is for the whole submodels only.
    """
    runs = (
        delayed(run)(task, batch, dev if task.fold == WHOLE else None, scheme=scheme, config=config) for task in tasks
    )
    yield from in_processes(runs, jobs=config.jobs, ordered=False)


def run(task: Task, batch: Batch, dev: Batch | None, *, scheme: TagScheme, config: Config) -> Done:
    """Run one task. The lexicon is learned from the task's own training notes, so nothing held out leaks in."""
    messages: list[str] = []
    with threadpool_limits(1):
        part = select_documents(batch, task.train)
        lexicon = fit_lexicon(part)
        train = with_lexicon(part, lexicon, leave_own_patient_out=True)
        held_out = None
        if task.held_out:
            held_out = with_lexicon(select_documents(batch, task.held_out), lexicon, leave_own_patient_out=False)
        stop_by = (held_out or dev) if task.fold == WHOLE else None
        tagger = submodel_class(task.submodel).fit(
            train, stop_by, scheme=scheme, config=config, progress=messages.append
        )
        if task.fold == WHOLE or held_out is None:
            return Done(task, tagger, None, tuple(messages))
        return Done(task, None, tagger.propose(held_out, n_best=config.stack.n_best), tuple(messages))
