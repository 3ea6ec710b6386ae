"""One rule as one line of text that can be read aloud.

    change O to B-DOCTOR if the lower 1 before is "dr" and the shape is "Xxxx" (fixed 120, broken 3)
    change O to B-DATE if any word from 3 before to 1 before is "on" (fixed 9, broken 0)

Values stand in double quotes. Inside them a quote and a backslash are written `\\"` and `\\\\`, and every character
that cannot be seen (line ends, tabs, odd spaces, direction marks, lone surrogates) as `\\u{hexadecimal}`, so
that what a reviewer sees is what the rule says, and any token survives.
"""

import re

from ensemble_deid.errors import RuleError
from ensemble_deid.features.windows import COLUMN_NAME, Window
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, Condition, Rule

_BARE_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SPACE = re.compile(r"[ \t]+")
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r'\\(?:(["\\])|u\{([0-9a-fA-F]{1,6})\})')


def quote(value: str) -> str:
    """Write a value between double quotes, with everything that cannot be seen escaped."""
    return '"' + "".join(_quoted_character(character) for character in value) + '"'


def write_rule(rule: Rule) -> str:
    """Return the one line of a rule, without a line end."""
    conditions = " and ".join(_write_condition(condition) for condition in rule.conditions)
    return (
        f"change {_write_tag(rule.from_tag)} to {_write_tag(rule.to_tag)} if {conditions}"
        f" (fixed {rule.fixed}, broken {rule.broken})"
    )


def parse_rule(line: str, *, place: str = "rule") -> Rule:
    """Read the line that `write_rule` writes; the counts may be left out (a rule made by hand: 0 and 0).

    A RuleError begins with `place` and the column (from 1), and quotes nothing of the line.
    """
    reader = LineReader(line, place)
    reader.word("change")
    from_tag = _read_tag(reader)
    reader.word("to")
    to_tag = _read_tag(reader)
    reader.word("if")
    conditions = [_read_condition(reader)]
    while reader.try_word("and"):
        conditions.append(_read_condition(reader))
    fixed, broken = _read_counts(reader)
    reader.end()
    try:
        return Rule(from_tag, to_tag, tuple(conditions), fixed, broken)
    except RuleError as error:
        raise RuleError(f"{place}:1: {error}") from None


class LineReader:
    """A cursor in one line, which knows how to say where reading stopped."""

    def __init__(self, line: str, place: str) -> None:
        self.line = line
        self.place = place
        self.at = 0
        self._skip_space()

    def fail(self, expected: str) -> RuleError:
        """Return the error for the present place."""
        return RuleError(f"{self.place}:{self.at + 1}: expected {expected}")

    def word(self, word: str) -> None:
        """Read one literal word or sign, or raise RuleError."""
        if not self.try_word(word):
            raise self.fail(f"{word!r}")

    def try_word(self, word: str) -> bool:
        """Read one literal word or sign if it is next."""
        end = self.at + len(word)
        if not self.line.startswith(word, self.at):
            return False
        if word[-1].isalnum() and self.line[end : end + 1].isalnum():
            return False
        self.at = end
        self._skip_space()
        return True

    def match(self, pattern: re.Pattern[str], expected: str) -> str:
        """Read what the pattern matches here, or raise RuleError."""
        found = pattern.match(self.line, self.at)
        if found is None:
            raise self.fail(expected)
        self.at = found.end()
        self._skip_space()
        return found[0]

    def number(self) -> int:
        """Read a whole number."""
        return int(self.match(_NUMBER, "a number"))

    def quoted(self) -> str:
        """Read a quoted value."""
        if not self.line.startswith('"', self.at):
            raise self.fail("a value in double quotes")
        self.at += 1
        parts: list[str] = []
        while not self.line.startswith('"', self.at):
            if plain := _PLAIN.match(self.line, self.at):
                parts.append(plain[0])
                self.at = plain.end()
            elif escape := _ESCAPE.match(self.line, self.at):
                parts.append(self._unescaped(escape))
                self.at = escape.end()
            else:
                raise self.fail('the closing quote, \\", \\\\ or \\u{...}')
        self.at += 1
        self._skip_space()
        return "".join(parts)

    def end(self) -> None:
        """Raise RuleError unless the line is used up."""
        if self.at < len(self.line):
            raise self.fail("the end of the line")

    def _unescaped(self, escape: re.Match[str]) -> str:
        if escape[1]:
            return escape[1]
        code = int(escape[2], 16)
        if code > 0x10FFFF:
            raise self.fail("a character number up to 10ffff")
        return chr(code)

    def _skip_space(self) -> None:
        if space := _SPACE.match(self.line, self.at):
            self.at = space.end()


def _quoted_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"


def _write_tag(tag: str) -> str:
    return tag if _BARE_TAG.fullmatch(tag) else quote(tag)


def _write_condition(condition: Condition) -> str:
    window = condition.window
    if window.first == window.last:
        place = f"the {window.column}{_write_place(window.first, here='')}"
    else:
        first, last = (_write_place(offset, here=" here") for offset in (window.first, window.last))
        place = f"any {window.column} from{first} to{last}"
    return f"{place} is {quote(condition.value)}"


def _write_place(offset: int, *, here: str) -> str:
    if offset == 0:
        return here
    return f" {abs(offset)} {'before' if offset < 0 else 'after'}"


def _read_tag(reader: LineReader) -> str:
    if reader.line.startswith('"', reader.at):
        return reader.quoted()
    return reader.match(_BARE_TAG, "a tag")


def _read_condition(reader: LineReader) -> Condition:
    start = reader.at
    if reader.try_word("the"):
        column = reader.match(COLUMN_NAME, "the name of a feature column")
        first = last = _read_place(reader) if _NUMBER.match(reader.line, reader.at) else 0
    elif reader.try_word("any"):
        column = reader.match(COLUMN_NAME, "the name of a feature column")
        reader.word("from")
        first = _read_place(reader)
        reader.word("to")
        last = _read_place(reader)
    else:
        raise reader.fail("'the' or 'any'")
    if first > last:
        raise RuleError(f"{reader.place}:{start + 1}: expected a window that ends after it begins")
    reader.word("is")
    return Condition(Window(column, first, last), reader.quoted())


def _read_place(reader: LineReader) -> int:
    if reader.try_word("here"):
        return 0
    start = reader.at
    distance = reader.number()
    if not 1 <= distance <= MAX_OFFSET:
        raise RuleError(f"{reader.place}:{start + 1}: expected a distance from 1 to {MAX_OFFSET}")
    if reader.try_word("before"):
        return -distance
    if reader.try_word("after"):
        return distance
    raise reader.fail("'before' or 'after'")


def _read_counts(reader: LineReader) -> tuple[int, int]:
    if not reader.try_word("("):
        return 0, 0
    reader.word("fixed")
    fixed = reader.number()
    reader.word(",")
    reader.word("broken")
    broken = reader.number()
    reader.word(")")
    return fixed, broken
