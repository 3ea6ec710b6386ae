"""Shared by all readers and writers of XML: UTF-8 only, no document type that could load other files, escapes."""

import codecs
import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape

from ensemble_deid.corpora.checks import read_utf8
from ensemble_deid.errors import CorpusError

_DEEPEST = 100
_ENCODING = re.compile(r"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']{1,40})["']""")
_ENTITY = re.compile(r"<!\[CDATA\[.*?\]\]>|<!--.*?-->|(&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);))", re.DOTALL)
"""Group 1: the beginning of an entity that XML itself does not define."""


def parse_xml(parser: expat.XMLParserType, content: str, path: str, *, external_dtd: bool = False) -> None:
    """Let a parser with its handlers read the content of the file `path`.

    Raises CorpusError with file and line on broken XML, another encoding than UTF-8, and a document type declaration;
    with `external_dtd` one that only names a file is accepted (the file is never read), and then entities are refused
    that only that file could define: the parser would leave them out.
    """
    declared = _ENCODING.match(content.removeprefix("\ufeff"))
    if declared and declared.group(1).lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise CorpusError(f"{path}:1: the file declares {_encoding(declared.group(1))}; convert it to UTF-8 first")

    def refuse_doctype(name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        if not external_dtd or has_subset:
            raise CorpusError(
                f"{path}:{parser.CurrentLineNumber}: a document type declaration is refused "
                "(it can pull in other files)"
            )

        for found in _ENTITY.finditer(content):
            if found.group(1) is not None:
                line = content.count("\n", 0, found.start()) + 1
                raise CorpusError(f"{path}:{line}: an entity that the file does not define")

    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(content.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise CorpusError(
            f"{path}:{error.lineno}: broken XML at column {error.offset + 1}: {expat.ErrorString(error.code)}"
        ) from None


def _encoding(name: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        return "an unknown encoding"
    return f"the encoding {name}"


@dataclass(slots=True)
class XmlNode:
    """An element: its name, attributes and line, and its text and child elements in their order."""

    name: str
    attributes: dict[str, str] = field(repr=False)
    line: int
    content: list["str | XmlNode"] = field(default_factory=list, repr=False)

    @property
    def text(self) -> str:
        """The characters directly in the element."""
        return "".join(piece for piece in self.content if isinstance(piece, str))

    @property
    def children(self) -> list["XmlNode"]:
        """The elements directly in the element."""
        return [piece for piece in self.content if isinstance(piece, XmlNode)]

    def all(self, name: str) -> list["XmlNode"]:
        return [child for child in self.children if child.name == name]

    def text_of(self, name: str) -> str | None:
        """Return the text of the first child of that name, None where there is none."""
        return next((child.text for child in self.children if child.name == name), None)


def read_tree(path: Path, *, external_dtd: bool = False) -> XmlNode:
    """Return the root of a file. Raises CorpusError as `parse_xml` does."""
    return tree_of(read_utf8(path), str(path), external_dtd=external_dtd)


def tree_of(content: str, path: str, *, external_dtd: bool = False, local_names: bool = False) -> XmlNode:
    """Return the root of `content`, which the file `path` holds. Raises CorpusError as `parse_xml` does.

    With `local_names`, names lose their namespace prefixes.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    top = XmlNode("", {}, 1)
    open_nodes = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(open_nodes) > _DEEPEST:
            raise CorpusError(f"{path}:{parser.CurrentLineNumber}: elements are nested more than {_DEEPEST} deep")
        if local_names:
            name = name.rpartition(":")[2]
            attributes = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        node = XmlNode(name, attributes, parser.CurrentLineNumber)
        open_nodes[-1].content.append(node)
        open_nodes.append(node)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: open_nodes.pop()
    parser.CharacterDataHandler = lambda data: open_nodes[-1].content.append(data)
    parse_xml(parser, content, path, external_dtd=external_dtd)
    return top.children[0]


IN_ATTRIBUTE = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
IN_TEXT = {"\r": "&#13;"}
UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""The characters that XML 1.0 cannot represent."""


def refuse_unwritable(text: str, name: str) -> None:
    """Raise CorpusError if a text of the note `name` contains a character that XML 1.0 cannot represent."""
    found = UNWRITABLE.search(text)
    if found:
        raise CorpusError(
            f"note {name}: character {found.start()} (U+{ord(found.group()):04X}) cannot be written in XML; "
            "choose jsonl or brat"
        )


def escaped(text: str, name: str, entities: dict[str, str] = IN_TEXT) -> str:
    """Return a text of the note `name` escaped for an element, or with IN_ATTRIBUTE for an attribute."""
    refuse_unwritable(text, name)
    return escape(text, entities)
