"""Read a whole corpus, or note by note, continuing after a bad one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_deid.corpora.checks import Notice, ReadNote, check_file_name, patient_of_name, printable
from ensemble_deid.corpora.locate import Location, locate_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

# A corpus as it was read: the notes, and the warnings of the reader.


@dataclass(frozen=True, slots=True)
class Corpus:
    """Notes sorted by file name (JSONL: in the order of the lines), with unique ids.

    `format` is the name of the format they were read from, `source` the file or folder. `warnings` has one line for
    each thing that a person should know, and how it was handled: overlapping gold spans (kept), repeated ones
    (dropped), files of other types (not read).

    >>> from ensemble_deid import read_corpus
    >>> corpus = read_corpus("demo:dev")
    >>> len(corpus) == len(corpus.documents), corpus.format, "PATIENT" in corpus.labels
    (True, 'i2b2', True)
    """

    documents: tuple[Document, ...]
    format: str
    source: Path
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur in the notes, sorted."""
        return tuple(sorted({span.label for document in self.documents for span in document.spans}))


_NAMELESS_PATIENTS = ("brat", "cas", "plain")


def read_corpus(path: Path | str, *, format: str | None = None, gold: bool = True) -> Corpus:
    """Read all notes of `path`; the format is detected unless it is named.

    `path` is a folder, a file, or a part of the demo corpus: `demo:train`, `demo:dev`, `demo:test`, `demo:site`.
    `gold=False` reads only the text and ignores annotations, even broken ones. Raises CorpusError with the file and the
    place of the first problem; ids must be unique in the corpus.

    >>> from ensemble_deid import read_corpus
    >>> for note in read_corpus("demo:dev").documents[:2]:
    ...     print(note.id, note.patient_id, len(note.spans) > 0)
    1250-01 1250 True
    1250-02 1250 True
    """
    location = locate_corpus(path, format=format)
    folders = [f"{folder}: is a folder, whose notes were not read" for folder in location.folders]
    location = replace(location, folders=())
    documents: list[Document] = []
    notices: Counter[Notice] = Counter()
    for _, outcome in _outcomes(location, gold):
        if isinstance(outcome, CorpusError):
            raise outcome
        documents.append(outcome.document)
        notices.update(outcome.notices)
    if not documents:
        raise CorpusError(f"{location.source}: the corpus is empty: it has no notes")
    warnings = [f"{location.source}: {notices[notice]} {notice.value}" for notice in Notice if notices[notice]]
    if gold and location.format.name == "plain":
        warnings.append(f"{location.source}: plain text carries no annotations")
    return Corpus(tuple(documents), location.format.name, location.source, (*location.remarks, *folders, *warnings))


def iterate_notes(
    location: Location, *, gold: bool = False, file_names: bool = False
) -> Iterator[Document | CorpusError]:
    """Yield every note of a located corpus, or the error that names it, one at a time, going on after a bad one.

    With `file_names`, an id that cannot be a file name makes its note a bad one. Whatever lies in the folder but cannot
    be read, folders included, is an error of its own: it may hold notes.
    """
    for name, outcome in _outcomes(location, gold):
        if isinstance(outcome, CorpusError):
            outcome.note = name
            yield outcome
            continue
        try:
            if file_names:
                check_file_name(outcome.document.id, outcome.place)
        except CorpusError as error:
            yield error
        else:
            yield outcome.document


def _outcomes(location: Location, gold: bool) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    for folder in location.folders:
        yield folder.name, CorpusError(f"{folder}: is a folder, whose notes were not read")
    for path, what in location.unreadable.items():
        yield path.name, CorpusError(f"{printable(str(path))}: is {what}")
    names = [path.stem for path in location.files]
    # File names identify patients only if all of them have the form XXX-YY.
    by_name = location.format.name in _NAMELESS_PATIENTS and all(patient_of_name(name) for name in names)
    first_seen: dict[str, str] = {}
    for path in location.files:
        for name, outcome in location.format.read_file(path, gold):
            if isinstance(outcome, CorpusError):
                yield name, outcome
                continue
            identity, place = outcome.document.id, outcome.place or str(path)
            if identity in first_seen:
                said = f"{place}: the id '{identity}' occurs twice (first in {first_seen[identity]})"
                yield name, CorpusError(said)
                continue
            first_seen[identity] = place
            document = outcome.document
            if by_name:
                document = replace(document, patient_id=patient_of_name(identity))
            yield name, ReadNote(document, outcome.notices, place)
