"""Notes among other cells: what a source of notes yields, and what its writer needs to write the rows without PHI.

A source is read more than once, always in the same order. `Record.raw` is the form of the input, which only the
source's own writer looks into.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from ensemble_deid.corpora.edits import Edit
from ensemble_deid.corpora.record_map import Field
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document, known_patient, patient_of

Value = str | int | date | None


@dataclass(frozen=True, slots=True)
class Record:
    """One row, line or file: the note's text (None where there is none), its ids and dates, and other `fields`.

    `name` is what messages call it, which is no value of its cells. `error` says why it could not be read; it is then
    left out of the output. `blank` marks what is no record at all, such as an empty line, and is written as it was.
    A `patient` that names nobody, such as `NULL`, is the `placeholder`, and the record then is of no known patient.
    `cells` returns all values of the record, also unused ones, which shows whether it was corrected; `key` identifies a
    record without an id in a project.
    """

    name: str
    text: str | None = field(default=None, repr=False)
    id: Value = field(default=None, repr=False)
    patient: Value = field(default=None, repr=False)
    dates: tuple[Value, ...] = field(default=(), repr=False)
    error: DeidError | None = None
    blank: bool = False
    fields: tuple[Field, ...] = field(default=(), repr=False)
    raw: Any = field(default=None, repr=False)
    cells: Callable[[], object] = field(default=lambda: None, repr=False, compare=False)
    key: str | None = field(default=None, repr=False)
    placeholder: Value = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.patient is not None and known_patient(str(self.patient)) is None:
            object.__setattr__(self, "placeholder", self.patient)
            object.__setattr__(self, "patient", None)

    @property
    def is_note(self) -> bool:
        """Whether there is a text to process, or one that could not be read."""
        return self.text is not None or self.error is not None

    @property
    def note(self) -> Document | DeidError:
        """The note for the model, or the error that says why it could not be read."""
        return self.error or self.document()

    def document(self) -> Document:
        """Return the note for the model, named as messages may name it."""
        patient = None if self.patient is None else str(self.patient)
        # What the fields of a note of nobody hold is known of that note.
        owner = patient_of(patient, self.text) if self.fields and self.text else patient
        return Document(self.name, self.text or "", patient_id=owner)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """What stands in a record's place: `edits` to its text in text order, None where the note is withheld."""

    edits: tuple[Edit, ...] | None = field(repr=False)
    id: Value = field(default=None, repr=False)
    patient: Value = field(default=None, repr=False)
    dates: tuple[Value, ...] = field(default=(), repr=False)
    fields: tuple[Value, ...] = field(default=(), repr=False)


class Writer(Protocol):
    """Writes records in the order in which the source yields them."""

    def write(self, record: Record, new: NewRecord) -> None:
        """Write one record. Raises CorpusError where it cannot be written: it has not been written then."""


OnOutput = Callable[[Path, str], None]
"""Is told of each file that is finished, with its SHA-256."""


class NoteSource(Protocol):
    """Notes in some form, which can be read any number of times, and written in the same form."""

    @property
    def format(self) -> str:
        """What the input is, for the manifest."""

    @property
    def bits(self) -> tuple[int, int]:
        """The size of integers that ids and patients can be, in bits: their pseudonyms must have room, too."""

    def count(self) -> int:
        """Return the number of notes. Raises CorpusError where the input's structure is broken."""

    def records(self) -> Iterator[Record]:
        """Yield every record. Raises CorpusError where the input's structure is broken."""

    def writer(self, out: Path, on_output: OnOutput) -> AbstractContextManager[Writer]:
        """Provide a writer; what it writes to single files is in place when the block ends without an error."""

    def warnings(self) -> Sequence[str]:
        """Return what whoever hands out the output must know, once it has been counted."""


class CountedByReading:
    """A source whose notes are counted by reading them, and of whose output nobody must be warned."""

    def records(self) -> Iterator[Record]:
        raise NotImplementedError

    def count(self) -> int:
        return sum(record.is_note for record in self.records())

    def warnings(self) -> Sequence[str]:
        return ()


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
