"""Notes that came through mail, a web page or a word processor: RTF, quoted-printable, base64, %20, entities, tags.

Each function returns the changes that undo one of these, none for a text without it. A change replaces the characters
`[start, end)` of the text; changes are in text order and do not overlap. Time is linear in the text's length.
"""

import base64
import binascii
import html
import re
from collections.abc import Iterator, Sequence

Change = tuple[int, int, str]

_ENTITY = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9a-fA-F]{1,6};?|[A-Za-z][A-Za-z0-9]{1,30};|nbsp\b)")


def entities(text: str) -> list[Change]:
    """Return the changes that decode HTML entities, named and numeric; `&S;`, which HTML does not know, stays."""
    if "&" not in text:
        return []
    found = ((match, html.unescape(match[0])) for match in _ENTITY.finditer(text))
    return [(match.start(), match.end(), value) for match, value in found if value != match[0]]


_TAG = re.compile(r"<(/?)([A-Za-z!][\w:.-]{0,60}+)(?=[\s/>])((?:\"[^\"<>]*+\"|'[^'<>]*+'|[^<>\"'])*+)>|<!--|-->")
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code del dfn em font i ins kbd label mark q s samp small span strike strong sub "
    "sup tt u var wbr o:p st1".split()
)
_BLANK = frozenset("td th img input area map select option".split())
_BLOCK = frozenset(
    "address article aside blockquote body br caption center col colgroup dd div dl dt fieldset figure footer form "
    "frame h1 h2 h3 h4 h5 h6 head header hr html iframe legend li link main meta nav noscript object ol p pre script "
    "section style table tbody tfoot thead title tr ul !doctype".split()
)
_VALUE = re.compile(r"""(?<![\w:-])([\w:-]++)\s*+=\s*+(?:"([^"<>]*)"|'([^'<>]*)'|([^\s"'<>]+))""")
_LAYOUT = frozenset(
    "align bgcolor border cellpadding cellspacing class color colspan dir face height lang rowspan size style valign "
    "width xml:space".split()
)
_TELLING = re.compile(r"[A-Z@]|\d{5}|//")


def tags(text: str) -> list[Change]:
    """Return the changes that take tags away: those of HTML, and others that the text closes (`<name>...</name>`).

    Values of attributes that may hold words stay, parted by blanks, so that an e-mail address in a link is read.
    """
    if "<" not in text:
        return []
    matches = list(_TAG.finditer(text))
    closed = {match[2] for match in matches if match[1]}
    changes: list[Change] = []
    for match in matches:
        name = (match[2] or "").lower()
        if not name:
            changes.append((match.start(), match.end(), " "))
        elif name in _INLINE or name in _BLANK or name in _BLOCK or match[2] in closed:
            changes += _without_tag(match, "\n" if name in _BLOCK else " " if name in _BLANK else "")
    # One blank line is enough where several tags make one.
    return [*_after_line_ends(text, changes)]


def _without_tag(match: re.Match[str], instead: str) -> Iterator[Change]:
    at = match.start()
    for value in _VALUE.finditer(match[3]):
        group = next(number for number in (2, 3, 4) if value[number] is not None)
        if value[group].strip() and (value[1].lower() not in _LAYOUT or _TELLING.search(value[group])):
            low, high = (match.start(3) + place for place in value.span(group))
            yield at, low, " "
            at = high
    yield at, match.end(), " " if at > match.start() and not instead else instead


def _after_line_ends(text: str, changes: Sequence[Change]) -> Iterator[Change]:
    """Drop the line end of a block tag that a line end stands before or after already."""
    for start, end, value in changes:
        if value == "\n" and (text[end : end + 1] in ("\n", "\r") or (start and text[start - 1] == "\n")):
            value = ""
        yield start, end, value


_SOFT = re.compile(r"=[ \t]*\r?\n")
_LONG_SOFT = re.compile(r"(?m)^[^\n]{55,78}[^\n=]=[ \t]*\r?$")
_ESCAPED = re.compile(r"(?:=[0-9A-F]{2})+")
_ESCAPED_BLANK = re.compile(r"=(?:20|09|0D|A0)\r?$|=3D|=C2=A0|=(?:C3|E2=80)=[89AB][0-9A-F]", re.M)


def quoted_printable(text: str) -> list[Change]:
    """Return the changes that decode quoted-printable, where a soft line break or a typical escape shows it."""
    if "=" not in text or not (_LONG_SOFT.search(text) or _ESCAPED_BLANK.search(text)):
        return []
    changes: list[Change] = [(match.start(), match.end(), "") for match in _SOFT.finditer(text)]
    for match in _ESCAPED.finditer(text):
        changes += _bytes_read(match.start(), binascii.unhexlify(match[0].replace("=", "")))
    return sorted(changes)


_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PERCENT_SHOWN = re.compile(
    r"(?<=[^\W_])[,.:;]?%(?:20|0A|0D%0A)(?=[^\W\d_])|(?<=[^\W\d_])[,.:;]?%(?:20|2[CDEF]|3A|40)(?=\w)|%[C-F][0-9A-F]%[89AB][0-9A-F]"
)


def percent_encoding(text: str) -> list[Change]:
    """Return the changes that decode percent-encoding (`Ada%20Strong`), where a letter stands beside an escape."""
    if "%" not in text or not _PERCENT_SHOWN.search(text):
        return []
    changes: list[Change] = []
    for match in _PERCENT.finditer(text):
        changes += _bytes_read(match.start(), binascii.unhexlify(match[0].replace("%", "")))
    return changes


def _bytes_read(start: int, data: bytes) -> Iterator[Change]:
    """Yield the characters of bytes that stand three characters each in the text, from `start` on."""
    at = start
    for character in _decoded(data)[0]:
        size = 3 * character[1]
        # A NUL is no text; its escape stays.
        if character[0] != "\0":
            yield at, at + size, "\n" if character[0] == "\r" else character[0]
        at += size


def _decoded(data: bytes) -> tuple[list[tuple[str, int]], bool]:
    """Return the characters of some bytes, each with their number, and whether they are UTF-8 (else Windows-1252)."""
    try:
        string = data.decode("utf-8")
    except UnicodeDecodeError:
        return [(bytes([byte]).decode("cp1252", "replace"), 1) for byte in data], False
    if len(string) == len(data):
        return [(character, 1) for character in string], True
    return [(character, len(character.encode())) for character in string], True


_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?:(?:[A-Za-z0-9+/]{40,}+\r?\n)++(?:[A-Za-z0-9+/]{2,}+={0,2})?|[A-Za-z0-9+/]{40,}+={0,2})"
    r"(?![A-Za-z0-9+/=_-])"
)
_LEAST_BASE64 = 40
_LEAST_READABLE = 0.9


def base64_blocks(text: str) -> list[Change]:
    """Return the changes that decode blocks of base64 that hold text."""
    changes: list[Change] = []
    for match in _BASE64.finditer(text) if _may_hold_base64(text) else ():
        block = match[0].rstrip()
        if len(block) < _LEAST_BASE64:
            continue
        places = [match.start() + k for k, character in enumerate(block) if character not in "\r\n"]
        solid = "".join(block.split())
        try:
            data = base64.b64decode(solid + "=" * (-len(solid) % 4), validate=True)
        except binascii.Error:
            continue
        characters, is_utf8 = _decoded(data)
        if is_utf8 and _is_readable("".join(character for character, _ in characters)):
            changes += _quartets(characters, places)
    return changes


_RUN = re.compile(r"[A-Za-z0-9+/]{20}")


def _may_hold_base64(text: str) -> bool:
    return _RUN.search(text) is not None


def _is_readable(text: str) -> bool:
    good = sum(character.isprintable() or character in "\r\n\t" for character in text)
    return good >= _LEAST_READABLE * len(text) and any(map(str.isspace, text)) and "\0" not in text


def _quartets(characters: Sequence[tuple[str, int]], places: Sequence[int]) -> Iterator[Change]:
    """Yield the characters with the groups of four that encode them: three bytes each, more where one is cut."""
    # Line ends between groups go with the group before them.
    start, position = places[0], 0
    waiting: list[str] = []
    for character, size in characters:
        waiting.append("\n" if character == "\r" else character)
        position += size
        if position % 3 == 0:
            after = position // 3 * 4
            end = places[after] if after < len(places) else places[-1] + 1
            yield start, end, "".join(waiting)
            start, waiting = end, []
    if waiting:
        yield start, places[-1] + 1, "".join(waiting)


_RTF = re.compile(
    r"\\'([0-9a-fA-F]{2})|\\u(-?\d{1,6}) ?|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\([^a-zA-Z'])|([{}])|([\r\n]+)"
    r"|([^\\{}\r\n]+)|(\\)"
)
_RTF_WORDS = {
    "par": "\n", "line": "\n", "row": "\n", "sect": "\n", "page": "\n", "pard": "", "tab": "\t", "cell": " ",
    "nestcell": " ", "emdash": "\u2014", "endash": "\u2013", "lquote": "'", "rquote": "'", "ldblquote": '"',
    "rdblquote": '"', "bullet": "\u2022", "emspace": " ", "enspace": " ", "qmspace": " ",
}  # fmt: skip
_RTF_UNREAD = frozenset(
    "fonttbl colortbl stylesheet listtable listoverridetable rsidtbl generator pict themedata colorschememapping "
    "latentstyles datastore xmlnstbl objdata blipuid".split()
)
_RTF_MARKS = {"~": " ", "_": "-", "-": "", "\n": "\n", "\r": "\n", "{": "{", "}": "}", "\\": "\\"}
_RTF_ABOUT = frozenset("title subject author manager company operator category keywords comment doccomm".split())


def rtf(text: str) -> list[Change]:
    r"""Return the changes that leave the words of a text in RTF, which begins with `{\rtf`.

    Tables of fonts, colours and styles, and pictures, are left out; what names the author is read.
    """
    return _Rtf(text).changes() if text.lstrip("\ufeff \r\n\t").startswith("{\\rtf") else []


class _Rtf:
    """A reader of one RTF text: the group's depth, and the depth from which on nothing is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.unread_from: int | None = None
        self.fallback = [1]
        self.to_skip = 0
        self.about: set[int] = set()

    def changes(self) -> list[Change]:
        return [change for match in _RTF.finditer(self.text) for change in self._change(match)]

    def _change(self, match: re.Match[str]) -> Iterator[Change]:
        code, point, word, number, mark, brace, _, plain, _ = match.groups()
        start, end = match.span()
        if brace:
            yield start, end, self._brace(brace)
        elif self.unread_from is not None:
            yield start, end, ""
        elif plain:
            skipped = min(self.to_skip, len(plain))
            self.to_skip -= skipped
            if skipped:
                yield start, start + skipped, ""
        elif point:
            self.to_skip = self.fallback[-1]
            yield start, end, _character(int(point) % 0x10000)
        elif code or mark:
            value = bytes([int(code, 16)]).decode("cp1252", "replace") if code else _RTF_MARKS.get(mark, "")
            if self.to_skip:
                self.to_skip -= 1
                value = ""
            yield start, end, value
        else:
            yield start, end, self._word(word or "", number)

    def _brace(self, brace: str) -> str:
        self.to_skip = 0
        if brace == "{":
            self.depth += 1
            self.fallback.append(self.fallback[-1])
            return ""
        if self.unread_from == self.depth:
            self.unread_from = None
        after = "\n" if self.depth in self.about else ""
        self.about.discard(self.depth)
        self.depth -= 1
        if len(self.fallback) > 1:
            self.fallback.pop()
        return after

    def _word(self, word: str, number: str | None) -> str:
        if word in _RTF_UNREAD:
            self.unread_from = self.depth
        elif word in _RTF_ABOUT:
            self.about.add(self.depth)
        elif word == "uc" and number is not None:
            self.fallback[-1] = max(0, min(int(number), 16))
        return _RTF_WORDS.get(word, "")


def _character(point: int) -> str:
    return "\ufffd" if 0xD800 <= point < 0xE000 or point == 0 else chr(point)


def unread_characters(text: str) -> int:
    """Return how many characters are in blocks that look encoded, and were not decoded: base64 and the like."""
    if not _may_hold_base64(text):
        return 0
    runs = (match[0] for match in _UNREAD.finditer(text))
    return sum(len(run) for run in runs if _DIGIT.search(run) and _LETTER.search(run))


# Base64, also that of addresses, and hexadecimal; no line that is drawn, and no word.
_UNREAD = re.compile(r"[A-Za-z0-9+/_-]{60,}+={0,2}")
_DIGIT, _LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")
