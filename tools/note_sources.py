"""Read many files of marked notes, and collect the problems of all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from tools.markup import read_marked_note

_SUFFIX = ".note"


@dataclass(frozen=True, slots=True)
class NoteSources:
    """The notes that could be read, and the problems of all files as `file:line:column: message`."""

    notes: Sequence[Document] = field(repr=False)
    problems: Sequence[str]


def note_files(places: Iterable[Path]) -> list[Path]:
    """Return the given `.note` files and those of the given folders, the latter sorted by name.

    Raises CorpusError if a path does not exist, is a folder without `.note` files, or a file of another type.
    """
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(path for path in place.glob(f"*{_SUFFIX}") if path.is_file())
            if not inside:
                raise CorpusError(f"{place}: there are no {_SUFFIX} files")
            found += inside
        elif not place.is_file():
            raise CorpusError(f"{place}: there is no such file or folder")
        elif place.suffix != _SUFFIX:
            raise CorpusError(f"{place}: is no {_SUFFIX} file")
        else:
            found.append(place)
    return list(dict.fromkeys(found))


def read_note_sources(paths: Iterable[Path]) -> NoteSources:
    """Read all files, also after one with problems. A patient with notes of several sites is a problem, too."""
    notes: list[Document] = []
    problems: list[str] = []
    first_of_patient: dict[str, tuple[Path, str | None]] = {}
    for path in paths:
        try:
            note = read_marked_note(path)
        except CorpusError as error:
            problems += str(error).split("\n")
            continue
        notes.append(note)
        first, site = first_of_patient.setdefault(note.group, (path, note.site))
        if note.site != site:
            problems.append(f"{path}:1:1: the site is {note.site}, but {site} in {first}: a patient has one site")
    return NoteSources(notes, problems)
