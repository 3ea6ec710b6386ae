"""How the notes of a run are read: the forms that they can have, and the options of reading them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import refuse_empty
from ensemble_deid.corpora.compressed import plain_name
from ensemble_deid.corpora.record_map import FieldRules, RecordMap
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import CorpusError

TABLES = {
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
_NAMED = ("text", "id", "patient", "dates", "keep", "date_order")
_FILES = ("plain", "i2b2", "meddocan", "brat", "labelstudio", "conll", "bioc", "bioc-json", "cas", "rtf", "pdf")
FORMATS = (*_FILES, *sorted(set(TABLES.values())), "sql", "xml")


def table_kind(path: Path) -> str | None:
    """Return the format of a table or message by the name of its file; CSV, TSV and JSONL may be compressed."""
    plain = plain_name(path)
    kind = TABLES.get(plain.suffix.lower())
    return kind if plain == path or kind in ("csv", "tsv", "jsonl") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """How notes are read; `format` is one of `FORMATS`, None for what the name of the file or folder tells.

    With `recursive` the folders in a folder are read, too. `columns` say what the columns of a table, or the fields of
    JSONL, hold; None is `text` alone, and in JSONL also `id` and `patient_id`. A `record_map` says it of every column,
    FHIR element and HL7 field, `rules` of single columns. With `keep_fields` all of FHIR and HL7
    that is not note text is handed out as it is. A database needs a `query`, whose rows end with ORDER BY and a unique
    column, and `table_out`, the new table for them.

    >>> from ensemble_deid import InputOptions
    >>> InputOptions().kind_of("notes.csv"), InputOptions(format="brat").kind_of("notes")
    ('csv', 'files')
    """

    format: str | None = None
    recursive: bool = False
    columns: Columns | None = None
    record_map: RecordMap | None = None
    rules: FieldRules = field(default_factory=dict)
    keep_fields: bool = False
    query: str | None = None
    table_out: str | None = None

    @property
    def rules_digest(self) -> str | None:
        """A hash of all rules of the map and of single columns; None where there are none."""
        given = None if self.record_map is None else self.record_map.digest
        if not self.rules:
            return given
        return RecordMap(place=given or "", columns=self.rules, optional=True).digest + (given or "")

    def rules_json(self, source: str | Path) -> dict[str, Any] | None:
        """Return what a run records of its rules (None without any): the rules, the columns that options name, and the
        map's table for the source.
        """
        if self.rules_digest is None:
            return None
        table = plain_name(Path(source)).stem.casefold()
        named = {name: list(said) if isinstance(said, tuple) else said for name, said in asdict(self.named).items()}
        return {
            "map": None if self.record_map is None else self.record_map.to_json(),
            "columns": RecordMap(place="", columns=self.rules).to_json().get("columns", {}),
            "table": table if self.record_map is not None and table in self.record_map.tables else None,
            "named": {name: named[name] for name in _NAMED},
        }

    @property
    def named(self) -> Columns:
        return self.columns or Columns()

    def kind_of(self, given: str | Path, *, leave_out: Sequence[Path] = ()) -> str:
        """Return the format that is named, or that the input's name tells; `files` where each note is a file.

        The places of `leave_out`, which a run writes to, tell nothing of its input.
        """
        refuse_empty(given)
        if self.format is not None:
            return "files" if self.format in _FILES else self.format
        if "://" in str(given):
            return "sql"
        path = Path(given)
        if self.record_map is not None and self.record_map.xml:
            found = _inside(path, nested=self.recursive, leave_out=leave_out) if path.is_dir() else [path]
            if any(file.suffix.lower() == ".xml" for file in found):
                return "xml"
        if path.is_dir():
            return next(iter(_kinds(path, nested=self.recursive, leave_out=leave_out)), "files")
        return table_kind(path) or "files"


def folders_read(root: Path, *, leave_out: Sequence[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Yield `root` and each folder below it, with what else lies in it: files, and linked folders, which are not read.

    Hidden names are skipped, and the places of `leave_out`, which a run writes to. Raises CorpusError for a folder that
    cannot be read.
    """
    skipped = {path.resolve() for path in leave_out}

    def unreadable(error: OSError) -> None:
        raise CorpusError(f"{error.filename}: the folder cannot be read: {error.strerror}") from None

    for name, folders, files in os.walk(root, onerror=unreadable):
        here = Path(name)
        shown = (here / f for f in sorted(folders) if not f.startswith("."))
        below = [folder for folder in shown if folder.resolve() not in skipped]
        linked = [folder for folder in below if folder.is_symlink()]
        folders[:] = [folder.name for folder in below if folder not in linked]
        yield here, [*linked, *(here / file for file in sorted(files) if not file.startswith("."))]


def _inside(folder: Path, *, nested: bool, leave_out: Sequence[Path]) -> list[Path]:
    found = folders_read(folder, leave_out=leave_out)
    return [entry for _, entries in (found if nested else islice(found, 1)) for entry in entries]


def _kinds(folder: Path, *, nested: bool, leave_out: Sequence[Path]) -> list[str]:
    """Return the format of a folder's tables; nothing where it has none, or also notes in files."""
    files = _inside(folder, nested=nested, leave_out=leave_out)
    kinds = sorted({kind for file in files if (kind := table_kind(file)) is not None})
    if len(kinds) > 1 or (kinds and any(file.suffix.lower() in (".txt", ".xml", ".ann") for file in files)):
        raise CorpusError(f"{folder}: holds notes of several kinds; name the one that is meant with --input-format")
    return kinds
