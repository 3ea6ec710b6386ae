"""Read a whole corpus, or note by note, continuing after a bad one."""

import errno
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_deid.corpora.annotation_tools import LABEL_FIELDS
from ensemble_deid.corpora.cas import TYPE_SYSTEM
from ensemble_deid.corpora.checks import (
    Notice,
    ReadNote,
    check_file_name,
    is_printable,
    patient_of_name,
    printable,
    reading,
    refuse_empty,
)
from ensemble_deid.corpora.formats import FORMATS, Format, format_named
from ensemble_deid.corpora.tagged_xml import I2B2_2006_ROOT
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import strict_json
from ensemble_deid.resources import data_directory

# Find the files that a corpus argument refers to, and their format.

DEMO_SPLITS = ("train", "dev", "test", "site", "later")
SUFFIXES = tuple(sorted({known.suffix for known in FORMATS.values()}))
_ROOT = re.compile(rb"<\s*(?![?!])([A-Za-z_][\w.-]*)")
# The documents of a collection of BioC: within a string, the quotes would have backslashes.
_DOCUMENTS = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*?(?<!\\)"documents"\s*:\s*\[', re.DOTALL)
_HEAD_BYTES = 4096
_NAMED = 5
_OF_ROOT = {"MEDDOCAN": "meddocan", "collection": "bioc", I2B2_2006_ROOT: "i2b2-2006"}
_OF_SUFFIX = {".conll": "conll", ".xmi": "cas", ".text": "physionet", ".gs": "dernoncourt-lee"}
_OF_SUFFIX |= {".pdf": "pdf", ".rtf": "rtf"}
_NOWHERE = "there is no such file or folder"


@dataclass(frozen=True, slots=True)
class Location:
    """The note files of a corpus sorted by name, their format, and remarks on files that were ignored.

    `folders` in the source are not read; `unreadable` says why an entry is not a file or cannot be shown.
    """

    source: Path
    files: tuple[Path, ...]
    format: Format
    remarks: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    unreadable: Mapping[Path, str] = field(default_factory=dict)

    def without(self, folder: Path) -> "Location":
        """Return the location without one of its folders, such as the one that results go to."""
        return replace(self, folders=tuple(other for other in self.folders if other.resolve() != folder.resolve()))


def locate_corpus(path: Path | str, *, format: str | None = None, may_be_empty: bool = False) -> Location:
    """Find the note files of `path`: a folder's own files, one file, or a split such as `demo:dev` (`demo`: train).

    A folder that `may_be_empty` is also located without note files, with what else lies in it. Raises CorpusError if
    there is nothing to read, if a folder has notes in several formats and none is named, or if the split does not
    exist.
    """
    refuse_empty(path)
    wanted = None if format is None else format_named(format)
    source = _demo_folder(path) or Path(path)
    if source.is_file():
        if what := _unreadable(source):
            raise CorpusError(f"{source}: is {what}")
        if wanted is None and source.suffix.lower() not in SUFFIXES:
            raise CorpusError(f"{source}: no format has this suffix (known are {', '.join(SUFFIXES)}); name the format")
        return Location(source, (source,), wanted or _recognise(source, [source, source.with_suffix(".ann")]))
    if not source.is_dir():
        what = _unreadable(source)
        raise CorpusError(f"{source}: " + (f"is {what}" if source.is_symlink() or source.exists() else _NOWHERE))
    try:
        entries = sorted(entry for entry in source.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise CorpusError(f"{source}: the folder cannot be read: {error.strerror}") from None
    unreadable = {entry: what for entry in entries if (what := _unreadable(entry))}
    folders = tuple(entry for entry in entries if entry not in unreadable and entry.is_dir())
    names = [entry for entry in entries if entry not in unreadable and entry not in folders]
    if may_be_empty and not _note_suffixes(names) & (set(SUFFIXES) if wanted is None else {wanted.suffix}):
        remarks = _remarks(source, names, ())
        return Location(source, (), wanted or FORMATS["plain"], remarks, folders=folders, unreadable=unreadable)
    if unreadable and not names:
        first, what = next(iter(unreadable.items()))
        raise CorpusError(f"{first}: is {what}")
    found = wanted or _recognise(source, names)
    files = tuple(entry for entry in names if entry.suffix.lower() == found.suffix)
    if not files and not unreadable:
        raise CorpusError(_nothing_there(source, found.suffix))
    beside = (TYPE_SYSTEM,) if found.name == "cas" else ()
    remarks = _remarks(source, [entry for entry in names if entry.name not in beside], found.suffixes)
    return Location(source, files, format=found, remarks=remarks, folders=folders, unreadable=unreadable)


def _unreadable(entry: Path) -> str:
    if not is_printable(entry.name):
        return "something whose name has characters that cannot be shown: rename it"
    return no_file(entry)


def no_file(entry: Path) -> str:
    """Return why nothing can be read from what has this name, without opening it; nothing for a file or a folder."""
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        said = {errno.ENOENT: "a link to nothing", errno.ELOOP: "a link that leads to itself"}
        return said.get(error.errno or 0, f"something that cannot be examined: {error.strerror}")
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "a pipe, socket or device, which no note is read from"


def _demo_folder(path: Path | str) -> Path | None:
    word, _, split = str(path).partition(":")
    # The word takes precedence over a folder named demo; a Path object can still refer to such a folder.
    if word != "demo" or (isinstance(path, Path) and path.exists()):
        return None
    if (split or "train") not in DEMO_SPLITS:
        raise CorpusError(f"the demo corpus has no split '{split[:60]}'; it has {', '.join(DEMO_SPLITS)}")
    return data_directory() / "demo" / (split or "train")


def _note_suffixes(names: Sequence[Path]) -> set[str]:
    return {entry.suffix.lower() for entry in names if entry.name != TYPE_SYSTEM and entry.is_file()} & set(SUFFIXES)


def _recognise(source: Path, names: Sequence[Path]) -> Format:
    names = [entry for entry in names if entry.name != TYPE_SYSTEM]
    suffixes = _note_suffixes(names)
    if len(suffixes) > 1:
        # Other files beside notes, such as print-outs, are reported and not read.
        suffixes -= {".pdf", ".rtf"}
    if len(suffixes) > 1:
        raise CorpusError(
            f"{source}: holds notes of several kinds ({', '.join(sorted(suffixes))}); name the format that is meant, "
            "or put each kind into a folder of its own"
        )
    if not suffixes:
        raise CorpusError(_nothing_there(source, ", ".join(SUFFIXES)))
    (suffix,) = suffixes
    if suffix == ".txt":
        annotated = any(entry.suffix.lower() == ".ann" and entry.is_file() for entry in names)
        return FORMATS["brat" if annotated else "plain"]
    return FORMATS[_OF_SUFFIX.get(suffix) or _recognise_content([e for e in names if e.suffix.lower() == suffix])]


def _recognise_content(files: Sequence[Path]) -> str:
    """Return the format of XML or JSON, which the first file tells that can be read."""
    suffix = files[0].suffix.lower()
    if suffix == ".jsonl":
        keys: set[str] = next(filter(None, map(_keys, files)), set())
        return "doccano" if keys & set(LABEL_FIELDS) and "spans" not in keys else "jsonl"
    if suffix == ".json":
        return "bioc-json" if _DOCUMENTS.match(next(filter(None, map(_head, files)), b"")) else "labelstudio"
    roots = (found[1].decode("ascii", "replace") for file in files if (found := _ROOT.search(_head(file))))
    return _OF_ROOT.get(next(roots, ""), "i2b2")


def _keys(path: Path) -> set[str]:
    """Return the fields named in the first line; nothing if it is not an object, which the reader will report."""
    try:
        with reading(path) as stream:
            entry = strict_json(stream.readline())
    except (CorpusError, ValueError):
        return set()
    return set(entry) if isinstance(entry, dict) else set()


def _head(path: Path) -> bytes:
    """Return how a file begins; nothing if it cannot be read, which the reader will report."""
    try:
        with reading(path) as stream:
            return stream.read(_HEAD_BYTES)
    except CorpusError:
        return b""


def _nothing_there(source: Path, suffixes: str) -> str:
    message = f"{source}: the corpus is empty: no {suffixes} file"
    if source.is_dir():
        folders = [folder.name for folder in sorted(source.iterdir()) if folder.is_dir() and _has_notes(folder)]
        if folders:
            message += f" directly in it (its folders {', '.join(folders[:_NAMED])} have some: name one of them)"
    return message


def _has_notes(folder: Path) -> bool:
    try:
        return any(entry.suffix.lower() in SUFFIXES for entry in folder.iterdir())
    except OSError:
        # This is only for a hint in a message, so an unreadable folder counts as one without notes.
        return False


def _remarks(source: Path, names: Sequence[Path], suffixes: Sequence[str]) -> tuple[str, ...]:
    others = [entry.name for entry in names if entry.suffix.lower() not in suffixes]
    if not others:
        return ()
    shown = ", ".join(others[:_NAMED]) + (", ..." if len(others) > _NAMED else "")
    return (f"{source}: files of other kinds were not read ({len(others)}): {shown}",)


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

    `path` is a folder, a file, or a part of the demo corpus: `demo:train`, `demo:dev`, `demo:test`, `demo:site` (one
    hospital), `demo:later` (sites of writers who wrote no training note).
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
    """Yield every note, or the error that names it, one at a time, going on after a bad one.

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
            error.note = name
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
