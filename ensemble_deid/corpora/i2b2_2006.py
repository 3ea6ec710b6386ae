"""The XML of the 2006 i2b2 de-identification task: records in one file, PHI as elements inside their text.

Source: Uzuner et al. 2007 (JAMIA 14:550-563). A file is `<ROOT>` with `<RECORD ID="...">`s, each with a `<TEXT>` in
which `<PHI TYPE="...">` surrounds what identifies somebody. Each record is of another patient.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from ensemble_deid.corpora.checks import ReadNote, check_id, note_with_spans, unknown_label
from ensemble_deid.corpora.xml_parser import parse_xml
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

TYPES = ("PATIENT", "DOCTOR", "HOSPITAL", "ID", "DATE", "LOCATION", "PHONE", "AGE")
"""The eight types of the task; ID and LOCATION are categories of the 2014 task."""
ROOT = "ROOT"


def read_i2b2_2006_notes(path: Path, *, gold: bool = True) -> Iterator[ReadNote]:
    """Yield every record of a file. CorpusError, with file and line, where the file is not as described above."""
    handler = _Handler(path)
    parse_xml(handler.parser, path)
    for record in handler.records:
        document = Document(record.id, "".join(record.pieces))
        yield note_with_spans(document, record.spans if gold else (), place=f"{path}:{record.line}")


@dataclass(slots=True)
class _Record:
    id: str
    line: int
    pieces: list[str] = field(default_factory=list, repr=False)
    length: int = 0
    spans: list[Span] = field(default_factory=list)


class _Handler:
    """Collects the records from the parser's events; the elements allowed are those on one path."""

    _PATH = (ROOT, "RECORD", "TEXT", "PHI")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[_Record] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self._depth = 0
        self._texts = 0
        self._open = (0, "")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth == len(self._PATH) or name != self._PATH[self._depth]:
            where = f"<{self._PATH[self._depth - 1]}>" if self._depth else "the file"
            raise self._error(f"an element in {where} that the 2006 format does not have there")
        if name == "RECORD":
            identity = attributes.get("ID", "")
            check_id(identity, f"{self.path}:{self.parser.CurrentLineNumber}")
            self.records.append(_Record(identity, self.parser.CurrentLineNumber))
            self._texts = 0
        elif name == "TEXT":
            self._texts += 1
        elif name == "PHI":
            label = attributes.get("TYPE", "").upper()
            if label not in TYPES:
                raise self._error(unknown_label(label, TYPES, "i2b2-2006"))
            self._open = (self.records[-1].length, label)
        self._depth += 1

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name == "RECORD" and self._texts != 1:
            raise self._error(f"a record has one <TEXT>, this one {self._texts}")
        if name != "PHI":
            return
        record, (start, label) = self.records[-1], self._open
        if start == record.length:
            raise self._error("an empty <PHI> element")
        record.spans.append(Span(start, record.length, label))

    def _characters(self, data: str) -> None:
        if self._depth >= self._PATH.index("TEXT") + 1:
            record = self.records[-1]
            record.pieces.append(data)
            record.length += len(data)
        elif data.strip():
            raise self._error("text outside of <TEXT>")

    def _error(self, message: str) -> CorpusError:
        return CorpusError(f"{self.path}:{self.parser.CurrentLineNumber}: {message}")
