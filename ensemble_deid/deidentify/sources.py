"""Where the notes of a run are read, and where they may be written: tables, messages, databases, files of notes."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.atomic import LOCK, check_writable, folder_atomically, remove_stale
from ensemble_deid.corpora.checks import printable
from ensemble_deid.corpora.compressed import plain_name
from ensemble_deid.corpora.formats import FORMATS
from ensemble_deid.corpora.input_options import InputOptions, folders_read, table_kind
from ensemble_deid.corpora.note_files import NoteFiles, is_single, nested_locations
from ensemble_deid.corpora.read import locate_corpus, no_file
from ensemble_deid.corpora.record_map import FieldKind, FieldRule
from ensemble_deid.corpora.records import CountedByReading, NoteSource, OnOutput, Record, Writer, digest_of
from ensemble_deid.corpora.tables.arrow import ArrowTable
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.delimited import DelimitedTable
from ensemble_deid.corpora.tables.json_lines import DEFAULTS, JsonLines
from ensemble_deid.corpora.tables.several import SeveralTables
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.deidentify.manifest import FAILED, MANIFEST, SPANS
from ensemble_deid.deidentify.offsets import FILE as OFFSETS
from ensemble_deid.deidentify.offsets import KEY_FILE
from ensemble_deid.deidentify.outputs import (
    Input,
    refuse_inside,
    refuse_nested_output,
    refuse_output,
    refuse_output_files,
    refuse_shared,
)
from ensemble_deid.errors import ConfigError, CorpusError, DeidError

MESSAGES = ("fhir", "hl7", "xml")
"""Formats without columns, of which fields are kept."""
FileOrStream = str | Path | BinaryIO


def note_source(given: str | Path, options: InputOptions, *, leave_out: Sequence[Path]) -> NoteSource:
    """Return the source of the notes in a file, folder or database. Raises CorpusError and ConfigError."""
    format, path = options.kind_of(given, leave_out=leave_out), Path(given)
    if (format == "sql") != (options.query is not None and options.table_out is not None):
        raise ConfigError("a database needs --query and --table-out, and nothing else can use them")
    if format == "files" and (options.record_map is not None or options.rules):
        raise ConfigError("--map and --column say what surrounds the text: plain notes have nothing around them")
    messages = format in MESSAGES or _is_fhir_lines(format, options)
    if messages and options.rules:
        raise ConfigError("--column names columns of a table, or fields of JSONL: the input has none")
    if options.record_map is not None and options.keep_fields:
        raise ConfigError("--keep-fields passes what a --map would drop: give one of them")
    if (format == "files" or messages) and options.columns not in (None, Columns()):
        raise ConfigError("--text-column and the like name columns of a table, or fields of JSONL: the input has none")
    if options.keep_fields and format not in MESSAGES:
        raise ConfigError("--keep-fields is for FHIR and HL7, and the input is neither")
    if format == "files":
        return note_files(given, options, leave_out=leave_out)
    if options.query is not None and options.table_out is not None:
        return SqlQuery(str(given), options.query, options.table_out, _columns(options, format, options.table_out))
    if path.is_dir():
        files, remarks = _files(path, format, nested=options.recursive, leave_out=leave_out)
        authorities: set[str] = set()
        tables = [(file, _table(file, format, options, authorities)) for file in files]
        return SeveralTables(path, tables, format, remarks)
    if not path.is_file():
        raise CorpusError(f"{path}: there is no such file or folder")
    return _table(path, format, options, set())


def note_files(given: str | Path, options: InputOptions, *, leave_out: Sequence[Path]) -> NoteFiles:
    """Return the notes of a file or folder where each is a file. Raises CorpusError."""
    if options.recursive and Path(given).is_dir():
        return NoteFiles(nested_locations(Path(given), format=options.format, leave_out=leave_out))
    location = locate_corpus(given, format=options.format)
    for folder in leave_out:
        location = location.without(folder)
    return NoteFiles([(Path(), location)])


def _is_fhir_lines(format: str, options: InputOptions) -> bool:
    given = options.record_map
    return format == "jsonl" and given is not None and bool(given.fhir) and not (given.columns or given.tables)


@dataclass(slots=True)
class SomeRecords(CountedByReading):
    """The `wanted` records of a source."""

    source: NoteSource
    wanted: Callable[[Record], bool]

    @property
    def format(self) -> str:
        return self.source.format

    @property
    def bits(self) -> tuple[int, int]:
        return self.source.bits

    def records(self) -> Iterator[Record]:
        return filter(self.wanted, self.source.records())

    def writer(self, out: Path, on_output: OnOutput) -> AbstractContextManager[Writer]:
        return self.source.writer(out, on_output)

    def warnings(self) -> Sequence[str]:
        return self.source.warnings()


def _table(path: Path, format: str, options: InputOptions, authorities: set[str]) -> NoteSource:
    if format in MESSAGES or _is_fhir_lines(format, options):
        # Their parsers would take longer to import than a note takes to be read.
        from ensemble_deid.corpora.messages.files import FhirLines, MessageFile

        if options.record_map is not None and format not in MESSAGES:
            return FhirLines(path, options.record_map.fhir)
        rules = None if options.record_map is None else options.record_map.of_messages(format)
        return MessageFile(path, format, options.keep_fields, rules, authorities=authorities)
    columns = _columns(options, format, plain_name(path).stem)
    if format == "jsonl":
        return JsonLines(path, columns)
    return (DelimitedTable if format in ("csv", "tsv") else ArrowTable)(path, format, columns)


def _columns(options: InputOptions, format: str, table: str) -> Columns:
    columns, given = options.columns or Columns(), options.record_map
    usual = DEFAULTS if format == "jsonl" and given is None else {}
    columns = replace(columns, id=columns.id or usual.get("id"), patient=columns.patient or usual.get("patient"))
    if given is None and not options.rules:
        return columns
    # A text that no rule names is that of the option.
    rules = {} if given is None else given.of_table(table)
    if given is None and columns.text is not None:
        rules = {columns.text: FieldRule(FieldKind.TEXT)}
    return Columns.of_rules(
        {**rules, **options.rules},
        columns,
        drop_rest=given is not None,
        optional=given is not None and given.optional,
    )


def _files(folder: Path, format: str, *, nested: bool, leave_out: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return a folder's tables and remarks on other files.

    Raises CorpusError for none, for nested ones without `nested`, and for what cannot be read and may hold some.
    """
    files: list[Path] = []
    for here, entries in folders_read(folder, leave_out=leave_out):
        files += entries
        for entry in entries if nested or here == folder else ():
            if what := "a linked folder, which is not read" if entry.is_dir() else no_file(entry):
                raise CorpusError(f"{printable(str(entry))}: is {what}")
    files.sort()
    found = [path for path in files if (table_kind(path) or path.suffix.lower()[1:]) == format]
    if not nested:
        deeper = next((path for path in found if path.parent != folder), None)
        if deeper is not None:
            raise CorpusError(f"{deeper}: in a subfolder of the input; --recursive reads these, too")
        files = [path for path in files if path.parent == folder]
    if not found:
        raise CorpusError(f"{folder}: the corpus is empty: no {format} file")
    return found, [f"{path}: not a {format} file: skipped" for path in files if path not in set(found)]


# What a run has read, as a digest, so that it is not taken for done with other notes.


def input_digest(source: NoteSource) -> str | None:
    """Return a digest of all files of a folder or all rows of a query; None for one file, whose digest is known."""
    if isinstance(source, SqlQuery):
        return source.input_digest()
    if isinstance(source, NoteFiles):
        files = {file for _, place in source.places for file in place.files}
    elif isinstance(source, SeveralTables):
        files = {file for file, _ in source.tables}
    else:
        return None
    lines = "".join(f"{_digest_or_none(file)}  {file}\n" for file in sorted(files))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _digest_or_none(file: Path) -> str | None:
    # Twice: where only the first try fails, its note is read all the same, and the run is to be known again.
    for _ in range(2):
        with suppress(OSError):
            return digest_of(file)
    # Its note is withheld, with the reason, when it is read.
    return None


# Where a run may write: the notes, the run's folder and the copy of its spans, each apart from all others.


def check_outputs(
    source: NoteSource, given: Path, out: Path, run: Path, beside: Sequence[Path | None], *inputs: Input
) -> Path:
    """Return the file or folder that the notes of `source`, which was `given`, are written to.

    `beside` are other files to write, `inputs` other files that are read. Raises CorpusError where an output would
    overwrite a file that is read, or another output.
    """
    read: tuple[Input, ...] = (*files_read(source, given), *inputs)
    place = _output(source, given, out, inputs)
    own = {FAILED, MANIFEST, SPANS, OFFSETS, KEY_FILE, LOCK}
    if run.exists() and not run.is_dir():
        raise CorpusError(f"{run}: the run's folder is a file")
    check_writable(run)
    if run.is_dir() and any(path.name not in own for path in run.iterdir()):
        raise CorpusError(f"{run}: the run's folder holds other files")
    refuse_output_files([run / name for name in sorted(own)], *read)
    refuse_output_files(beside, *read)
    refuse_inside(beside, given, *inputs)
    refuse_shared(run, *beside)
    if source.format != "sql":
        # Of a database, `out` names the run's folder only.
        refuse_shared(place, run, *beside)
    return place


def written_to(source: NoteSource, out: Path) -> Path:
    """Return the place that the run has for itself: of a database in a file, the new table."""
    if isinstance(source, SqlQuery) and source.file is not None:
        return source.file.with_name(f"{source.file.name}.{source.table_out.casefold()}")
    return out


@contextmanager
def locked_table(source: NoteSource) -> Iterator[list[str]]:
    """Lock the new table of a database; give its name where that cannot be done."""
    if not isinstance(source, SqlQuery):
        yield []
        return
    with source.exclusive() as locked:
        yield [] if locked else [source.table_out]


def files_read(source: NoteSource, given: Path) -> Sequence[Input]:
    """Return every place that a source reads: folders of notes, nested ones too, tables, the file of a database."""
    if isinstance(source, NoteFiles):
        return [location for _, location in source.places]
    if isinstance(source, SeveralTables):
        return [given, *(path for path, _ in source.tables)]
    if isinstance(source, SqlQuery):
        return [source.file]
    return [given]


def _output(source: NoteSource, given: Path, out: Path, inputs: Sequence[Input]) -> Path:
    read = files_read(source, given)
    if isinstance(source, NoteFiles):
        for _, location in source.places:
            if is_single(out, source):
                refuse_output_files([out], location, *inputs)
            else:
                refuse_output(out, location, *inputs, format="plain")
        refuse_nested_output(out, [folder for folder, _ in source.places], *read)
        return out
    if source.format == "sql":
        return out
    if given.is_dir():
        refuse_output(out, given, *inputs, format="plain")
        if isinstance(source, SeveralTables):
            refuse_nested_output(out, {path.relative_to(given).parent for path, _ in source.tables}, *read)
        return out
    suffix = plain_name(given).suffix + (given.suffix if plain_name(given) != given else "")
    file = out if out.suffix and not out.is_dir() else out / given.name
    refuse_output_files([file], given, *inputs)
    if file == out and not out.name.lower().endswith(suffix.lower()):
        raise CorpusError(f"{out}: the output has the form of the input, and so its suffix: {suffix}")
    return file


# Streams, which wait in a private folder.


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """The input, the output and the run's folder; `standard` where the output goes to a stream, `own` their folder."""

    input: str | Path
    out: Path
    run: Path
    standard: bool
    own: Path | None

    def shown(self, message: str) -> str:
        """Return a message without the folder that a stream waits in, whose name is another one each time."""
        return message if self.own is None else message.replace(f"{self.own}{os.sep}", "")


@contextmanager
def places_of(
    source: FileOrStream, out: FileOrStream | None, run: Path | None, options: InputOptions
) -> Iterator[RunPlaces]:
    """Say where everything is; what comes from or goes to a stream is in a private folder, which is gone at the end."""
    streamed = not isinstance(source, str | Path) or not isinstance(out, str | Path)
    with ExitStack() as stack:
        own = Path()
        if streamed:
            remove_stale(Path(tempfile.gettempdir()))
            own = stack.enter_context(folder_atomically(Path(tempfile.gettempdir()) / "ensemble-deid"))
        given = source
        if not isinstance(given, str | Path):
            format = options.format or "plain"
            suffix = FORMATS[format].suffix if format in FORMATS else f".{format}"
            with (own / f"standard-input{suffix}").open("wb") as stream:
                shutil.copyfileobj(given, stream)
            given = own / f"standard-input{suffix}"
        if isinstance(out, str | Path):
            written, standard = places_written(Path(out), run), False
        else:
            suffix = ".txt" if options.kind_of(given) == "files" else Path(given).suffix
            written, standard = (own / f"out{suffix}", run or own / "run"), out is not None
        places = RunPlaces(given, *written, standard=standard, own=own if streamed else None)
        try:
            yield places
        except DeidError as error:
            error.args = (places.shown(str(error)),)
            raise


def places_written(out: Path, run: Path | None) -> tuple[Path, Path]:
    """Return the place of the output, and of the run's folder."""
    return out, run or place_beside(out, ".run")


def place_beside(out: Path, end: str) -> Path:
    """Return the place of `out` with `end` after its name; `.` and `..` have a name only when they are resolved."""
    named = out.resolve() if out.name in ("", "..") else out
    return named.with_name(f"{named.name}{end}")
