"""Systems trained on each of several corpora and scored on all.

Sources: Johnson et al. 2020, table 4; Hartman et al. 2020, table 3 (names alone).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ensemble_deid.atomic import remove_stale
from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.manifest import fingerprint, installed_packages
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.document import Document
from ensemble_deid.parallel import Reporter, Step
from ensemble_deid.training.train import train
from ensemble_deid.training.training_notes import training_notes
from research.stored_answers import ScoredAnswer, read_answer, stored_answer


@dataclass(frozen=True, slots=True)
class DividedCorpus:
    """A corpus with the notes to learn from and those to score, of different patients, under the same labels as all."""

    name: str
    train: tuple[Document, ...] = field(repr=False)
    test: tuple[Document, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """The answer of the system trained on one corpus, on the scored notes of one."""

    trained_on: str
    scored_on: str
    answer: ScoredAnswer = field(repr=False)


def run_cross_corpus(
    corpora: Sequence[DividedCorpus],
    folder: Path,
    *,
    config: Config,
    report: Reporter,
    notify: Callable[[str], None],
) -> list[Cell]:
    """Train on each corpus whose answers are not all stored yet, and return all cells, row by row.

    Nothing is chosen on the scored notes. Raises CorpusError where a corpus has nothing to learn from or to score,
    ConfigError where the folder has answers made from other notes or settings.
    """
    names = [corpus.name for corpus in corpora]
    if len(corpora) < 2 or len(set(names)) < len(names):
        raise ConfigError("at least two corpora of different names are needed")
    for corpus in corpora:
        if not any(document.spans for document in corpus.test):
            raise CorpusError(f"{corpus.name}: the notes to score have no annotated PHI")
        _refuse_shared(corpus, corpora, seed=config.seed)
    remove_stale(folder / "runs")
    base = {"config": config.model_dump(mode="json", exclude={"jobs"}), "packages": installed_packages()}
    cells: list[Cell] = []
    for row, source in enumerate(corpora, 1):
        notes = training_notes(source.train)
        origins = [
            {**base, "training notes": fingerprint(notes), "scored notes": fingerprint(target.test)}
            for target in corpora
        ]
        paths = [folder / "runs" / f"{row}-{column}.json" for column in range(1, len(corpora) + 1)]
        places = list(zip(paths, origins, corpora, strict=True))
        trained: list[Ensemble] = []
        if any(read_answer(path, origin, target.test) is None for path, origin, target in places):
            trained.append(train(notes, config=config, notify=notify).ensemble)
        for path, origin, target in places:
            answer = stored_answer(path, origin, target.test, partial(_answer, trained, target.test))
            cells.append(Cell(source.name, target.name, answer))
        report(Step(row, len(corpora), f"trained on {source.name}"))
    return cells


def _refuse_shared(source: DividedCorpus, corpora: Sequence[DividedCorpus], *, seed: int) -> None:
    """Raise CorpusError where notes of one corpus are scored in another; numbers of patients may be alike."""
    seen = SeenNotes.of(source.train, seed=seed)
    for target in corpora:
        shared = seen.overlap(target.test).notes
        if shared:
            raise CorpusError(
                f"{target.name}: {shared} of the notes to score are among the training notes of {source.name}"
            )


def _answer(trained: Sequence[Ensemble], documents: Sequence[Document]) -> ScoredAnswer:
    """Let the system of a row annotate notes; it was trained if any of the row's answers was missing."""
    return ScoredAnswer.of(trained[0], documents)
