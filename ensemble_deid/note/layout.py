"""How words are laid out: letters apart, one a line, blanks written otherwise, words cut at line ends, case.

Each function returns the changes (`markup.py`) that undo one of these, and none without evidence for it. Ordinary text,
such as `b.i.d.`, `A B C D`, `x 5 x 4` or a table with `|`, proves nothing.
"""

import itertools
import re
import string
from collections import Counter
from collections.abc import Iterator
from functools import cache
from statistics import median

from ensemble_deid.note.markup import Change
from ensemble_deid.word_tables import is_listed

_SEPARATORS = " \n.·•∙‧-_*~|+"
_LEAST_SHOWN, _LEAST_CAPITALS = 4, 6


def letters_apart(text: str) -> list[Change]:
    """Return the changes that join letters parted by blanks, line ends, dots or the like (`S m i t h`)."""
    changes: list[Change] = []
    for separator in _SEPARATORS:
        if text.count(separator) < _LEAST_SHOWN - 1:
            continue
        # Chance does not split so many words.
        if shown := sum(_is_word(match[0][::2], separator) for match in _shown(separator).finditer(text)):
            changes += _joined_letters(text, separator, often=shown >= _OFTEN)
    return _apart(changes)


@cache
def _shown(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    before, after = (r"(?<!\S)", r"(?!\S)") if separator.isspace() else (r"(?<![\w.])", r"(?!\w)")
    return re.compile(rf"{before}[^\W_]{after}(?:{mark}[^\W_]{after}){{{_LEAST_SHOWN - 1},}}+")


def _is_word(letters: str, separator: str) -> bool:
    plain = letters.isalpha() and (letters[1:].islower() or (letters.isupper() and len(letters) >= _LEAST_CAPITALS))
    # Columns of single digits are ordinary.
    number = len(letters) >= _LEAST_CAPITALS and letters.isdecimal() and separator not in " \n"
    steps = {ord(after) - ord(before) for before, after in itertools.pairwise(letters)}
    return (plain or number) and not steps <= {0, 1}


@cache
def _letters(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    # As wide as between columns of a table.
    gap = rf"(?:{mark}(?:[ \n]{mark}){{0,80}}+|{mark}{mark})"
    # Punctuation may follow the last letter at once.
    return re.compile(rf"(?<![\w/.-])[^\W_](?!\w)(?:{gap}\S(?!\w))++")


_SHORT_WORD = re.compile(r"[A-Z][\s.][a-z]|\d\n\d")
_SHORT_STRING = re.compile(r"[A-Z]\W[a-zA-Z]|\d[^\w.]\d")
_OFTEN = 3


def _joined_letters(text: str, separator: str, *, often: bool) -> Iterator[Change]:
    short = _SHORT_STRING if often else _SHORT_WORD
    gaps = re.compile(r"[ \n]+") if separator in " \n" else re.compile(rf"[{re.escape(separator)} \n]+")
    # Where line ends have separators after them, too, none is the note's own.
    own_line_ends = separator == "\n" and "\n\n\n" not in text
    for match in _letters(separator).finditer(text):
        low, high = match.span()
        if high - low <= _LEAST_SHOWN and not short.fullmatch(match[0][:3]):
            continue
        if len(re.findall(r"\w", match[0])) > 1:
            for gap in gaps.finditer(text, low + 1, high - 1):
                string = gap[0]
                if string != separator:
                    yield gap.start(), gap.end(), _between(string, separator)
                    continue
                before, after = text[gap.start() - 1], text[gap.end()]
                # A line end between two letters is the note's own after words, before a capital.
                if not (own_line_ends and after.isupper() and (before.islower() or before.isdigit())):
                    yield gap.start(), gap.end(), ""


def _between(gap: str, separator: str) -> str:
    """Return what stood between two letters before each character had a separator after it."""
    return gap[1::2] if len(gap) % 2 and set(gap[::2]) == {separator} else " "


def _apart(changes: list[Change]) -> list[Change]:
    kept: list[Change] = []
    for change in sorted(changes):
        if not kept or change[0] >= kept[-1][1]:
            kept.append(change)
    return kept


_PAIR = re.compile(r"(?<![^\W_])[A-Z][a-z]++_(?=[A-Z][a-z]|[A-Z]\.|\d)")
_BETWEEN = re.compile(r"(?<=[\w.,:;)])_+(?=[^\W_]|[(#])")
_SOLID = re.compile(r"\S+")
_FEW_BLANKS = 4


def written_blanks(text: str) -> list[Change]:
    """Return the changes to blanks of `_` and `|` that stand in for them (`Ada_Strong`)."""
    changes: list[Change] = []
    for mark in "_|":
        if mark not in text:
            continue
        if _is_spread(text, mark):
            found = re.finditer(rf"{re.escape(mark)}+", text)
            changes += [(match.start(), match.end(), " " * len(match[0])) for match in found]
        elif mark == "_" and _PAIR.search(text):
            for line in re.finditer(r"[^\n]+", text):
                changes += _blanks_for(line) if _PAIR.search(line[0]) else ()
    return sorted(changes)


def _blanks_for(line: re.Match[str]) -> Iterator[Change]:
    for solid in _SOLID.finditer(line.string, *line.span()):
        if not any(sign in solid[0] for sign in ("@", "://", "\\")):
            for match in _BETWEEN.finditer(line.string, *solid.span()):
                yield match.start(), match.end(), " " * len(match[0])


def _is_spread(text: str, mark: str) -> bool:
    """Whether a text has so many words joined by a mark, and so few blanks, that the mark is its blank."""
    joined = len(re.findall(rf"(?<=[a-z,.]){re.escape(mark)}(?=[a-z])", text))
    return joined >= _FEW_BLANKS and joined * _FEW_BLANKS >= text.count(" ")


_LINE_END = re.compile(
    r"(?<=[^\W\d_])-[ \t]*\r?\n[ \t]*(?=[a-z\u00df-\u00ff])|(?<=[A-Z]{2})-[ \t]*\r?\n[ \t]*(?=[A-Z]{2})"
)


def line_end_hyphens(text: str) -> list[Change]:
    """Return the changes that join words cut at a line end."""
    return [(match.start(), match.end(), "") for match in _LINE_END.finditer(text)] if "-" in text else []


_SLASH = re.compile(r"(?<=\d)\s?[\u2044\u2215\uff0f]\s?(?=\d)")
_DASH = r"\s?[\u2012\u2013\u2014\u2015]\s?"
_DASHED = re.compile(
    rf"(?<![\w\u2013])\(?(?:\d{{1,4}}{_DASH}(?:\d{{1,2}}|[A-Za-z]{{3,9}}){_DASH}\d{{2,4}}|\d{{3}}{_DASH}\d{{3}}{_DASH}\d{{4}}"
    rf"|\d{{3}}{_DASH}\d{{4}}|\d{{3}}{_DASH}\d{{2}}{_DASH}\d{{4}})(?![\w\u2013])"
)
_INNER_DASH = re.compile(r"(?<=[^\W_])[\u2012\u2013](?=[^\W_])(?!(?<=(?<!\d)\d.)\d)(?!(?<=(?<!\d)\d\d.)\d)")
_EACH_DASH = re.compile(_DASH)


def dashes(text: str) -> list[Change]:
    """Return the changes to `/` and `-` inside dates and telephone numbers; a range (`3–5`) stays."""
    if text.isascii():
        return []
    changes = [(match.start(), match.end(), "/") for match in _SLASH.finditer(text)]
    changes += [(match.start(), match.end(), "-") for match in _INNER_DASH.finditer(text)]
    for match in _DASHED.finditer(text):
        changes += [(dash.start(), dash.end(), "-") for dash in _EACH_DASH.finditer(text, *match.span())]
    return _apart(changes)


_LOOSE = re.compile(
    r"(?<![\d/.-])(?<!\d )(0?[1-9]|1[0-2]|[12]\d|3[01]) ?([/.-]) ?(0?[1-9]|1[0-2]|[12]\d|3[01]) ?\2 ?"
    r"(?:(?:19|2 ?[01]) ?\d ?\d|\d\d)(?![\d:/-]| [/.-])"
    r"|(?<!\d)\d ?\d ?\d ?([-.]) ?\d ?\d ?\d ?(?:\4 ?)?\d ?\d ?\d ?\d(?![\d/])"
)
_BLANKS = re.compile(" +")
_RECORD = r"(?:mrn|mr ?#|(?:medical |hospital |patient )?record|account|acct)"
_AFTER_LABEL = r"(?: (?:number|no|num|id|code))?\b[ .:#=]{0,12}"
# Groups of digits are ordinary (`943 476 5919`), and so are columns of single ones: the label says what is one number.
_NUMBERED = re.compile(
    rf"(?i:(?<![^\W_]){_RECORD}{_AFTER_LABEL})(?P<groups>\d{{1,4}}(?: \d{{1,4}}){{1,5}})(?![\w/:%-]| \d|\.\d)"
    rf"|(?:(?i:(?<![^\W_])(?:{_RECORD}|zip|ssn|phone|tel|fax|id|no|number){_AFTER_LABEL})|, [A-Z]{{2}} )"
    r"(?P<single>\d(?: \d){4,14})(?![\w/:%-]| \d|\.\d)"
)
_SINGLE = re.compile(r"(?<![\w.,/:%])(?<!\d )(?:[A-Z]{1,4}\d?-?|\d\d-)?\d(?: \d){4,14}(?![\w/:%]| \d|\.\d)")
_PARTED = re.compile(r"(?<![\w.,/:%-])(?<!\d )\d\d \d{3}(?: \d{1,8})?(?![\w/:%-]| \d|\.\d)")
# Item scores in a row are small.
_NO_SCORES = re.compile("[6-9]")
_LEAST_NUMBER = 5


def blanks_in_numbers(text: str) -> list[Change]:
    """Return the changes that close blanks inside dates, telephone numbers and labelled numbers (`MRN 48 213 07`)."""
    places = [match.span() for match in _LOOSE.finditer(text) if " " in match[0] and _is_number(match)]
    shown = False
    for match in _NUMBERED.finditer(text):
        shown = shown or match["single"] is not None
        place = match.span("groups" if match["groups"] else "single")
        if len(text[slice(*place)].replace(" ", "")) >= _LEAST_NUMBER:
            places.append(place)
    singles, parted = list(_SINGLE.finditer(text)), list(_PARTED.finditer(text))
    shown = shown or any(_NO_SCORES.search(m[0]) for m in singles)
    places += [match.span() for match in singles if shown or match[0][0].isalpha()]
    places += [match.span() for match in parted if shown]
    gaps = {(gap.start(), gap.end(), "") for place in places for gap in _BLANKS.finditer(text, *place)}
    return _apart([*gaps])


def _is_number(match: re.Match[str]) -> bool:
    # Of a date, one of the first two numbers is the month.
    return match[1] is None or min(int(match[1]), int(match[3])) <= 12


_LEAST_LINES, _MOST_ONE_WORD = 20, 0.9
_FIELD = re.compile(r"[A-Z][\w/]*:\Z")


def words_on_lines(text: str) -> list[Change]:
    """Return the changes that put words on one line where each stands on a line of its own."""
    lines = [match for match in re.finditer(r"[^\n]+", text) if match[0].strip()]
    if len(lines) < _LEAST_LINES:
        return []
    single = sum(len(line[0].split()) == 1 for line in lines)
    long_enough = sum(len(line[0].strip()) > 1 for line in lines)
    if single < _MOST_ONE_WORD * len(lines) or long_enough < len(lines) / 2:
        return []
    changes: list[Change] = []
    for line, following in itertools.pairwise(lines):
        start, end = line.end(), following.start()
        if text[start:end] == "\n" and not _FIELD.search(following[0].strip()):
            changes.append((start, end, " "))
    return changes


_LEAST_LETTERS = 60
_CASED = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_TITLES = frozenset("dr mr mrs ms miss prof".split())
_CALENDAR = frozenset(
    "january february march april june july august september october november december jan feb mar apr jun jul aug sep "
    "sept oct nov dec monday tuesday wednesday thursday friday saturday sunday".split()
)
_SHORT = 3


# Shares of the letters with case. Of the notes of demo train, those with 1 to 3% are of either kind.
_LEAST_CAPITAL, _MOST_CAPITAL = 0.95, 0.01
_ASCII = re.compile(r"[\x00-\x7f]+")
_CAPITAL_BYTES, _SMALL_BYTES = string.ascii_uppercase.encode(), string.ascii_lowercase.encode()


def lower_case(text: str) -> list[Change]:
    """Return the changes of a text in lower case to usual case: unlisted words and line starts get capitals."""
    if sum(map(str.isalpha, text)) < _LEAST_LETTERS or not _in_lower_case(text):
        return []
    changes: list[Change] = []
    before = ""
    for match in _CASED.finditer(text):
        word, start = match[0], match.start()
        usual = _usual(word, before=before, begins=start == 0 or text[start - 1] == "\n") if word.islower() else word
        if usual != word and len(usual) == len(word):
            changes.append((start, match.end(), usual))
        before = word.lower()
    return changes


def _in_lower_case(text: str) -> bool:
    """Whether a text has hardly a capital; a long sentence of ordinary text has one, at its beginning."""
    capitals, cased = _capitals(text)
    first = _CASED.search(text) if capitals else None
    return capitals <= _MOST_CAPITAL * cased and not (first and first[0].istitle())


def in_capitals(text: str) -> bool:
    """Whether hardly a letter of a text is lower case."""
    capitals, cased = _capitals(text)
    return capitals >= max(1, _LEAST_CAPITAL * cased)


def _capitals(text: str) -> tuple[int, int]:
    """Return how many letters of a text are capitals, and how many have case."""
    plain = text.encode("ascii", "ignore")
    others = "" if text.isascii() else _ASCII.sub("", text)
    capitals = len(plain) - len(plain.translate(None, _CAPITAL_BYTES)) + sum(map(str.isupper, others))
    small = len(plain) - len(plain.translate(None, _SMALL_BYTES)) + sum(map(str.islower, others))
    return capitals, capitals + small


def _usual(word: str, *, before: str, begins: bool) -> str:
    if begins or word in _TITLES or word in _CALENDAR or before in _TITLES:
        return word.capitalize()
    if is_listed(word, "english", "medical"):
        return word
    if len(word) <= _SHORT and not is_listed(word, "given", "surname"):
        return word.upper()
    return word.capitalize()


_GUTTER = re.compile(r"(?<=\S) {3,}(?=\S)")
_ROW = re.compile(r"[^\n]*\n?")
_LEAST_ROWS, _LEAST_GUTTER, _LEAST_WIDTH = 4, 3, 12
# Shares of rows: with both columns, across the gutter. No note of demo train and dev has this layout.
_LEAST_BOTH, _MOST_ACROSS = 0.3, 0.05
ColumnPiece = tuple[int, int, str]
"""A place in a text, and the text that it is read as."""


def columns(text: str) -> list[ColumnPiece]:
    """Return the pieces of a text in two columns of prose, column by column; an empty list for other texts."""
    rows = [row for row in _ROW.finditer(text) if row[0].strip()]
    ends = Counter(gap.end() - row.start() for row in rows for gap in _GUTTER.finditer(text, row.start(), row.end()))
    at, times = max(ends.items(), key=lambda counted: counted[1], default=(0, 0))
    if times < _LEAST_ROWS:
        return []
    lines = [row[0].rstrip() for row in rows]
    across = sum(bool(line[at - _LEAST_GUTTER : at].strip()) for line in lines if len(line) > at)
    both = [line for line in lines if len(line) > at and not line[at - _LEAST_GUTTER : at].strip()]
    if across > _MOST_ACROSS * len(rows) or len(both) < max(_LEAST_BOTH * len(rows), 1) or 2 * times < len(both):
        return []
    narrow = min(median(len(line[:at].rstrip()) for line in both), median(len(line) - at for line in both))
    return _in_order(text, at) if narrow >= _LEAST_WIDTH else []


def _in_order(text: str, at: int) -> list[ColumnPiece]:
    """Return the rows of a text with a gutter before `at`, column by column; rows across the gutter stay in place."""
    ordered: list[ColumnPiece] = []
    left: list[ColumnPiece] = []
    right: list[ColumnPiece] = []
    for row in _ROW.finditer(text):
        start, end, cut = row.start(), row.end(), row.start() + at
        last = start + len(row[0][:at].rstrip(" "))
        if not row[0][at:].strip():
            # The end of the text is one of a line, too: what follows is the right column's first word.
            cut = end if row[0].endswith("\n") else max(start, end - 1)
            left += [(start, cut, text[start:cut]), (cut, end, text[cut:end] + "\n")]
        elif cut - last >= _LEAST_GUTTER:
            left += [(start, last, text[start:last]), (last, cut, "\n")]
            right.append((cut, end, text[cut:end]))
        else:
            ordered += [*left, *right, (start, end, row[0])]
            left, right = [], []
    return [piece for piece in (*ordered, *left, *right) if piece[0] < piece[1]]


def unread_layouts(text: str) -> dict[str, int]:
    """Return the layouts that are seen and left as they are, each with the characters that it concerns: capitals."""
    letters = sum(map(str.isalpha, text))
    return {"capitals": letters} if letters >= _LEAST_LETTERS and in_capitals(text) else {}
