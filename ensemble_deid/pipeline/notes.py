"""Running a model over many notes, a few at a time: one that cannot be processed whole is withheld and reported.

A note has one of two shapes on its whole way from the reader to the writer: a `Document`, or the `DeidError` that says
why it is withheld.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from joblib import delayed

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError, RuleError
from ensemble_deid.parallel import beside, in_processes
from ensemble_deid.pipeline.combiners import SVM
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.loading import ModelSource, load_once
from ensemble_deid.pipeline.portions import PORTION
from ensemble_deid.text.document import Document

# The same notes go together whatever the number of processes, so that results do not depend on it.
BATCH_SIZE = 8

Note = Document | DeidError


@dataclass(frozen=True, slots=True)
class Options:
    """What `Ensemble.predict` is asked for."""

    submodel: str | None
    threshold: float | None
    combiner: str


def predict_notes(
    ensemble: Ensemble,
    notes: Iterable[Note],
    *,
    source: ModelSource | None = None,
    submodel: str | None = None,
    threshold: float | None = None,
    combiner: str = SVM,
    batch_size: int = BATCH_SIZE,
    jobs: int = 1,
) -> Iterator[Note]:
    """Return an iterator over the notes, in order, with the spans found; errors among them are handed on.

    Notes are read while others are processed, `batch_size` at a time in each of `jobs` processes, so a corpus larger
    than memory passes. `source` is what other processes load the model from. Raises ConfigError, at the call, for
    options that this model cannot serve; what only shows when a process loads the model is raised by the iterator.
    """
    chunks = predict_chunks(
        ensemble,
        notes,
        source=source,
        submodel=submodel,
        threshold=threshold,
        combiner=combiner,
        batch_size=batch_size,
        jobs=jobs,
    )
    return (note for chunk in chunks for note in chunk)


def predict_chunks(
    ensemble: Ensemble,
    notes: Iterable[Note],
    *,
    source: ModelSource | None = None,
    submodel: str | None = None,
    threshold: float | None = None,
    combiner: str = SVM,
    batch_size: int = BATCH_SIZE,
    jobs: int = 1,
) -> Iterator[list[Note]]:
    """Return what `predict_notes` does, with the notes that were processed together in one list.

    Who begins again where one of the lists ended gets the same lists from there on.
    """
    for name, value in (("batch_size", batch_size), ("jobs", jobs)):
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
    ensemble.check_options(submodel=submodel, threshold=threshold, combiner=combiner)
    options = Options(submodel, threshold, combiner)
    chunks = _chunks(notes, batch_size)
    if jobs == 1:
        return (_predict_chunk(ensemble, chunk, options) for chunk in chunks)
    if source is None:
        raise ConfigError(f"jobs={jobs} needs a model that other processes can load: save this one, then load it")
    runs = (delayed(_predict_apart)(source, chunk, options) for chunk in chunks)
    return in_processes(runs, jobs=jobs, ahead="2*n_jobs")


def load_apart(source: ModelSource, *, jobs: int) -> AbstractContextManager[None]:
    """Let the processes that `jobs` stands for load a model while the block runs, which loads it here."""
    return beside(delayed(_load_apart)(source), jobs=jobs) if jobs > 1 else nullcontext()


def check_note(document: Document) -> None:
    """Raise CorpusError for what is no note: no Document, a text that is no string, NUL, unpaired surrogates."""
    if not isinstance(document, Document):
        raise CorpusError(f"a note must be a Document, not {type(document).__name__}")
    if not isinstance(document.text, str):
        raise CorpusError(f"{document.id}: the text must be a string, not {type(document.text).__name__}")
    check_text(document.text, document.id)


def _chunks(notes: Iterable[Note], batch_size: int) -> Iterator[list[Note]]:
    """Yield notes that go together: at most so many, and no more once they are long."""
    chunk: list[Note] = []
    size = 0
    for note in notes:
        checked = _checked(note)
        chunk.append(checked)
        size += len(checked.text) if isinstance(checked, Document) else 0
        if len(chunk) == batch_size or size >= PORTION:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _checked(note: Note) -> Note:
    if isinstance(note, DeidError):
        return note
    try:
        check_note(note)
    except CorpusError as error:
        return error
    return note


def _load_apart(source: ModelSource) -> None:
    # The model stays in its process: what is returned would be sent.
    load_once(source)


def _predict_apart(source: ModelSource, chunk: list[Note], options: Options) -> list[Note]:
    return _predict_chunk(load_once(source), chunk, options)


def _predict_chunk(ensemble: Ensemble, chunk: list[Note], options: Options) -> list[Note]:
    predicted = iter(_predict(ensemble, [note for note in chunk if isinstance(note, Document)], options))
    return [note if isinstance(note, DeidError) else next(predicted) for note in chunk]


def _predict(ensemble: Ensemble, documents: list[Document], options: Options) -> list[Note]:
    """Predict together; when that fails, each note alone, so that one bad note withholds only itself."""
    try:
        found = ensemble.predict(
            documents, submodel=options.submodel, threshold=options.threshold, combiner=options.combiner
        )
    except (ConfigError, ModelError, RuleError):
        # The model, not a note, is at fault: there is nothing to go on with.
        raise
    except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
        if len(documents) > 1:
            return [note for document in documents for note in _predict(ensemble, [document], options)]
        # Of an unforeseen error the type alone: its message may quote the note.
        failure = f"{documents[0].id}: processing failed ({type(error).__name__})"
        return [error if isinstance(error, CorpusError) else CorpusError(failure)]
    return [document.with_spans(spans) for document, spans in zip(documents, found, strict=True)]
