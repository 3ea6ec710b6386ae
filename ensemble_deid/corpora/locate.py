"""Find the files that a corpus argument refers to, and their format."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.corpora.formats import FORMATS, Format, format_named
from ensemble_deid.errors import CorpusError
from ensemble_deid.resources import data_directory

DEMO_SPLITS = ("train", "dev", "test")
_SUFFIXES = tuple(sorted({known.suffix for known in FORMATS.values()}))
_ROOT = re.compile(rb"<\s*(?![?!])([A-Za-z_][\w.-]*)")
_HEAD_BYTES = 4096
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Location:
    """The note files of a corpus sorted by name, their format, and remarks on files that were ignored."""

    source: Path
    files: tuple[Path, ...]
    format: Format
    remarks: tuple[str, ...] = ()


def locate_corpus(path: Path | str, *, format: str | None = None) -> Location:
    """Find the note files of `path`: a folder, one file, or the word `demo` (`demo:train`, `demo:dev`, `demo:test`).

    Only files directly in a folder count, hidden files do not. Raises CorpusError if there is nothing to read, if a
    folder has notes in several formats and none is named, or if there is no such split.
    """
    wanted = None if format is None else format_named(format)
    source = _demo_folder(path) or Path(path)
    if source.is_file():
        return _locate_file(source, wanted)
    if not source.is_dir():
        raise CorpusError(f"{source}: there is no such file or folder")
    try:
        names = sorted(entry for entry in source.iterdir() if entry.is_file() and not entry.name.startswith("."))
    except OSError as error:
        raise CorpusError(f"{source}: the folder cannot be read: {error.strerror}") from None
    found = wanted or _recognise(source, names)
    files = tuple(entry for entry in names if entry.suffix.lower() == found.suffix)
    if not files:
        raise CorpusError(_nothing_there(source, found.suffix))
    return Location(source, files, found, _remarks(source, names, files, found))


def _demo_folder(path: Path | str) -> Path | None:
    word, _, split = str(path).partition(":")
    # The word takes precedence over a folder named demo; a Path object can still refer to such a folder.
    if word != "demo" or (isinstance(path, Path) and path.exists()):
        return None
    if (split or "train") not in DEMO_SPLITS:
        raise CorpusError(f"the demo corpus has no split '{split[:60]}'; it has {', '.join(DEMO_SPLITS)}")
    return data_directory() / "demo" / (split or "train")


def _locate_file(path: Path, wanted: Format | None) -> Location:
    suffix = path.suffix.lower()
    if wanted is None and suffix not in _SUFFIXES:
        raise CorpusError(f"{path}: no format has this suffix (known are {', '.join(_SUFFIXES)}); name the format")
    return Location(path, (path,), wanted or _recognise(path, [path, path.with_suffix(".ann")]))


def _recognise(source: Path, names: Sequence[Path]) -> Format:
    suffixes = {entry.suffix.lower() for entry in names if entry.is_file()} & set(_SUFFIXES)
    if len(suffixes) > 1:
        raise CorpusError(
            f"{source}: holds notes of several kinds ({', '.join(sorted(suffixes))}); name the format that is meant, "
            "or put each kind into a folder of its own"
        )
    if not suffixes:
        raise CorpusError(_nothing_there(source, ", ".join(_SUFFIXES)))
    suffix = suffixes.pop()
    if suffix == ".xml":
        roots = (_root_element(entry) for entry in names if entry.suffix.lower() == suffix)
        return FORMATS["meddocan" if next((root for root in roots if root), "") == "MEDDOCAN" else "i2b2"]
    if suffix == ".txt":
        annotated = any(entry.suffix.lower() == ".ann" and entry.is_file() for entry in names)
        return FORMATS["brat" if annotated else "plain"]
    return FORMATS["jsonl"]


def _root_element(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            match = _ROOT.search(stream.read(_HEAD_BYTES))
    except OSError:
        return ""
    return match.group(1).decode("ascii", "replace") if match else ""


def _nothing_there(source: Path, suffixes: str) -> str:
    message = f"{source}: the corpus is empty: no {suffixes} file"
    if source.is_dir():
        folders = [folder.name for folder in sorted(source.iterdir()) if folder.is_dir() and _has_notes(folder)]
        if folders:
            message += f" directly in it (its folders {', '.join(folders[:_NAMED])} have some: name one of them)"
    return message


def _has_notes(folder: Path) -> bool:
    try:
        return any(entry.suffix.lower() in _SUFFIXES for entry in folder.iterdir())
    except OSError:
        # This is only for a hint in a message, so an unreadable folder counts as one without notes.
        return False


def _remarks(source: Path, names: Sequence[Path], files: Sequence[Path], found: Format) -> tuple[str, ...]:
    read = set(files)
    if found.name == "brat":
        read |= {entry for entry in names if entry.suffix.lower() == ".ann"}
    others = [entry.name for entry in names if entry not in read]
    if not others:
        return ()
    shown = ", ".join(others[:_NAMED]) + (", ..." if len(others) > _NAMED else "")
    return (f"{source}: {len(others)} files of other kinds were not read: {shown}",)
