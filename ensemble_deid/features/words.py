"""Features of a token that depend on its word alone, computed once per distinct word."""

import re
from collections.abc import Callable

from ensemble_deid.errors import ConfigError
from ensemble_deid.features.table import Column

AFFIX_LENGTHS = (2, 3, 4)


def shape(word: str) -> str:
    """Return the word with upper case as `X`, lower case as `x`, digits as `d`, the rest as itself."""
    return "".join(
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else "x" if c.isalpha() else c for c in word
    )


def short_shape(word: str) -> str:
    """Return the shape with each run of the same character reduced to one."""
    return re.sub(r"(.)\1+", r"\1", shape(word), flags=re.S)


def length_class(word: str) -> str:
    """Return the number of characters, `10+` from ten on."""
    return str(len(word)) if len(word) < 10 else "10+"


def digit_class(word: str) -> str:
    """Return `none` for a word; for a number `day` up to 31, `year` from 1900 to 2199, else how many digits it has."""
    if not word.isdecimal():
        return "none"
    if len(word) == 4 and word.isascii() and 1900 <= int(word) <= 2199:
        return "year"
    if len(word) <= 2 and int(word) <= 31:
        return "day"
    return f"digits{min(len(word), 10)}"


def case_class(word: str) -> str:
    """Return how the word is written: `upper`, `initial` (one capital), `title`, `lower`, `mixed` or `none`."""
    if not word.isalpha():
        return "none"
    if word.isupper():
        return "upper" if len(word) > 1 else "initial"
    if word.islower():
        return "lower"
    return "title" if word[0].isupper() and word[1:].islower() else "mixed"


def _prefix(length: int) -> Callable[[str], str]:
    return lambda word: word[:length].lower()


def _suffix(length: int) -> Callable[[str], str]:
    return lambda word: word[-length:].lower()


def word_columns(word: Column) -> dict[str, Column]:
    """Return the columns that are derived from the column `word`."""
    columns = {
        "word": word,
        "lower": word.map_values(str.lower),
        "shape": word.map_values(shape),
        "short_shape": word.map_values(short_shape),
        "length": word.map_values(length_class),
        "digits": word.map_values(digit_class),
        "case": word.map_values(case_class),
    }
    for n in AFFIX_LENGTHS:
        columns[f"prefix{n}"] = word.map_values(_prefix(n))
        columns[f"suffix{n}"] = word.map_values(_suffix(n))
    return columns


# Stems of words by the Snowball stemmers (Porter 2001), where they are asked for: the extra `nlp`.


COLUMN = "stem"
Stem = Callable[[str], str]
"""A word -> its stem, in lower case."""


def load_stemmer(language: str) -> Stem:
    """Return the stemmer of a language by its English name, such as `english` or `spanish`.

    Raises ConfigError for a language that Snowball lacks, and where NLTK, which has the stemmers, is not installed.
    """
    try:
        # Imported here: it takes seconds, and few configurations need it.
        from nltk.stem.snowball import SnowballStemmer
    except ImportError:
        raise ConfigError("text.stem: nltk is not installed; it comes with the extra ensemble_deid[nlp]") from None
    if language not in SnowballStemmer.languages:
        known = ", ".join(sorted(SnowballStemmer.languages))
        raise ConfigError(f"text.stem: there is no Snowball stemmer {language!r}; there are: {known}")
    stem: Stem = SnowballStemmer(language).stem
    return stem


def stem_column(word: Column, stem: Stem) -> Column:
    """Return the column `stem`; each distinct word is stemmed once."""
    return word.map_values(stem)
