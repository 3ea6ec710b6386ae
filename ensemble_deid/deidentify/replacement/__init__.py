"""Replacements for PHI: a style for each label, and surrogates determined by a secret key."""

from ensemble_deid.deidentify.replacement.replacer import ReplacedSpan, Replacement, Replacer
from ensemble_deid.keys import Key

__all__ = ["Key", "ReplacedSpan", "Replacement", "Replacer"]
