"""Errors shown to users. Each message names file and place, and never quotes note text."""

from collections.abc import Iterator
from contextlib import contextmanager


class DeidError(Exception):
    """Base of all errors caused by input: the command line prints the message and exits 2.

    >>> from ensemble_deid import DeidError, read_corpus
    >>> try:
    ...     corpus = read_corpus("nowhere")
    ... except DeidError as error:
    ...     print(error)
    nowhere: there is no such file or folder
    """


class ConfigError(DeidError):
    """A configuration file, key or value that cannot be used.

    >>> from ensemble_deid import CrfConfig
    >>> CrfConfig(max_iteration=20)
    Traceback (most recent call last):
    ensemble_deid.errors.ConfigError: unknown key crf.max_iteration; did you mean max_iterations?
    """


class CorpusError(DeidError):
    """A corpus, note or annotation that cannot be read or written faithfully.

    >>> from ensemble_deid import read_corpus
    >>> read_corpus("demo:all")
    Traceback (most recent call last):
    ensemble_deid.errors.CorpusError: the demo corpus has no split 'all'; it has train, dev, test, site, later
    """

    note: str | None = None
    """The name of the note that cannot be read, as far as it is known: its file without the suffix."""


class RuleError(DeidError):
    """A pattern, template or rule list that cannot be read.

    >>> from ensemble_deid import Config, RegexConfig, read_corpus, train
    >>> train(read_corpus("demo:dev"), config=Config(regex=RegexConfig(patterns="my.toml")))
    Traceback (most recent call last):
    ensemble_deid.errors.RuleError: my.toml: no such pattern file
    """


class ModelError(DeidError):
    """A model directory that is missing, damaged, or made by another version.

    >>> from ensemble_deid import Deidentifier
    >>> Deidentifier.load("models/nowhere")
    Traceback (most recent call last):
    ensemble_deid.errors.ModelError: models/nowhere: no such model directory
    """


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn an import that fails into ConfigError, which names the extra of the package that `what` needs."""
    try:
        yield
    except ImportError as error:
        missing = "is not installed" if isinstance(error, ModuleNotFoundError) else "cannot be loaded"
        raise ConfigError(
            f"{what} needs {error.name or 'a library'}, which {missing}: pip install 'ensemble_deid[{extra}]'"
        ) from None
