"""A model over many notes, note by note failing closed: what cannot be processed whole is withheld and reported."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from joblib import delayed

from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError, RuleError
from ensemble_deid.parallel import in_processes
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.manifest import read_manifest
from ensemble_deid.pipeline.portions import PORTION
from ensemble_deid.pipeline.submodels import refuse_unknown
from ensemble_deid.text.document import Document

# The same notes go together whatever the number of processes, so that results do not depend on it.
_NOTES_AT_ONCE = 8

Note = tuple[str, Document | DeidError]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One note: with the spans found, or why it was withheld (never both)."""

    name: str
    document: Document | None = field(repr=False)
    problem: str | None


def predict_notes(
    directory: Path, notes: Iterable[Note], *, submodel: str | None = None, jobs: int = 1, device: str | None = None
) -> Iterator[Outcome]:
    """Return an iterator over an outcome for every note, in order.

    Notes are read while others are processed, a few at a time in each of `jobs` processes, so a corpus larger than
    memory passes. Raises ModelError or ConfigError, at the call, when the model cannot be used; what only shows when
    a process loads the model is raised by the iterator.
    """
    if jobs == 1:
        ensemble, _ = load_model(directory, device=device)
        refuse_unknown(submodel, ensemble.taggers)
        return (outcome for chunk in _chunks(notes) for outcome in _process(ensemble, chunk, submodel))
    manifest = read_manifest(directory)
    refuse_unknown(submodel, manifest.config.get("submodels", ()))
    # Absolute, since a process that was started earlier may stand in another folder.
    place = directory.absolute()
    runs = (delayed(_process_apart)(place, device, manifest.checksum, chunk, submodel) for chunk in _chunks(notes))
    done = in_processes(runs, jobs=jobs, ahead="2*n_jobs")
    return (outcome for outcomes in done for outcome in outcomes)


def _chunks(notes: Iterable[Note]) -> Iterator[list[Note]]:
    """Yield notes that go together: at most so many, and no more once they are long."""
    chunk: list[Note] = []
    size = 0
    for name, note in notes:
        chunk.append((name, note))
        size += len(note.text) if isinstance(note, Document) else 0
        if len(chunk) == _NOTES_AT_ONCE or size >= PORTION:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@lru_cache(maxsize=1)
def _loaded(directory: Path, device: str | None, checksum: str) -> Ensemble:
    """Load a model once in a process; by the checksum, one trained anew in the same place is another one."""
    ensemble, manifest = load_model(directory, device=device)
    if manifest.checksum != checksum:
        raise ModelError(f"{directory}: the model was replaced while it was in use")
    return ensemble


def _process_apart(
    directory: Path, device: str | None, checksum: str, chunk: list[Note], submodel: str | None
) -> list[Outcome]:
    return _process(_loaded(directory, device, checksum), chunk, submodel)


def _process(ensemble: Ensemble, chunk: list[Note], submodel: str | None) -> list[Outcome]:
    readable = [(name, note) for name, note in chunk if isinstance(note, Document)]
    predicted = iter(_predict(ensemble, readable, submodel))
    return [Outcome(name, None, str(note)) if isinstance(note, DeidError) else next(predicted) for name, note in chunk]


def _predict(ensemble: Ensemble, notes: list[tuple[str, Document]], submodel: str | None) -> list[Outcome]:
    """Predict together; when that fails, each note alone, so that one bad note withholds only itself."""
    try:
        found = ensemble.predict([document for _, document in notes], submodel=submodel)
    except (ConfigError, ModelError, RuleError):
        # The model, not a note, is at fault: there is nothing to go on with.
        raise
    except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
        if len(notes) > 1:
            return [outcome for note in notes for outcome in _predict(ensemble, [note], submodel)]
        name = notes[0][0]
        # Of an unforeseen error the type alone: its message may quote the note.
        said = str(error) if isinstance(error, CorpusError) else f"{name}: processing failed ({type(error).__name__})"
        return [Outcome(name, None, said)]
    pairs = zip(notes, found, strict=True)
    return [Outcome(name, document.with_spans(spans), None) for (name, document), spans in pairs]
