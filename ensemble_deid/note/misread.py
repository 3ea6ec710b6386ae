"""Scanning errors: digits inside words, letters inside numbers, wrong letters (`Srnitb`)."""

import itertools
import re
from collections.abc import Iterator

from ensemble_deid.note.markup import Change
from ensemble_deid.word_tables import listed_words

_DIGITS = {"O": "0", "o": "0", "l": "1", "I": "1", "S": "5", "B": "8"}
_LETTERS = {"0": "o", "1": "l", "5": "s"}
_SEEN_AS = {"0": "oO", "1": "liI", "5": "sS", "8": "B", "c": "e", "b": "h", "rn": "m", "l": "I"}
_DIGIT_IN_WORD = re.compile(r"(?<=[a-z])[015](?=[a-z]{2})|(?<=[a-z]{2})[015](?=[a-z])|(?<=[A-Z])[015](?=[a-z]{2})")
_LETTER_IN_NUMBER = re.compile(
    r"(?<![\w/.-])(?=[^\s]*\d)[\dOolISB]{1,2}([/-])[\dOolISB]{1,2}\1[\dOolISB]{2,4}(?![\w/-])"
    r"|(?<![\w-])(?=[^\s]*\d)[\dOolISB]{3}-[\dOolISB]{3}-[\dOolISB]{4}(?![\w-])"
    r"|(?<![^\W\d_OolS])(?:(?=\w*\d\w*\d)[\dOolS]{3,}|\d[OolS]|[OolS]\d)(?![^\W\d_])"
)
_WORD = re.compile(r"[^\W_]{3,}")
_DOUBTFUL = re.compile("rn|[0158bcl]")
_MOST_DOUBTFUL, _MOST_CHANGED = 8, 3
# Distinct long words that one letter or digit made unknown: in demo train and dev only scanned notes have so many.
# Abbreviations end in `c`, so `c` and `b` do not count.
_LEAST_SHOWN, _LEAST_SHARE, _LONG = 2, 0.03, 4
_ENGLISH = ("english", "medical")
_LISTS = (*_ENGLISH, "given", "surname")


def misread(text: str) -> list[Change]:
    """Return the changes of digits inside words (`Str0ng`), letters inside numbers (`l2/O5/2071`) and other letters.

    Letters change only where that turns an unlisted word into a listed word or name.
    """
    if not _is_shown(text):
        return []
    changes: list[Change] = []
    for match in _LETTER_IN_NUMBER.finditer(text):
        letters = re.finditer("[OolISB]", match[0])
        changes += [(match.start() + m.start(), match.start() + m.end(), _DIGITS[m[0]]) for m in letters]
    numbers = {change[0] for change in changes}
    for match in _WORD.finditer(text):
        if numbers.isdisjoint(range(*match.span())):
            changes += _in_word(match)
    return sorted(changes)


def _is_shown(text: str) -> bool:
    words = {word for word in _WORD.findall(text) if len(word) >= _LONG and not word.isupper() and not word.isdecimal()}
    shown = sum(any(word[low:high] not in "bc" for low, high, _ in _repair(word, _ENGLISH)) for word in words)
    return shown >= max(_LEAST_SHOWN, _LEAST_SHARE * len(words))


def _in_word(match: re.Match[str]) -> Iterator[Change]:
    word, start = match[0], match.start()
    repair = () if word.isupper() or word.isdecimal() else _repair(word, _LISTS)
    # A word that is only a name gets its capital.
    name = bool(repair) and not _is_listed(_repaired(word, repair), _ENGLISH)
    for low, high, value in repair:
        yield start + low, start + high, value.upper() if name and not low else value
    if not repair and not _is_listed(word, _LISTS):
        found = _DIGIT_IN_WORD.finditer(match.string, start, match.end())
        yield from ((digit.start(), digit.end(), _LETTERS[digit[0]]) for digit in found)


def _repair(word: str, lists: tuple[str, ...]) -> tuple[Change, ...]:
    """Return the changes that turn an unlisted word into a listed one, if any do."""
    if _DOUBTFUL.search(word) is None or _is_listed(word, _LISTS):
        return ()
    return next((repair for repair in _repairs(word) if _is_listed(_repaired(word, repair), lists)), ())


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


def _is_listed(word: str, lists: tuple[str, ...]) -> bool:
    return any(word.lower() in listed_words(name) for name in lists)
