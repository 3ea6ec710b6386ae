"""What the readers of FHIR, HL7 v2 and XML return: one message with its note text, and what else is in it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html.entities import html5
from xml.parsers import expat

from ensemble_deid.corpora.edits import Edit
from ensemble_deid.corpora.messages.structure import HTML_ELEMENTS, said_by_attribute
from ensemble_deid.corpora.record_map import Field, FieldRule
from ensemble_deid.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Message:
    """`text` is all note text of the message; `written(edits, values)` is the message with the text replaced.

    `fields` are the values with a rule of a record map, and `values` their replacements; empty without a map.
    `kept` names the other fields with a value, which may hold PHI and are never changed; empty with a map.
    `key` is a resource's type and id; `authority` assigned the ids of patients that are known by the id alone.
    `written` raises CorpusError where the message's character set cannot hold the replacement.
    """

    text: str = field(repr=False)
    written: Callable[..., bytes] = field(repr=False)
    kept: tuple[str, ...] = ()
    patient: str | None = field(default=None, repr=False)
    fields: tuple[Field, ...] = field(default=(), repr=False)
    key: str | None = field(default=None, repr=False)
    authority: str | None = field(default=None, repr=False)


# A text inside something else: every character with how it is written there, and what stands between characters.


@dataclass(slots=True)
class EncodedText:
    """`pieces[i]` writes character i (nothing, where it only stands for a break); `marks[i]` stands before it.

    Without edits the pieces and marks are the original, byte for byte. Marks (tags, escape sequences for highlighting,
    the rest of a message) are always kept, also inside what is replaced. `joined` has the first and the end of
    characters that are written together, for each of them.
    """

    characters: list[str] = field(default_factory=list, repr=False)
    pieces: list[str] = field(default_factory=list, repr=False)
    marks: dict[int, str] = field(default_factory=dict, repr=False)
    joined: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(self.characters)

    def add(self, characters: str, piece: str) -> None:
        """Add characters that are written together."""
        first = len(self.pieces)
        if len(characters) > 1:
            self.joined.update(dict.fromkeys(range(first, first + len(characters)), (first, first + len(characters))))
        for number, character in enumerate(characters):
            self.characters.append(character)
            self.pieces.append("" if number else piece)

    def mark(self, written: str) -> None:
        """Add what is no text, and stays."""
        at = len(self.pieces)
        self.marks[at] = self.marks.get(at, "") + written

    def separate(self, character: str = "\n") -> None:
        """Add a character that is written nowhere, so that words on either side of a mark are not read as one."""
        if self.characters and not self.characters[-1].isspace():
            self.add(character, "")

    def edited(self, edits: Sequence[Edit], encode: Callable[[str], str]) -> str:
        """Return how the text is written with edits made: each replaces characters, in text order."""
        parts: list[str] = []
        position = 0
        for start, end, new in self._whole(edits):
            parts += [self._written(position, start), self.marks.get(start, ""), encode(new)]
            parts += [self.marks.get(inside, "") for inside in range(start + 1, end)]
            position = end
        return "".join([*parts, self._written(position, len(self.pieces)), self.marks.get(len(self.pieces), "")])

    def _whole(self, edits: Sequence[Edit]) -> list[Edit]:
        """Return edits that never take only some of the characters that are written together."""
        if not self.joined:
            return list(edits)
        whole: list[Edit] = []
        done, text = 0, self.text
        for start, end, new in edits:
            first, after = self.joined.get(start, (start, end))[0], self.joined.get(end - 1, (start, end))[1]
            if whole and first < whole[-1][1]:
                # The edit before has taken these characters up to its own end already.
                before, _, tail = whole.pop()
                kept = tail[: len(tail) - len(text[done : self.joined[start][1]])]
                new = kept + text[done:start] + new
                first = before
            else:
                new = text[first:start] + new
            whole.append(Edit(first, after, new + text[end:after]))
            done = end
        return whole

    def _written(self, start: int, end: int) -> str:
        return "".join(self.marks.get(at, "") + self.pieces[at] for at in range(start, end))


# The text of a fragment of XHTML, such as a FHIR narrative; tags stay where they are.

_TOKEN = re.compile(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>|&[^;&<\s]{1,40};|[^<&]""", re.DOTALL)
_REFERENCE = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_TAG_NAME = re.compile(r"</?([\w.-]+)")
_OF_XML = {"amp", "lt", "gt", "quot", "apos"}
INLINE = frozenset("a abbr acronym b big cite code dfn em i img q s samp small span strong sub sup tt u var".split())
_CELLS = {"td", "th"}


def add_xhtml(encoded: EncodedText, value: str, pieces: Sequence[str], place: str) -> list[str]:
    """Add the text of an XHTML fragment whose character i is written as `pieces[i]`.

    Return the names of attributes that may say something (`title`, `alt`, `href`, ...) and are kept. Raises CorpusError
    where the fragment is not well-formed, or has comments, CDATA sections, elements that HTML lacks, or the like.
    """
    if re.search(r"<[!?]", value):
        raise CorpusError(
            f"{place}: has a comment, a CDATA section, a declaration or an instruction, which are not read"
        )
    kept = _saying_attributes(value, place)
    position = 0
    while position < len(value):
        token = _TOKEN.match(value, position)
        if token is None:
            raise CorpusError(f"{place}: character {position} of the XHTML begins no tag and no entity")
        end = token.end()
        written = "".join(pieces[position:end])
        if token[0][0] == "<":
            encoded.mark(written)
            name = _TAG_NAME.match(token[0])
            element = name.group(1).lower() if name else ""
            if element not in INLINE:
                encoded.separate(" " if element in _CELLS else "\n")
        elif token[0][0] == "&":
            encoded.add(_referred(token[0]), written)
        else:
            encoded.add(token[0], written)
        position = end
    return kept


def _saying_attributes(value: str, place: str) -> list[str]:
    """Return what attributes may say something, once the fragment is known to be well-formed XHTML."""
    kept: list[str] = []
    unknown = False

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal unknown
        unknown = unknown or name.lower() not in HTML_ELEMENTS
        kept.extend(filter(None, (said_by_attribute(*attribute) for attribute in attributes.items())))

    def numbered(match: re.Match[str]) -> str:
        # HTML's named characters, which FHIR permits, are unknown to XML.
        if match[1] in _OF_XML or f"{match[1]};" not in html5:
            return match[0]
        return "".join(f"&#{ord(character)};" for character in html5[f"{match[1]};"])

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    try:
        parser.Parse(_REFERENCE.sub(numbered, value).encode("utf-8"), True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise CorpusError(f"{place}: is no well-formed XHTML (line {error.lineno}: {message})") from None
    if unknown:
        raise CorpusError(f"{place}: has an element that HTML lacks")
    return kept


def _referred(reference: str) -> str:
    name = reference[1:-1]
    if name.startswith("#"):
        return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
    return html5[f"{name};"]


# Places in a message for values that are known when it is written.

_Maker = Callable[[object], str]
_MARK = re.compile("\0([0-9]+)\0")


@dataclass(slots=True)
class FieldSlots:
    """The values of a message that have a rule, and how each replacement is written.

    A mark with NUL, which no message may contain, replaces each.
    """

    fields: list[Field] = field(default_factory=list, repr=False)
    makers: list[tuple[int, _Maker]] = field(default_factory=list, repr=False)

    def add(self, name: str, rule: FieldRule, value: object, written: Callable[[str], str]) -> str:
        """Add a value, and return the mark in whose place it is written."""
        return self._mark(name, rule, value, [lambda new: "" if new is None else written(str(new))])[0]

    def add_lines(self, name: str, rule: FieldRule, value: str, written: Callable[[str], str]) -> list[str]:
        """Add a value of several lines, and return a mark for each; what has fewer lines is written in the last."""
        count = value.count("\n") + 1
        makers = [partial(_line, number=number, count=count, written=written) for number in range(count)]
        return self._mark(name, rule, value, makers)

    def _mark(self, name: str, rule: FieldRule, value: object, makers: Sequence[_Maker]) -> list[str]:
        first = len(self.makers)
        self.makers += [(len(self.fields), make) for make in makers]
        self.fields.append(Field(name, rule, value))
        return [f"\0{number}\0" for number in range(first, len(self.makers))]

    def filled(self, content: str, values: Sequence[object]) -> str:
        """Return the content with the new values; without any, nothing is in their places."""
        given = values or [None] * len(self.fields)

        def written(match: re.Match[str]) -> str:
            place, make = self.makers[int(match[1])]
            return make(given[place])

        return _MARK.sub(written, content)


def _line(value: object, *, number: int, count: int, written: Callable[[str], str]) -> str:
    lines = "" if value is None else str(value)
    if lines.count("\n") + 1 == count:
        return written(lines.split("\n")[number])
    return written(lines) if number == count - 1 else ""
