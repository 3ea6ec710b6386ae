"""Files with a message, or FHIR resources on lines, as notes: the same messages out, with their text replaced."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.corpora.checks import reading
from ensemble_deid.corpora.compressed import reading_plain, writing_compressed
from ensemble_deid.corpora.messages.content import Message
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.messages.hl7 import read_hl7
from ensemble_deid.corpora.messages.xml import read_xml
from ensemble_deid.corpora.record_map import FieldRules
from ensemble_deid.corpora.records import CountedByReading, NewRecord, OnOutput, Record, digest_of
from ensemble_deid.corpora.tables.json_lines import LineWriter
from ensemble_deid.errors import CorpusError

READERS: dict[str, Callable[[bytes, str, FieldRules | None], Message]] = {
    "fhir": read_fhir,
    "hl7": read_hl7,
    "xml": read_xml,
}
_NAMED = 8


@dataclass(slots=True)
class MessageFile:
    """A FHIR resource, an HL7 message, or any XML with rules.

    Without `rules` or `keep_fields`, one with more than note text is withheld. `authorities` holds the authority that
    assigned a folder's patient ids.
    """

    path: Path
    format: str
    keep_fields: bool
    rules: FieldRules | None = None
    bits: tuple[int, int] = (64, 64)
    kept: set[str] = field(default_factory=set)
    authorities: set[str] = field(default_factory=set, repr=False)

    def count(self) -> int:
        return 1

    def warnings(self) -> Sequence[str]:
        """Return which fields are handed out as they are."""
        said = "handed out as they are, whatever they hold, are the fields"
        return [f"{self.path}: {said} {_listed(sorted(self.kept))}"] if self.kept else []

    def records(self) -> Iterator[Record]:
        try:
            with reading(self.path) as stream:
                data = stream.read()
            message = READERS[self.format](data, str(self.path), self.rules)
            if message.kept and not self.keep_fields:
                raise CorpusError(
                    f"{self.path}: also holds {_listed(message.kept)}, which may be PHI and are not replaced; "
                    "--map replaces or drops them, --keep-fields hands them out as they are"
                )
            if self.rules is not None and message.authority:
                self.authorities |= set() if self.authorities else {message.authority}
                if message.authority not in self.authorities:
                    raise CorpusError(
                        f"{self.path}: its patient's id has another assigning authority than earlier ones, "
                        'so it may be another patient\'s: name yours in the rule, { ..., authority = "NAME" }'
                    )
        except CorpusError as error:
            yield Record("message", error=error)
            return
        self.kept |= set(message.kept)
        yield _record("message", message, data, mapped=self.rules is not None)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_MessageWriter"]:
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
            write_bytes_atomically(self.out, record.raw.written(new.edits, new.fields))
        except OSError as error:
            raise CorpusError(f"{error.filename}: cannot be written: {error.strerror}") from None
        self.on_output(self.out, digest_of(self.out))


def _record(name: str, message: Message, data: bytes, *, mapped: bool) -> Record:
    # With a map, a message need not have a text.
    text = None if mapped and not message.text else message.text
    patient, fields, key = message.patient, message.fields, message.key
    return Record(name, text, patient=patient, fields=fields, raw=message, cells=lambda: data, key=key)


@dataclass(slots=True)
class FhirLines(CountedByReading):
    """NDJSON: a FHIR resource on each line, with the rules of a record map. A withheld line is left out."""

    path: Path
    rules: FieldRules
    format: str = "jsonl"
    bits: tuple[int, int] = (64, 64)

    def records(self) -> Iterator[Record]:
        with reading_plain(self.path) as stream:
            for number, data in enumerate(stream, start=1):
                name, line = f"line {number}", data.strip(b" \t\r\n")
                if not line:
                    yield Record(name, blank=True, raw=data)
                    continue
                try:
                    message = read_fhir(line, f"{self.path}:{number}", self.rules)
                    if message.kept:
                        raise CorpusError(f"{self.path}:{number}: also holds {_listed(message.kept)}, which may be PHI")
                except CorpusError as error:
                    yield Record(name, error=error)
                    continue
                yield _record(name, message, line, mapped=True)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator[LineWriter]:
        with writing_compressed(out) as stream:
            yield LineWriter(stream, lambda record, new: record.raw.written(new.edits, new.fields) + b"\n")
        on_output(out, digest_of(out))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
