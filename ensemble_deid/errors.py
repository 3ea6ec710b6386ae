"""The errors a user can meet. Each message names the file and the place, and never quotes note text."""


class DeidError(Exception):
    """Base of all errors that are the input's fault: the command line prints the message and exits 2."""


class ConfigError(DeidError):
    """A configuration file, key or value that cannot be used."""


class CorpusError(DeidError):
    """A corpus, note or annotation that cannot be read or written faithfully."""


class RuleError(DeidError):
    """A pattern, template or rule list that cannot be read."""


class ModelError(DeidError):
    """A model directory that is missing, damaged, or made by a newer version."""
