"""Run a model over notes, a few at a time; a note that cannot be processed whole is withheld and reported.

From reader to writer, a note is a `Document`, or the `DeidError` that says why it is withheld.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError, RuleError
from ensemble_deid.model.ensemble import Ensemble, ModelDescription
from ensemble_deid.model.loading import ModelSource, load_once
from ensemble_deid.model.options import BATCH_CHARACTERS, PredictionOptions
from ensemble_deid.note.document import Document, is_missing
from ensemble_deid.note.reading import is_ordinary, remember_ordinary
from ensemble_deid.parallel import delayed, in_each_process, in_processes

Note = Document | DeidError


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How many notes are read (`phase` read), or written and withheld (`phase` write), of `total`; 0 if unknown."""

    phase: str
    done: int
    total: int
    withheld: int = 0


Report = Callable[[RunProgress], None]


def predict_here(ensemble: Ensemble, notes: Iterable[Note], options: PredictionOptions) -> Iterator[list[Note]]:
    """Yield the notes with their spans, in order, in one list those that were processed together.

    Spans of enforced patterns come last and may overlap others; errors among the notes are passed on. Resuming at a
    list's boundary yields the same lists from there on.
    """
    return (_predict_chunk(ensemble, chunk, options) for chunk in _chunks(notes, options.batch_size))


def predict_apart(source: ModelSource, notes: Iterable[Note], options: PredictionOptions) -> Iterator[list[Note]]:
    """Yield what `predict_here` does, computed in other processes, which load the model once.

    Notes are read while others are processed, so a corpus larger than memory passes. Raises ModelError when the model
    was replaced meanwhile.
    """
    chunks = _chunks(notes, options.batch_size)
    runs = (delayed(_predict_chunk_of)(source, chunk, options) for chunk in chunks)
    with closing(in_processes(runs, jobs=options.jobs, ahead="2*n_jobs")) as results:
        for predicted, ordinary in results:
            remember_ordinary(predicted[place].text for place in ordinary)
            yield predicted


def describe_apart(source: ModelSource, *, jobs: int) -> ModelDescription:
    """Load a model in `jobs` other processes, and return its description. Raises what `load_model` raises there."""
    description: ModelDescription = in_each_process(delayed(_describe)(source), jobs=jobs)
    return description


def check_note(document: Document) -> None:
    """Raise CorpusError for what is no note: no Document, a text that is no string, NUL, unpaired surrogates."""
    if not isinstance(document, Document):
        raise CorpusError(f"a note must be a Document, not {type(document).__name__}")
    if document.text is not None and is_missing(document.text):
        raise CorpusError(f"{document.id}: the text is NaN, a missing value: leave such notes out")
    if not isinstance(document.text, str):
        raise CorpusError(f"{document.id}: the text must be a string, not {type(document.text).__name__}")
    check_text(document.text, document.id)


def _chunks(notes: Iterable[Note], batch_size: int) -> Iterator[list[Note]]:
    """Yield notes that go together: at most so many, and no more once they are long."""
    chunk: list[Note] = []
    size = 0
    for note in notes:
        if not isinstance(note, DeidError):
            try:
                check_note(note)
                size += len(note.text)
            except CorpusError as error:
                note = error
        chunk.append(note)
        if len(chunk) == batch_size or size >= BATCH_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _describe(source: ModelSource) -> ModelDescription:
    # The model stays in its process: what is returned is sent.
    return load_once(source).description


def _predict_chunk_of(
    source: ModelSource, chunk: list[Note], options: PredictionOptions
) -> tuple[list[Note], list[int]]:
    """Return the notes, and the places of those whose text is ordinary."""
    notes = _predict_chunk(load_once(source), chunk, options)
    return notes, [k for k, note in enumerate(notes) if isinstance(note, Document) and is_ordinary(note.text)]


def _predict_chunk(ensemble: Ensemble, chunk: list[Note], options: PredictionOptions) -> list[Note]:
    predicted = iter(_predict(ensemble, [note for note in chunk if isinstance(note, Document)], options))
    return [note if isinstance(note, DeidError) else next(predicted) for note in chunk]


def _predict(ensemble: Ensemble, documents: list[Document], options: PredictionOptions) -> list[Note]:
    """Predict together; when that fails, each note alone, so that one bad note withholds only itself."""
    try:
        found = ensemble.predict(documents, options)
        return [
            document.with_spans((*spans, *ensemble.enforced_spans(document)))
            for document, spans in zip(documents, found, strict=True)
        ]
    except (ConfigError, ModelError, RuleError):
        # The model, not a note, is at fault: there is nothing to go on with.
        raise
    except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
        if len(documents) > 1:
            return [note for document in documents for note in _predict(ensemble, [document], options)]
        # Of an unforeseen error the type alone: its message may quote the note.
        failure = f"{documents[0].id}: processing failed ({type(error).__name__})"
        return [error if isinstance(error, CorpusError) else CorpusError(failure)]
