"""The rows of the files that a site gives: CSV or TSV with a header, each row with its line."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.corpora.checks import decode_utf8, reading
from ensemble_deid.errors import CorpusError

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file as it was read: enough of its hash to see a change, and too little to confirm a guess of what it holds."""

    path: Path
    text: str = field(repr=False)
    hash: str

    @classmethod
    def read(cls, path: str | Path) -> "SiteFile":
        """Read a text file in UTF-8. Raises CorpusError."""
        with reading(Path(path)) as stream:
            data = stream.read()
        text = decode_utf8(data, str(path)).removeprefix("\ufeff")
        return cls(Path(path), text, hashlib.sha256(data).hexdigest()[:8])

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the line of each row, and its cells in the order of `columns`; other columns are not read.

        Raises CorpusError for a missing column, and for a row with too many or too few cells.
        """
        delimiter = _DELIMITERS.get(self.path.suffix.lower())
        if delimiter is None:
            raise CorpusError(f"{self.path}: must be a table whose name ends in .csv or .tsv")
        rows = csv.reader(io.StringIO(self.text, newline=""), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        at: list[int] = []
        line = 1
        try:
            for row in rows:
                if header is None:
                    header = ["_".join(name.casefold().split()) for name in row]
                    at = self._places(header, columns)
                elif row and len(row) != len(header):
                    raise CorpusError(f"{self.path}:{line}: the row has {len(row)} cells, the header {len(header)}")
                elif row:
                    yield line, [row[index].strip() for index in at]
                line = rows.line_num + 1
        except csv.Error:
            # The message of the module may quote the row.
            raise CorpusError(f"{self.path}:{line}: the row's quotes are not those of a {delimiter!r} table") from None
        if header is None:
            raise CorpusError(f"{self.path}: is empty: the first row must name the columns")

    def _places(self, header: list[str], columns: Sequence[str]) -> list[int]:
        for name in columns:
            if header.count(name) != 1:
                problem = "there is no column" if name not in header else "more than one column is called"
                raise CorpusError(f"{self.path}:1: {problem} {name!r}; needed: {', '.join(columns)}")
        return [header.index(name) for name in columns]

    def check_value(self, line: int, letters: int, least: int) -> None:
        """Raise CorpusError for a value with fewer letters and digits than are needed, or far too many."""
        if letters < least:
            raise CorpusError(f"{self.path}:{line}: the value has {letters} letters and digits; {least} are needed")
        if letters > _LONGEST_VALUE:
            raise CorpusError(f"{self.path}:{line}: the value has more than {_LONGEST_VALUE} letters and digits")
