"""A model over many notes, note by note failing closed: what cannot be processed whole is withheld and reported."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from joblib import Parallel, delayed

from ensemble_deid.errors import DeidError
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.text.document import Document

# The same notes go together whatever the number of processes, so that results do not depend on it.
_NOTES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """One note: with the spans found, or why it was withheld (never both)."""

    name: str
    document: Document | None = field(repr=False)
    problem: str | None


@lru_cache(maxsize=1)
def _model(directory: Path, device: str | None) -> Ensemble:
    return load_model(directory, device=device)[0]


def predict_notes(
    directory: Path,
    notes: Iterable[tuple[str, Document | DeidError]],
    *,
    submodel: str | None = None,
    jobs: int = 1,
    device: str | None = None,
) -> Iterator[Outcome]:
    """Yield an outcome for every note, in order.

    Notes are read while others are processed, eight at a time in each of `jobs` processes, so a corpus larger than
    memory passes. Raises ModelError or ConfigError when the model itself cannot be used.
    """
    if jobs == 1:
        for chunk in _chunks(notes):
            yield from _process(directory, chunk, submodel, device)
        return
    runs = (delayed(_process)(directory, chunk, submodel, device) for chunk in _chunks(notes))
    for outcomes in Parallel(n_jobs=jobs, return_as="generator", pre_dispatch="2*n_jobs")(runs):
        yield from outcomes


Note = tuple[str, Document | DeidError]


def _chunks(notes: Iterable[Note]) -> Iterator[list[Note]]:
    chunk: list[Note] = []
    for note in notes:
        chunk.append(note)
        if len(chunk) == _NOTES_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _process(directory: Path, chunk: list[Note], submodel: str | None, device: str | None) -> list[Outcome]:
    ensemble = _model(directory, device)
    readable = [(name, note) for name, note in chunk if isinstance(note, Document)]
    done = {name: outcome for (name, _), outcome in zip(readable, _predict(ensemble, readable, submodel), strict=True)}
    return [Outcome(name, None, str(note)) if isinstance(note, DeidError) else done[name] for name, note in chunk]


def _predict(ensemble: Ensemble, notes: list[tuple[str, Document]], submodel: str | None) -> list[Outcome]:
    """Predict together; when that fails, each note alone, so that one bad note withholds only itself."""
    try:
        found = ensemble.predict([document for _, document in notes], submodel=submodel)
    except DeidError:
        # The model, not a note, is at fault: there is nothing to go on with.
        raise
    except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
        if len(notes) > 1:
            return [outcome for note in notes for outcome in _predict(ensemble, [note], submodel)]
        # The type alone: the message of an unforeseen error may quote the note.
        return [Outcome(notes[0][0], None, f"{notes[0][0]}: processing failed ({type(error).__name__})")]
    pairs = zip(notes, found, strict=True)
    return [Outcome(name, document.with_spans(spans), None) for (name, document), spans in pairs]
