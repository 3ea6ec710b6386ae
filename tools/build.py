"""Build the demo corpus: marked notes -> i2b2 XML, split by site."""

import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.corpora.checks import patient_of_name
from ensemble_deid.corpora.read import DEMO_SPLITS as SPLITS
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import strict_toml
from tools.note_sources import note_files, read_note_sources

CHECKSUMS = "SHA256SUMS"
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class BuiltSplit:
    """One split as it was written."""

    name: str
    patients: int
    notes: int
    spans: int


def build_corpus(src: Path, out: Path, *, splits: Path) -> tuple[BuiltSplit, ...]:
    """Build `src/XXX-YY.note` into `out/SPLIT/XXX-YY.xml` by the sites named in the TOML file `splits`.

    Notes that were removed from `src` are removed from `out`; `out/SHA256SUMS` lists the checksums of the notes. Raises
    CorpusError with all problems of all notes before anything is written; the checks are those of `read_note_sources`,
    and every patient must be in exactly one split.
    """
    notes = read_marked_notes(src)
    split_of = read_splits(splits)
    names = {name for note in notes for name in (note.group, note.site)}
    lost = sorted({note.group for note in notes if split_of_note(note, split_of) is None})
    _refuse(f"{splits}: the patient {name} is in no split, nor is the patient's site" for name in lost)
    _refuse(f"{splits}: {name} has no notes" for name in sorted(set(split_of) - names))
    built = []
    for split in sorted(set(split_of.values()), key=SPLITS.index):
        chosen = [note for note in notes if split_of_note(note, split_of) == split]
        write_corpus(chosen, out / split, "i2b2")
        _remove_stale(out / split, chosen)
        spans = sum(len(note.spans) for note in chosen)
        built.append(BuiltSplit(split, len({note.group for note in chosen}), len(chosen), spans))
    write_text_atomically(out / CHECKSUMS, _checksums(out))
    return tuple(built)


def _checksums(folder: Path) -> str:
    """Return a line for each note of the splits, as `sha256sum --check` reads them."""
    paths = [path for split in SPLITS for path in sorted((folder / split).glob("*.xml"))]
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}" for path in paths
    ]
    return "".join(f"{line}\n" for line in lines)


def read_marked_notes(src: Path) -> list[Document]:
    """Read every `.note` file of the folder, sorted by name; CorpusError with all problems found."""
    sources = read_note_sources(note_files([src]))
    _refuse(sources.problems)
    return list(sources.notes)


def split_of_note(note: Document, split_of: Mapping[str, str]) -> str | None:
    """Return the split that names the note's patient or, where none does, the one that names its site."""
    return split_of.get(note.group) or split_of.get(note.site or "")


def read_splits(path: Path) -> Mapping[str, str]:
    """Read `train = ["S01", "171", ...]`, and the other `DEMO_SPLITS`: sites, and patients of a site that is divided.

    Returns name -> split. Raises CorpusError where a name is in two.
    """
    try:
        content = strict_toml(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read as TOML: {error}") from None
    if not set(SPLITS[:3]) <= set(content) <= set(SPLITS):
        raise CorpusError(f"{path}: expected the keys {', '.join(SPLITS)}, not {', '.join(sorted(content))}")
    found: dict[str, str] = {}
    for split in content:
        names = content[split]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CorpusError(f"{path}: {split} must be a list of strings")
        for name in names:
            if name in found:
                raise CorpusError(f"{path}: {name} is in {found[name]} and again in {split}")
            found[name] = split
    return found


def _refuse(problems: Iterable[str]) -> None:
    lines = list(problems)
    if lines:
        rest = [f"... and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise CorpusError("\n".join(lines[:_SHOWN] + rest))


def _remove_stale(folder: Path, notes: Sequence[Document]) -> None:
    kept = {f"{note.id}.xml" for note in notes}
    for path in sorted(folder.glob("*.xml")):
        # Only files that a build may have written, never other files that a person put there.
        if path.name not in kept and patient_of_name(path.stem):
            path.unlink()
