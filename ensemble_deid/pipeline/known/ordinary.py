"""Ordinary words: what is on the public lists of English and medical words, such as `long`, `may` or `foley`."""

import gzip
from functools import cache

from ensemble_deid.errors import ConfigError
from ensemble_deid.resources import rules_directory

_LISTS = ("english", "medical")


@cache
def ordinary_words() -> frozenset[str]:
    """Read the lists once. Raises ConfigError where the installation lacks them."""
    found: set[str] = set()
    for name in _LISTS:
        path = rules_directory() / "knowledge" / "en" / f"{name}.words.gz"
        try:
            with gzip.open(path, "rt", encoding="utf-8") as stream:
                found.update(line.split("\t", 1)[0] for line in stream)
        except OSError as error:
            raise ConfigError(f"{path}: the list of words cannot be read ({error.strerror})") from None
    return frozenset(found)
