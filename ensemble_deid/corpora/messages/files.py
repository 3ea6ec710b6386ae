"""A file with one message as a source of one note: the same message out, with its note text replaced."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.corpora.checks import reading
from ensemble_deid.corpora.messages.content import Message
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.messages.hl7 import read_hl7
from ensemble_deid.corpora.records import NewRecord, OnOutput, Record, digest_of
from ensemble_deid.errors import CorpusError

READERS: dict[str, Callable[[bytes, str], Message]] = {"fhir": read_fhir, "hl7": read_hl7}
_NAMED = 8


@dataclass(slots=True)
class MessageFile:
    """A FHIR resource or an HL7 message. Unless `keep_fields`, one with more than note text is withheld."""

    path: Path
    format: str
    keep_fields: bool
    rules: Rules | None = None
    bits: tuple[int, int] = (64, 64)
    kept: set[str] = field(default_factory=set)

    def count(self) -> int:
        """Return one: a file is a message."""
        return 1

    def warnings(self) -> Sequence[str]:
        """Return which fields are handed out as they are."""
        said = "handed out as they are, whatever they hold, are the fields"
        return [f"{self.path}: {said} {_listed(sorted(self.kept))}"] if self.kept else []

    def records(self) -> Iterator[Record]:
        """Yield the message, or its error."""
        try:
            with reading(self.path) as stream:
                message = READERS[self.format](stream.read(), str(self.path))
            if message.kept and not self.keep_fields:
                raise CorpusError(
                    f"{self.path}: also holds {_listed(message.kept)}, which may be PHI and are not replaced; "
                    "--keep-fields hands them out as they are"
                )
        except CorpusError as error:
            yield Record("message", error=error)
            return
        self.kept |= set(message.kept)
        cells = partial(message.written, ())
        yield Record("message", message.text, patient=message.patient, raw=message, cells=cells)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_MessageWriter"]:
        """Provide the writer of the file `out`."""
        yield _MessageWriter(out, on_output)


@dataclass(slots=True)
class _MessageWriter:
    out: Path
    on_output: OnOutput

    def write(self, record: Record, new: NewRecord) -> None:
        """Write the message; where it is withheld, remove what an earlier run wrote."""
        try:
            if new.edits is None or not isinstance(record.raw, Message):
                self.out.unlink(missing_ok=True)
                return
            write_bytes_atomically(self.out, record.raw.written(new.edits))
        except OSError as error:
            raise CorpusError(f"{error.filename}: cannot be written: {error.strerror}") from None
        self.on_output(self.out, digest_of(self.out))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
