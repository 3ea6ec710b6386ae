"""The XML that the i2b2 2014, N-GRID 2016 and MEDDOCAN tasks share: `<TEXT>` and stand-off `<TAGS>`.

The text is what an XML 1.0 parser returns for `<TEXT>`: a literal CR LF or CR is one LF, a character reference `&#13;`
is a CR. Offsets count characters (code points) of that text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape

from ensemble_deid.corpora.checks import shown_tag
from ensemble_deid.corpora.xml_parser import DEEPEST, parse_xml
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

_INTEGER = re.compile(r"-?[0-9]{1,12}")
_ATTRIBUTE_NAME = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*")
IN_ATTRIBUTE = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
IN_TEXT = {"\r": "&#13;"}
UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""The characters that XML 1.0 cannot represent."""
PATIENT_ATTRIBUTE = "patient"
SITE_ATTRIBUTE = "site"


@dataclass(frozen=True, slots=True)
class XmlTag:
    """One element of `<TAGS>`: its name, its attributes, and its line."""

    element: str = field(repr=False)
    attributes: Mapping[str, str] = field(repr=False)
    line: int

    @property
    def id(self) -> str:
        """The tag's own id, or '?'."""
        return self.attributes.get("id", "?")

    def integer(self, name: str, path: Path) -> int:
        """Return the attribute as an integer; CorpusError if it is missing or not an integer."""
        value = self.attributes.get(name)
        if value is None or not _INTEGER.fullmatch(value):
            said = "is missing" if value is None else "is not an integer"
            raise CorpusError(f"{path}:{self.line}: {shown_tag(self.id)}: the attribute '{name}' {said}")
        return int(value)


@dataclass(slots=True)
class XmlNote:
    """The content of one file: the root's name and attributes, the text, the tags."""

    root: str = field(default="", repr=False)
    attributes: dict[str, str] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)
    tags: list[XmlTag] = field(default_factory=list)


def parse_note(path: Path) -> XmlNote:
    """Read one file; CorpusError with file and line on broken XML, a DTD, or a missing `<TEXT>`."""
    handler = _Handler(path)
    parse_xml(handler.parser, path)
    return handler.finish()


class _Handler:
    """Collects one note from the parser's events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note = XmlNote()
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self._open: list[str] = []
        self._open_texts = 0
        self._pieces: list[str] = []
        self._texts = 0

    def finish(self) -> XmlNote:
        if self._texts != 1:
            raise CorpusError(f"{self.path}: one <TEXT> element is needed, the file has {self._texts}")
        self.note.text = "".join(self._pieces)
        return self.note

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if not self._open:
            self.note.root, self.note.attributes = name, attributes
        elif self._open_texts:
            raise CorpusError(
                f"{self.path}:{line}: an element occurs inside <TEXT>: marks inside the text are read in the "
                "format i2b2-2006 alone, here only stand-off <TAGS>"
            )
        elif len(self._open) == DEEPEST:
            raise CorpusError(f"{self.path}:{line}: elements are nested more than {DEEPEST} deep")
        elif len(self._open) == 1 and name == "TEXT":
            self._texts += 1
        elif len(self._open) == 2 and self._open[1] == "TAGS":
            self.note.tags.append(XmlTag(name, attributes, line))
        self._open.append(name)
        self._open_texts += name == "TEXT"

    def _end(self, name: str) -> None:
        self._open.pop()
        self._open_texts -= name == "TEXT"

    def _characters(self, data: str) -> None:
        if len(self._open) == 2 and self._open[1] == "TEXT":
            self._pieces.append(data)


def render_note(
    document: Document, tags: list[tuple[str, Mapping[str, str]]], *, root: str, patient: str | None
) -> str:
    """Return the file's content; CorpusError if the text contains a character that XML cannot represent.

    `tags` are element names with attributes, in order. `patient` becomes an attribute of the root (None: left out), and
    so do the site and every metadata entry whose key is a valid attribute name; the tools of the tasks ignore them.
    """
    refuse_unwritable(document.text, document.id)
    attributes = {key: value for key, value in sorted(document.metadata.items()) if _ATTRIBUTE_NAME.fullmatch(key)}
    for reserved in (PATIENT_ATTRIBUTE, SITE_ATTRIBUTE):
        attributes.pop(reserved, None)
    if document.site is not None:
        attributes[SITE_ATTRIBUTE] = document.site
    if patient is not None:
        attributes[PATIENT_ATTRIBUTE] = patient
    if "]]>" in document.text or "\r" in document.text:
        # A parser would turn a CR inside CDATA into LF, and end the section at the first ]]>.
        body = escape(document.text, IN_TEXT)
    else:
        body = f"<![CDATA[{document.text}]]>"
    lines = [
        '<?xml version="1.0" encoding="UTF-8" ?>',
        f"<{root}{_render_attributes(attributes, document.id)}>",
        f"<TEXT>{body}</TEXT>",
        "<TAGS>",
        *(f"<{name}{_render_attributes(values, document.id)} />" for name, values in tags),
        "</TAGS>",
        f"</{root}>",
        "",
    ]
    return "\n".join(lines)


def refuse_unwritable(text: str, name: str) -> None:
    """Raise CorpusError if `text` contains a character that XML 1.0 cannot represent."""
    found = UNWRITABLE.search(text)
    if found:
        raise CorpusError(
            f"note {name}: character {found.start()} (U+{ord(found.group()):04X}) cannot be written in XML; "
            "choose jsonl or brat"
        )


def _render_attributes(attributes: Mapping[str, str], name: str) -> str:
    for value in attributes.values():
        refuse_unwritable(value, name)
    return "".join(f' {key}="{escape(value, IN_ATTRIBUTE)}"' for key, value in attributes.items())
