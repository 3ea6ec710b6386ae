"""Where `deidentify` may write: the notes, the run's folder and the copy of its spans, each apart from all others."""

from collections.abc import Sequence
from pathlib import Path

from ensemble_deid.atomic import LOCK, check_writable
from ensemble_deid.cli.output import Input, refuse_nested_output, refuse_output, refuse_output_files, refuse_shared
from ensemble_deid.corpora.note_files import NoteFiles, is_single
from ensemble_deid.corpora.records import Source
from ensemble_deid.corpora.tables.several import SeveralTables
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.errors import CorpusError


def check_outputs(source: Source, given: Path, out: Path, run: Path, spans: Path | None, *inputs: Input) -> Path:
    """Return the file or the folder that the notes of `source`, which was `given`, are written to.

    `inputs` are the other files that are read. Raises CorpusError where any output would overwrite one of the files
    read, or another output.
    """
    read: tuple[Input, ...] = (*files_read(source, given), *inputs)
    place = _output(source, given, out, inputs)
    _check_run_folder(run, read)
    refuse_output_files([spans], *read)
    refuse_shared(run, spans)
    if source.format != "sql":
        # Of a database, `out` names the run's folder only.
        refuse_shared(place, run, spans)
    return place


def files_read(source: Source, given: Path) -> Sequence[Input]:
    """Return every place that a source reads: folders of notes, nested ones too, tables, the file of a database."""
    if isinstance(source, NoteFiles):
        return [location for _, location in source.places]
    if isinstance(source, SeveralTables):
        return [given, *(path for path, _ in source.tables)]
    if isinstance(source, SqlQuery):
        return [source.file]
    return [given]


def _output(source: Source, given: Path, out: Path, inputs: Sequence[Input]) -> Path:
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
    if out.suffix and not out.is_dir() and out.suffix.lower() != given.suffix.lower():
        raise CorpusError(f"{out}: the output has the form of the input, and so its suffix: {given.suffix}")
    file = out if out.suffix and not out.is_dir() else out / given.name
    refuse_output_files([file], given, *inputs)
    return file


def _check_run_folder(folder: Path, read: Sequence[Input]) -> None:
    from ensemble_deid.deidentify.chain import FAILED, MANIFEST, SPANS
    from ensemble_deid.deidentify.offsets import FILE as OFFSETS
    from ensemble_deid.deidentify.offsets import KEY_FILE

    own = {FAILED, MANIFEST, SPANS, OFFSETS, KEY_FILE, LOCK}
    if folder.exists() and not folder.is_dir():
        raise CorpusError(f"{folder}: is to be the run's folder, and is a file")
    check_writable(folder)
    if folder.is_dir() and any(path.name not in own for path in folder.iterdir()):
        raise CorpusError(f"{folder}: is to be the run's folder, and holds other files")
    refuse_output_files([folder / name for name in sorted(own)], *read)
