"""Notes that came through mail or a web page: quoted-printable, base64, %20, entities, tags (RTF is in `rtf.py`).

Each function returns the changes that undo one of these. A change `(start, end, new)` replaces the characters from
`start` up to `end`; changes are in text order and do not overlap. Time is linear in the text's length.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence

from ensemble_deid.word_tables import is_listed

Change = tuple[int, int, str]

_ENTITY = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9a-fA-F]{1,6};?|[A-Za-z][A-Za-z0-9]{1,30};|nbsp\b)")


def entities(text: str) -> list[Change]:
    """Return the changes that decode HTML entities, but not unknown ones (`&S;`) or unlikely ones (`&#4821377`)."""
    if "&" not in text:
        return []
    found = ((match, html.unescape(match[0])) for match in _ENTITY.finditer(text))
    return [(match.start(), match.end(), value) for match, value in found if _is_decoded(match[0], value)]


def _is_decoded(entity: str, value: str) -> bool:
    if not entity.startswith("&#"):
        return value != entity
    usual = value < "\u0250" or "\u2000" <= value < "\u2070"
    return value not in ("", "\ufffd") and (usual or entity.endswith(";"))


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
_ATTRIBUTE = re.compile(
    r"""\s*+(?:/|([\w:-]++)(?:\s*+=\s*+(?:"([^"<>]*)"|'([^'<>]*)'|([^\s"'<>]+)))?+(?=[\s/]|$))\s*+"""
)
_BOOLEAN = frozenset(
    "allowfullscreen async autofocus autoplay checked compact controls defer disabled hidden ismap itemscope loop "
    "multiple muted nohref noresize noshade novalidate nowrap open readonly required reversed selected".split()
)
_LAYOUT = frozenset(
    "align bgcolor border cellpadding cellspacing class color colspan dir face height lang rowspan size style valign "
    "width xml:space".split()
)
_KNOWN = _LAYOUT | frozenset(
    "abbr accept action alink alt axis background char charoff charset cite clear code cols content coords data "
    "datetime dob for frame frameborder headers href hreflang hspace http-equiv id itemprop itemtype label language "
    "link longdesc marginheight marginwidth max maxlength media method min mrn name noshade nowrap placeholder prompt "
    "property rel rev role rows rules scheme scope scrolling shape span src ssn start stylecode summary tabindex "
    "target text title type usemap value version vlink vspace w:st xml:lang "
    "xmlns xmlns:o xmlns:st1 xmlns:v xmlns:w".split()
)
_DOCTYPE = re.compile(
    r"""\s+html(?:\s+public\s+"-//W3C//DTD X?HTML(?: \d\.\d{1,2})?(?: Transitional| Strict| Frameset| Basic)?//EN")?"""
    r"""(?:\s+"https?://www\.w3\.org/TR/x?html\d{0,3}/(?:DTD/)?"""
    r"""(?:x?html\d{0,2}-?)?(?:strict|loose|transitional|frameset)?\.dtd")?\s*+""",
    re.I,
)
# Words of style sheets in lower case, and numbers, where it is no date or number of a person.
_STYLE = re.compile(
    r"(?:(?:[0-9]{1,4}(?:\.[0-9]{1,3})?(?:px|pt|em|rem|in|cm|mm|ex)?|align|arial|auto|background|baseline|black|block"
    r"|blue|body|bold|border|both|bottom|break|calibri|cell|center|char|col|collapse|color|courier|dashed|decoration|dir"
    r"|display|dotted|en|es|even|family|first|fixed|float|font|footer|gb|gray|green|grey|hanging|header|height|helvetica"
    r"|hidden|important|indent|inherit|initial|inline|italic|justify|label|last|layout|left|line|list|ltr|margin|maroon"
    r"|max|middle|min|mso|navy|none|normal|nowrap|oblique|odd|orange|outline|overflow|padding|page|paragraph|position"
    r"|pre|preserve|purple|red|relative|right|row|rtl|sans|section|serif|silver|size|small|solid|space|spacing|span"
    r"|static|style|table|tahoma|teal|text|title|top|transform|transparent|type|underline|uppercase|us|value|variant"
    r"|verdana|vertical|visible|weight|white|width|windowtext|word|wrap|yellow)(?![^\W_])|#[0-9a-f]{3,6}(?![^\W_])"
    r"|[\s;:,_%!().-]++)*+"
)
_TELLING = re.compile(r"\d{5}|\d[^\w.]+\d|\d_+\d|\d\.\d+\.\d")


def tags(text: str) -> list[Change]:
    """Return the changes that take tags away: those of HTML, and others that the text closes (`<name>...</name>`).

    What is no attribute makes angle brackets text: `<Mark Jones, MD>`, `<address 12 Elm Street>`. Values of attributes
    that may hold words stay, parted by blanks, so that an e-mail address in a link is read.
    """
    if "<" not in text:
        return []
    matches = list(_TAG.finditer(text))
    paired = {match[2] for match in matches if match[1]} & {match[2] for match in matches if not match[1]}
    changes: list[Change] = []
    for match in matches:
        if match[2] is None:
            changes.append((match.start(), match.end(), " "))
        elif _is_name_of_tag(match[2], paired) and (kept := _words_in(match)) is not None:
            name = match[2].lower()
            changes += _without_tag(match, kept, "\n" if name in _BLOCK else " " if name in _BLANK else "")
    # One blank line is enough where several tags make one.
    return [*_after_line_ends(text, changes)]


def _is_name_of_tag(name: str, paired: Collection[str]) -> bool:
    """Whether a name is that of a tag. Written as names of people are, `<Mark>` and `<Li>`, it must come in a pair."""
    lower = name.lower()
    if name in paired:
        return True
    like_a_name = lower == "mark" or (name.istitle() and not name.isupper())
    return (lower in _INLINE or lower in _BLANK or lower in _BLOCK) and not like_a_name


def _words_in(match: re.Match[str]) -> list[tuple[int, int]] | None:
    """Return the places of what a tag's attributes may say; None where what is in it are not attributes alone."""
    inside, first = match[3].rstrip(), match.start(3)
    if match[2].lower() == "!doctype":
        return [] if _DOCTYPE.fullmatch(inside) else None
    kept: list[tuple[int, int]] = []
    at = 0
    while at < len(inside):
        found = _ATTRIBUTE.match(inside, at)
        if found is None:
            return None
        at, name = found.end(), (found[1] or "/").lower()
        group = next((number for number in (2, 3, 4) if found[number] is not None), None)
        if group is None:
            if name != "/" and name not in _BOOLEAN:
                return None
        elif not _is_known(found[1]):
            kept.append((first + found.start(1), first + found.end(group)))
        elif found[group].strip() and not (name in _LAYOUT and _is_layout(found[group])):
            kept.append((first + found.start(group), first + found.end(group)))
    return kept


def _is_known(attribute: str) -> bool:
    """Whether the name of an attribute is HTML's, or an English word as in `<dose unit="mg">`: nobody's name."""
    return attribute.lower() in _KNOWN or (attribute.islower() and is_listed(attribute, "english"))


def _is_layout(value: str) -> bool:
    return _STYLE.fullmatch(value) is not None and not _TELLING.search(value)


def _without_tag(match: re.Match[str], kept: Sequence[tuple[int, int]], instead: str) -> Iterator[Change]:
    at = match.start()
    for low, high in kept:
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
# Digits that go on are a number: `MRN=2148213`, `DOB=23/3/2041`.
_ESCAPED_NO_NUMBER = re.compile(r"=(?!\d\d[/.-]?\d)[0-9A-F]{2}(?:=[0-9A-F]{2})*")
# After a capital or a digit, 20 at the end of a line is a value: `RR=20`, `CO2=20`.
_SHOWN = re.compile(r"(?<![A-Z0-9])=(?:20|09)\r?$|=(?:0D|A0)\r?$|=3D|=C2=A0|=(?:C3|E2=80)=[89AB][0-9A-F]", re.M)
_BLANK_BEFORE_WORD = re.compile(r"=20(?=[^\W\d_])")


def quoted_printable(text: str) -> list[Change]:
    """Return the changes that decode quoted-printable, where a soft line break or a typical escape shows it."""
    if "=" not in text or not (_LONG_SOFT.search(text) or _SHOWN.search(text)):
        return []
    changes: list[Change] = [(match.start(), match.end(), "") for match in _SOFT.finditer(text)]
    # Where even blanks are escaped, no `=` is the note's own.
    all_escaped = len(_BLANK_BEFORE_WORD.findall(text)) > text.count(" ")
    for match in (_ESCAPED if all_escaped else _ESCAPED_NO_NUMBER).finditer(text):
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
    for character, bytes_of_it in _decoded(data)[0]:
        size = 3 * bytes_of_it
        # An encoder escapes no letter or digit alone: `HCT=70`, `MRN=4821377`. What is no text stays escaped, too.
        alone = len(data) == 1 and character.isascii() and character.isalnum()
        if not alone and character != "\ufffd" and not is_control(character):
            yield at, at + size, "\n" if character == "\r" else character
        at += size


def is_control(character: str) -> bool:
    """Whether a character is no text: a control character other than a tab or the end of a line."""
    return unicodedata.category(character) == "Cc" and character not in "\t\r\n"


def _decoded(data: bytes) -> tuple[list[tuple[str, int]], bool]:
    """Return the characters of some bytes, each with their number, and whether they are UTF-8 (else Windows-1252)."""
    try:
        string = data.decode("utf-8")
    except UnicodeDecodeError:
        return [(bytes([byte]).decode("cp1252", "replace"), 1) for byte in data], False
    if len(string) == len(data):
        return [(character, 1) for character in string], True
    return [(character, len(character.encode())) for character in string], True


# Blanks between two of them only part them.
_ENCODED_WORD = re.compile(
    r"=\?([\w-]+)(?:\*[\w-]*)?\?([BbQq])\?([!->@-~]*)\?=(?:\s+(?==\?[\w*-]+\?[BbQq]\?))?", re.ASCII
)
_LATIN_CHARSET = re.compile(r"(?:utf-?8|(?:us-)?ascii|iso-8859-\d{1,2}|latin1|(?:windows-|cp)125\d)", re.I)


def encoded_words(text: str) -> list[Change]:
    """Return the changes that decode words of mail heads (RFC 2047), each of which is replaced as a whole."""
    if "=?" not in text:
        return []
    found = ((match, _word_read(match)) for match in _ENCODED_WORD.finditer(text))
    return [(match.start(), match.end(), word) for match, word in found if word is not None]


def _word_read(match: re.Match[str]) -> str | None:
    """Return what an encoded word says; None for one that is damaged, or in a character set that is not read."""
    charset, encoding, data = match.groups()
    if not _LATIN_CHARSET.fullmatch(charset):
        return None
    try:
        if encoding in "Bb":
            word = base64.b64decode(data + "=" * (-len(data) % 4), validate=True).decode(charset)
        else:
            word = binascii.a2b_qp(data, header=True).decode(charset)
    except (ValueError, LookupError):
        return None
    return None if any(map(is_control, word)) else word.replace("\r", "\n")


_UUENCODED = re.compile(r"^begin [0-7]{3,4} [^\r\n]+\r?\n((?:[!-M][ -`]{2,61}(?:\r?\n|\Z))+)", re.M)


def uuencoded(text: str) -> list[Change]:
    """Return the changes that leave out uuencoded files, which nobody reads, but not the lines that name them."""
    found = (match for match in _UUENCODED.finditer(text) if _is_uuencoded(match[1].splitlines()[0]))
    return [(*match.span(1), "") for match in found]


def _is_uuencoded(line: str) -> bool:
    """Whether a line is as long as its first character says, with or without a check character at its end."""
    length = (ord(line[0]) - 32 + 2) // 3 * 4
    return len(line) - 1 in (length, length + 1)


_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?:(?:[A-Za-z0-9+/]{40,}+\r?\n)++(?:[A-Za-z0-9+/]{2,}+={0,2})?|[A-Za-z0-9+/]{40,}+={0,2})"
    r"(?![A-Za-z0-9+/=_-])"
)
_LEAST_BASE64 = 40
_LEAST_READABLE = 0.9


def base64_blocks(text: str) -> list[Change]:
    """Return the changes that decode blocks of base64 that hold text."""
    changes: list[Change] = []
    for match in _BASE64.finditer(text) if _RUN.search(text) else ():
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


_LINE = r"(?:[A-Za-z0-9+/]{16,}+|[A-Za-z0-9_-]{40,}+)={0,2}"
_UNREAD = re.compile(
    # Base64, also that of addresses, and hexadecimal; no line that is drawn, and no word. First in lines.
    rf"(?<![A-Za-z0-9+/=_-]){_LINE}(?:[ \t]*+\r?\n[ \t>|]*+{_LINE})+|[A-Za-z0-9+/_-]{{60,}}+={{0,2}}"
    # Bytes apart.
    r"|(?<![A-Za-z0-9])(?:[0-9A-Fa-f]{2}[ :,\t\r\n]{1,2}){30,}+"
)
_DIGIT, _LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")
_BRAILLE = re.compile(r"[\u2801-\u28ff]{2,}+")
_LEAST_UNREAD = 60
"""So many characters of an encoding are counted: 45 bytes, more than a name and a date."""


def unread_characters(text: str) -> int:
    """Return how many characters are in blocks that look encoded, and were not decoded: base64 and the like."""
    runs = ["".join(_SOLID.findall(match[0])) for match in _UNREAD.finditer(text)]
    unread = sum(len(run) for run in runs if len(run) >= _LEAST_UNREAD and _DIGIT.search(run) and _LETTER.search(run))
    unread += sum(len(match[0]) for match in _ENCODED_WORD.finditer(text))
    return unread + (0 if text.isascii() else sum(len(run) for run in _BRAILLE.findall(text)))


_SOLID = re.compile(r"[A-Za-z0-9+/=_-]+")
