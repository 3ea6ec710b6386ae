"""Allow and deny lists: strings that a site says are never PHI, and strings that it wants removed everywhere."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import CorpusError
from ensemble_deid.phi.groups import known_labels
from ensemble_deid.pipeline.known.strings import StringIndex
from ensemble_deid.pipeline.known.table import SiteFile
from ensemble_deid.pipeline.known.words import Words, compacted

_LEAST = 2


@dataclass(frozen=True, slots=True)
class AllowList:
    """Strings that are no PHI: `lines` has the line of each in its file, by its letters and digits."""

    lines: Mapping[str, int] = field(repr=False)
    hash: str = ""

    @classmethod
    def read(cls, path: str | Path) -> "AllowList":
        """Read a text file with a string a line; empty lines and those that begin with # are left out.

        Raises CorpusError, naming file and line.
        """
        file = SiteFile.read(path)
        lines: dict[str, int] = {}
        for number, line in enumerate(file.text.split("\n"), start=1):
            if line.strip() and not line.startswith("#"):
                compact = compacted(line)
                file.check_value(number, len(compact), _LEAST)
                lines.setdefault(compact, number)
        if not lines:
            raise CorpusError(f"{path}: the list has no entries")
        return cls(lines, file.hash)

    def line_of(self, surface: str) -> int | None:
        """Return the line of the entry that a string equals but for case, accents and separators; None for none."""
        return self.lines.get(compacted(surface))


class DenyList:
    """Strings that are always removed, each with its label and its line in the file."""

    def __init__(self, entries: Mapping[str, tuple[str, int]], hash: str = "") -> None:
        self.hash = hash
        self._entries = list(entries.values())
        self._index = StringIndex((form, number) for number, form in enumerate(entries))

    @classmethod
    def read(cls, path: str | Path, *, labels: Collection[str]) -> "DenyList":
        """Read a CSV or TSV file with the columns label and value. Raises CorpusError, naming file and line."""
        file = SiteFile.read(path)
        entries: dict[str, tuple[str, int]] = {}
        for line, (label, value) in file.rows(("label", "value")):
            if label not in labels and label not in known_labels():
                raise CorpusError(f"{path}:{line}: the label is none of the model's: {', '.join(sorted(labels))}")
            compact = compacted(value)
            file.check_value(line, len(compact), _LEAST)
            entries.setdefault(compact, (label, line))
        if not entries:
            raise CorpusError(f"{path}: the list has no entries")
        return cls(entries, file.hash)

    def find(self, text: str) -> Iterator[tuple[int, int, str, int]]:
        """Yield start, end, label and line of every occurrence."""
        words = Words.of(text)
        for first, last, number in self._index.find(words):
            yield words.starts[first], words.ends[last], *self._entries[number]
