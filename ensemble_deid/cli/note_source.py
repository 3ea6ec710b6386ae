"""What the argument INPUT of `deidentify` and the options about its columns refer to: a source of notes."""

import argparse
from pathlib import Path

from ensemble_deid.cli.options import CommandParser, Container
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.note_files import NoteFiles, nested_locations
from ensemble_deid.corpora.records import Source
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError, CorpusError

_TABLES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "fhir",
    ".hl7": "hl7",
}
_FILES = ("plain", "i2b2", "meddocan", "brat", "labelstudio", "conll", "bioc", "bioc-json", "cas")
FORMATS = (*_FILES, *sorted(set(_TABLES.values())), "sql")
SUFFIX = {
    "plain": ".txt",
    "i2b2": ".xml",
    "meddocan": ".xml",
    "labelstudio": ".json",
    "conll": ".conll",
    "bioc": ".xml",
    "bioc-json": ".json",
    "cas": ".xmi",
}


def add_input(parser: CommandParser) -> None:
    """Add INPUT and what says how to read it."""
    parser.add_argument(
        "input", metavar="INPUT", help="a folder, a file of notes or a table, - (standard input), a database's URL"
    )
    add_columns(parser)
    rare = parser.rare()
    rare.add_argument("--input-format", choices=FORMATS, help="default: by the suffix; standard input: plain")
    rare.add_argument("--recursive", action="store_true", help="also the folders in INPUT, which OUT will have, too")
    rare.add_argument("--keep-fields", action="store_true", help="FHIR and HL7: pass on all that is not note text")
    rare.add_argument("--query", metavar="SQL", help="database: rows to read, ending with ORDER BY a unique column")
    rare.add_argument("--table-out", metavar="NAME", help="database: new table for the rows")


def add_columns(parser: Container) -> None:
    """Add what a table's columns, or the fields of JSONL, hold."""
    table = parser.add_argument_group("columns of a table, fields of JSONL (commas between several)")
    table.add_argument("--text-column", metavar="NAME", default="text", help="the notes; default: text")
    table.add_argument("--id-column", metavar="NAME", help="becomes a keyed pseudonym; in JSONL: id")
    table.add_argument("--patient-column", metavar="NAME", help="notes treated together; a pseudonym, too")
    table.add_argument("--date-columns", metavar="NAMES", help="are shifted like the dates in the patient's notes")
    table.add_argument("--date-order", metavar="ORDER", help="of numbers in date columns: dmy, mdy or ymd")
    table.add_argument("--keep-columns", metavar="NAMES", help="are passed through unchanged; all: every other column")


def format_of(options: argparse.Namespace) -> str:
    """Return the format that is named, or that the input's name tells; `files` where each note is a file."""
    named: str | None = options.input_format
    if named is not None:
        return "files" if named in _FILES else named
    if "://" in options.input:
        return "sql"
    path = Path(options.input)
    if path.is_dir():
        return next((kind for kind in _kinds(path, nested=options.recursive)), "files")
    return _TABLES.get(path.suffix.lower(), "files")


def note_source(options: argparse.Namespace, path: Path, *, leave_out: list[Path]) -> Source:
    """Return the source; `path` is the file or folder that is read. Raises CorpusError and ConfigError."""
    format = format_of(options)
    if (format == "sql") != (options.query is not None and options.table_out is not None):
        raise ConfigError("a database needs --query and --table-out, and nothing else can use them")
    if format == "files":
        return _note_files(options, path, leave_out)
    columns = _columns(options, format)
    if format == "sql":
        from ensemble_deid.corpora.tables.sql import SqlQuery

        return SqlQuery(options.input, options.query, options.table_out, columns)
    if path.is_dir():
        from ensemble_deid.corpora.tables.several import SeveralTables

        files, remarks = _files(path, format, nested=options.recursive, leave_out=leave_out)
        tables = [(file, _table(file, format, columns, keep_fields=options.keep_fields)) for file in files]
        return SeveralTables(path, tables, format, remarks)
    if not path.is_file():
        raise CorpusError(f"{path}: there is no such file or folder")
    return _table(path, format, columns, keep_fields=options.keep_fields)


def _table(path: Path, format: str, columns: Columns, *, keep_fields: bool) -> Source:
    if format in ("fhir", "hl7"):
        from ensemble_deid.corpora.messages.files import MessageFile

        return MessageFile(path, format, keep_fields)
    if format == "jsonl":
        from ensemble_deid.corpora.tables.json_lines import JsonLines

        return JsonLines(path, columns)
    if format in ("csv", "tsv"):
        from ensemble_deid.corpora.tables.delimited import DelimitedTable

        return DelimitedTable(path, format, columns)
    from ensemble_deid.corpora.tables.arrow import ArrowTable

    return ArrowTable(path, format, columns)


def _note_files(options: argparse.Namespace, path: Path, leave_out: list[Path]) -> NoteFiles:
    given: str | Path = options.input if options.input.partition(":")[0] == "demo" else path
    if options.recursive and path.is_dir():
        return NoteFiles(nested_locations(path, format=options.input_format, leave_out=leave_out))
    location = locate_corpus(given, format=options.input_format)
    for folder in leave_out:
        location = location.without(folder)
    return NoteFiles([(Path(), location)])


def _columns(options: argparse.Namespace, format: str) -> Columns:
    from ensemble_deid.corpora.tables.json_lines import DEFAULTS

    def several(names: str | None) -> tuple[str, ...]:
        return tuple(names.split(",")) if names else ()

    usual = DEFAULTS if format == "jsonl" else {}
    return Columns(
        options.text_column,
        options.id_column or usual.get("id"),
        options.patient_column or usual.get("patient"),
        several(options.date_columns),
        several(options.keep_columns),
        options.date_order,
    )


def _files(folder: Path, format: str, *, nested: bool, leave_out: list[Path]) -> tuple[list[Path], list[str]]:
    """Return the folder's tables of a format, in order of their names, and a remark on each other file.

    Raises CorpusError where there is none, and where such tables are in folders that are not to be read.
    """
    skipped = [path.resolve() for path in leave_out if not folder.resolve().is_relative_to(path.resolve())]
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and not any(path.resolve().is_relative_to(other) for other in skipped)
    ]
    found = [path for path in files if _TABLES.get(path.suffix.lower()) == format]
    if not nested:
        deeper = next((path for path in found if path.parent != folder), None)
        if deeper is not None:
            raise CorpusError(f"{deeper}: lies in a folder of the input; --recursive reads these, too")
        files = [path for path in files if path.parent == folder]
    if not found:
        raise CorpusError(f"{folder}: the corpus is empty: no {format} file")
    return found, [f"{path}: is no {format} file, and is not read" for path in files if path not in set(found)]


def _kinds(folder: Path, *, nested: bool) -> list[str]:
    """Return the format of a folder's tables; nothing where it has none, or also notes in files."""
    try:
        suffixes = {path.suffix.lower() for path in (folder.rglob("*") if nested else folder.iterdir())}
    except OSError:
        # Whoever reads the folder says what is wrong.
        return []
    kinds = sorted({_TABLES[suffix] for suffix in suffixes if suffix in _TABLES})
    if len(kinds) > 1 or (kinds and suffixes & {".txt", ".xml", ".ann"}):
        raise CorpusError(f"{folder}: holds notes of several kinds; name the one that is meant with --input-format")
    return kinds
