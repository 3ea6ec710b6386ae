"""Characters that look like others: full-width and mathematical letters, look-alikes of other scripts, marks, fillers.

Each function returns the changes (`markup.py`) that undo one of these. Only `misread`, for scanning errors, is also
given texts in ASCII.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import regex

from ensemble_deid.note.folding import ALIKE, INVISIBLE, look_alikes, visible
from ensemble_deid.note.markup import Change
from ensemble_deid.word_tables import is_listed

_STYLED = regex.compile(
    r"[\uff01-\uff5e\uffe0-\uffee\U0001d400-\U0001d7ff\ufb00-\ufb06\u2102-\u2138\u2145-\u2149\u2160-\u217f\u2460-\u24ff"
    r"\u2776-\u2793\U0001f100-\U0001f189\U0001f1e6-\U0001f1ff\U000e0020-\U000e007e]"
)
_RAISED = regex.compile(r"[\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u208e\u2090-\u209c\u1d2c-\u1d6a\u02b0-\u02b8]+")
_RAISED_ALONE = 3


def styled(text: str) -> list[Change]:
    """Return the changes from full-width, mathematical, circled letters and digits, and ligatures, to plain ones."""
    changes = [(m.start(), m.end(), plain) for m in _STYLED.finditer(text) if (plain := _plain_form(m[0])) != m[0]]
    for match in _RAISED.finditer(text):
        low, high = match.span()
        # An exponent or the number of a footnote (`m²`, `10⁹`) says something else than a digit.
        if high - low >= _RAISED_ALONE or not (low and text[low - 1].isalnum()):
            changes += [(k, k + 1, _plain_form(text[k])) for k in range(low, high)]
    return sorted(changes)


_NAMED_LETTER = regex.compile(r" LETTER ([A-Z])$")


@lru_cache(maxsize=4096)
def _plain_form(character: str) -> str:
    plain = unicodedata.normalize("NFKC", character)
    if plain == character:
        # Unicode gives none for white letters on black, for regional indicators, and for tags, which show nothing.
        if "\U000e0020" <= character <= "\U000e007e":
            return chr(ord(character) - 0xE0000)
        letter = _NAMED_LETTER.search(unicodedata.name(character, ""))
        number = f"{unicodedata.numeric(character, -1):.0f}" if unicodedata.category(character) == "No" else plain
        return letter[1] if letter else number
    return plain.strip("()") or plain if plain.isascii() or plain.isalpha() else character


_DIGIT = regex.compile(r"[\p{Nd}--0-9]", regex.V1)


def digits(text: str) -> list[Change]:
    """Return the changes from the digits of other scripts to 0 to 9."""
    # The library regex may know newer digits than Python does.
    found = ((m.start(), unicodedata.decimal(m[0], None)) for m in _DIGIT.finditer(text))
    return [(place, place + 1, str(value)) for place, value in found if value is not None]


def alike(text: str) -> list[Change]:
    """Return the changes to plain blanks, hyphens and apostrophes; the zero-width space is `fillers`'."""
    return [(m.start(), m.end(), ALIKE[ord(m[0])]) for m in _ALIKE.finditer(text)]


_ALIKE = regex.compile("[" + "".join(map(chr, ALIKE)).replace("\u200b", "") + "]")

_MOSTLY_MARKED, _FEW = 0.6, 3
# A character with the marks and invisible characters after it; a text may also begin with such.
_CLUSTER = regex.compile(rf"[^\p{{M}}{INVISIBLE}]?[\p{{M}}{INVISIBLE}]+", regex.V1)
_FILLER = regex.compile(r"[\u200b\u3164\u115f\u1160\uffa0\u2800]+")
_LATIN_BASE = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Nd}\p{P}\p{S}\s]")


def fillers(text: str) -> list[Change]:
    """Return the changes that remove fillers inside a word, and turn those between words into blanks.

    Public word lists, and the other blanks of the text, tell which of the two a filler is.
    """
    found = list(_FILLER.finditer(text))
    if not found:
        return []
    # Either each stands for a blank, or some are in the place of blanks, or all are inside words.
    for_blanks = sum(map(text.count, (" ", "\n", "\t"))) * 2 < len(found) and not _SINGLE.search(text)
    words = [(_letters_before(text, match.start()), _letters_after(text, match.end())) for match in found]
    votes = 0 if for_blanks else sum(_vote(before, after) for before, after in words)
    changes: list[Change] = []
    for match, (before, after) in zip(found, words, strict=True):
        low, high = match.span()
        between = low and high < len(text) and text[low - 1].isalnum() and text[high].isalnum()
        if for_blanks or (votes <= 0 and between and not _is_one_word(before, after)):
            changes.append((low, high, " " * (high - low)))
        else:
            changes.append((low - 1, high, text[low - 1]) if low else (low, high, ""))
    return changes


_SINGLE = regex.compile(r"(?:(?<!\w)\w[\u200b\u3164\u115f\u1160\uffa0\u2800]+){3}")


_LONGEST_WORD = 40


def _letters_before(text: str, end: int) -> str:
    start = end
    while start > 0 and end - start < _LONGEST_WORD and _is_letter(text[start - 1]):
        start -= 1
    return text[start:end]


def _letters_after(text: str, start: int) -> str:
    end = start
    while end < len(text) and end - start < _LONGEST_WORD and _is_letter(text[end]):
        end += 1
    return text[start:end]


def _is_letter(character: str) -> bool:
    return character.isalpha() and not _FILLER.match(character)


_ENGLISH = ("english", "medical")
_LISTS = (*_ENGLISH, "given", "surname")
_LEAST_WORD = 3


def _has_listed(word: str, lists: Sequence[str] = _LISTS) -> bool:
    return is_listed(word.lower(), *lists)


def _vote(before: str, after: str) -> int:
    """Return 1 where two strings of letters look like one word, -1 where they look like two, 0 where it is open."""
    if min(len(before), len(after)) < 1:
        return 0
    if _has_listed(before + after) or min(len(before), len(after)) == 1:
        return 1
    return -1 if all(len(word) >= _LEAST_WORD and _has_listed(word) for word in (before, after)) else 0


def _is_one_word(before: str, after: str) -> bool:
    """Whether letters on both sides of a zero-width space make one word, in a text where most part words."""
    if not before or not after:
        # Two digits, but not a digit beside a letter: `0134<zero-width space>Fax`.
        return not before and not after
    return not (before[-1].islower() and after[0].isupper()) and _vote(before, after) > 0


def marks(text: str) -> list[Change]:
    """Return the changes that put accents into their letters (NFC) and remove invisible characters.

    Marks that fit no letter are removed too, and all marks of a text in which nearly every letter is marked.
    """
    clusters = list(_CLUSTER.finditer(text))
    loose = sum(match[0][0].isalpha() and not match[0][-1].isalpha() for match in clusters)
    strip = loose >= _FEW and loose >= _MOSTLY_MARKED * sum(map(str.isalpha, text))
    changes: list[Change] = []
    for match in clusters:
        low, high = match.span()
        letter = unicodedata.normalize("NFC", visible(match[0]))
        if letter and (len(letter) > 1 or strip) and _LATIN_BASE.match(letter[0]):
            letter = unicodedata.normalize("NFD", letter)[0] if strip else letter[0]
        if letter != match[0]:
            changes.append((low, high, letter))
    return changes


def composed(text: str) -> list[Change]:
    """Return the changes from single characters to what they are the same as, such as the sign of the angstrom."""
    if unicodedata.is_normalized("NFC", text):
        return []
    pairs = ((k, c, unicodedata.normalize("NFC", c)) for k, c in enumerate(text) if not c.isascii())
    return [(k, k + 1, plain) for k, c, plain in pairs if plain != c]


_WORD = regex.compile(r"[^\W\d_]{3,}+")
_MARKED = 0.75


def overmarked(text: str) -> list[Change]:
    """Return the changes that take the accents off words in which nearly every letter has one."""
    changes: list[Change] = []
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isascii():
            continue
        plain = [unicodedata.normalize("NFD", c)[0] for c in word]
        marked = sum(a != b for a, b in zip(word, plain, strict=True))
        if marked == len(word) or (len(word) > _FEW and marked >= _MARKED * len(word)):
            start = match.start()
            changes += [
                (start + k, start + k + 1, p) for k, (c, p) in enumerate(zip(word, plain, strict=True)) if c != p
            ]
    return changes


_OTHER_LETTER = regex.compile(r"[\p{L}--\p{Latin}--\p{Han}--\p{Hiragana}--\p{Katakana}--\p{Hangul}]", regex.V1)
_LETTERS = regex.compile(r"[\p{L}\p{M}\p{Nd}]++")
_LATIN = regex.compile(r"\p{Latin}")
# Greek letters are symbols, too (`TNFα`, `µg`): these alone at the edge of a word are letters in disguise.
_EXACT = frozenset("οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
_MOSTLY = 0.8


def confusables(text: str) -> list[Change]:
    """Return the changes from letters of other scripts to the Latin letters that they look like.

    Changed are words that also have Latin letters, and, in a mostly Latin text, words made of look-alikes alone.
    """
    if not _OTHER_LETTER.search(text):
        return []
    table = look_alikes()
    words = [match for match in _LETTERS.finditer(text) if _OTHER_LETTER.search(match[0])]
    mixed = [match for match in words if _LATIN.search(match[0])]
    alone = [match for match in words if not _LATIN.search(match[0])]
    other = sum(len(match[0]) for match in alone if not all(ord(c) in table for c in match[0] if c.isalpha()))
    latin = len(_LATIN.findall(text))
    foreign = {match: [k for k, c in enumerate(match[0]) if ord(c) in table] for match in words}
    disguised = [match for match in mixed if not _is_symbol(match[0], foreign[match])]
    shown = len(disguised) >= _FEW
    if latin >= _MOSTLY * (latin + other):
        least = 1 if shown else 2
        disguised += [match for match in alone if least <= len(foreign[match]) == sum(map(str.isalpha, match[0]))]
    chosen = {*disguised, *(mixed if shown else ())}
    places = sorted((match.start() + k, match[0][k]) for match in chosen for k in foreign[match])
    return [(place, place + 1, table[ord(letter)]) for place, letter in places]


def _is_symbol(word: str, foreign: Sequence[int]) -> bool:
    """Whether the only foreign letter of a word is a Greek one at its edge, which is a symbol in `TNFα`."""
    if len(foreign) != 1 or foreign[0] not in (0, len(word) - 1):
        return False
    letter = word[foreign[0]]
    return "\u0370" <= letter < "\u0400" and letter not in _EXACT


_OVERRIDE = regex.compile(r"\u202e([^\u202c\n\r]*+)(\u202c?)")


def reversed_runs(text: str) -> list[tuple[int, int, int]]:
    """Return the runs that a right-to-left override shows reversed: start, end, and end with what closes the run.

    The override is the character before the start.
    """
    return [(match.start(1), match.end(1), match.end()) for match in _OVERRIDE.finditer(text)]


# Scanning errors: digits inside words, letters inside numbers, wrong letters (`Srnitb`).

_DIGIT_OF = {"O": "0", "o": "0", "l": "1", "I": "1", "S": "5", "B": "8"}
_LETTER_OF = {"0": "o", "1": "l", "5": "s"}
_SEEN_AS = {"0": "oO", "1": "liI", "5": "sS", "8": "B", "c": "e", "b": "h", "rn": "m", "l": "I"}
_DIGIT_IN_WORD = re.compile(r"(?<=[a-z])[015](?=[a-z]{2})|(?<=[a-z]{2})[015](?=[a-z])|(?<=[A-Z])[015](?=[a-z]{2})")
_LETTER_IN_NUMBER = re.compile(
    r"(?<![\w/.-])(?=[^\s]*\d)[\dOolISB]{1,2}([/-])[\dOolISB]{1,2}\1[\dOolISB]{2,4}(?![\w/-])"
    r"|(?<![\w-])(?=[^\s]*\d)[\dOolISB]{3}-[\dOolISB]{3}-[\dOolISB]{4}(?![\w-])"
    r"|(?<![^\W\d_OolS])(?:(?=\w*\d\w*\d)[\dOolS]{3,}|\d[OolS]|[OolS]\d)(?![^\W\d_])"
)
_SCANNED = re.compile(r"[^\W_]{3,}")
_DOUBTFUL = re.compile("rn|[0158bcl]")
_MOST_DOUBTFUL, _MOST_CHANGED = 8, 3
# Distinct long words that one letter or digit made unknown: in demo train and dev only scanned notes have so many.
# Abbreviations end in `c`, so `c` and `b` do not count.
_LEAST_SHOWN, _LEAST_SHARE, _LONG_WORD = 2, 0.03, 4


def misread(text: str) -> list[Change]:
    """Return the changes that undo scanning errors (`Str0ng`, `l2/O5`, `Srnitb`) in a text that has several of them."""
    if not _is_shown(text):
        return []
    changes: list[Change] = []
    for match in _LETTER_IN_NUMBER.finditer(text):
        letters = re.finditer("[OolISB]", match[0])
        changes += [(match.start() + m.start(), match.start() + m.end(), _DIGIT_OF[m[0]]) for m in letters]
    numbers = {change[0] for change in changes}
    for match in _SCANNED.finditer(text):
        if numbers.isdisjoint(range(*match.span())):
            changes += _in_word(match)
    return sorted(changes)


def _is_shown(text: str) -> bool:
    long = {word for word in _SCANNED.findall(text) if len(word) >= _LONG_WORD}
    words = {word for word in long if not word.isupper() and not word.isdecimal()}
    shown = sum(any(word[low:high] not in "bc" for low, high, _ in _repair(word, _ENGLISH)) for word in words)
    return shown >= max(_LEAST_SHOWN, _LEAST_SHARE * len(words))


def _in_word(match: re.Match[str]) -> Iterator[Change]:
    word, start = match[0], match.start()
    repair = () if word.isupper() or word.isdecimal() else _repair(word, _LISTS)
    # A word that is only a name gets its capital.
    name = bool(repair) and not _has_listed(_repaired(word, repair), _ENGLISH)
    for low, high, value in repair:
        yield start + low, start + high, value.upper() if name and not low else value
    if not repair and not _has_listed(word):
        found = _DIGIT_IN_WORD.finditer(match.string, start, match.end())
        yield from ((digit.start(), digit.end(), _LETTER_OF[digit[0]]) for digit in found)


@lru_cache(maxsize=8192)
def _repair(word: str, lists: tuple[str, ...]) -> tuple[Change, ...]:
    """Return the changes that turn an unlisted word into a listed one, if any do."""
    if _DOUBTFUL.search(word) is None or _has_listed(word):
        return ()
    return next((repair for repair in _repairs(word) if _has_listed(_repaired(word, repair), lists)), ())


def _repairs(word: str) -> Iterator[tuple[Change, ...]]:
    """Yield possible corrections of a word, the fewest changes first."""
    doubtful = [match for match in _DOUBTFUL.finditer(word) if match[0] != "l" or match.start() == 0]
    for number in range(1, min(_MOST_CHANGED, len(doubtful)) + 1):
        for chosen in itertools.combinations(doubtful[:_MOST_DOUBTFUL], number):
            for values in itertools.product(*(_SEEN_AS[match[0]] for match in chosen)):
                yield tuple((match.start(), match.end(), value) for match, value in zip(chosen, values, strict=True))


def _repaired(word: str, repair: tuple[Change, ...]) -> str:
    for start, end, value in reversed(repair):
        word = word[:start] + value + word[end:]
    return word
