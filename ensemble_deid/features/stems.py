"""Stems of words by the Snowball stemmers (Porter 2001), where they are asked for: the extra `nlp`."""

from collections.abc import Callable

from ensemble_deid.errors import ConfigError
from ensemble_deid.features.table import Column

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
