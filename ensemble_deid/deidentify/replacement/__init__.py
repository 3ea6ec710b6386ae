"""What stands in the output where PHI stood: a style for each label, and surrogates that a secret key determines."""

from ensemble_deid.deidentify.replacement.replacer import ReplacedSpan, Replacement, Replacer
from ensemble_deid.keys import Key

__all__ = ["Key", "ReplacedSpan", "Replacement", "Replacer"]
