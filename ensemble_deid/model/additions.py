"""What is added to a trained model without retraining: patterns, and an inclusion list.

Added patterns are matched beside those of training, and are no part of the feature table, so that the trained submodels
see what they saw in training. Their matches are candidates of the regex submodel, with the patterns' own confidence,
and the final estimator decides on them as on any other candidate.
"""

from collections.abc import Collection
from pathlib import Path

from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.patterns import PatternSet, parse_patterns
from ensemble_deid.model.inclusion import InclusionList, parse_inclusion_list
from ensemble_deid.model.manifest import Manifest

PATTERNS, INCLUSION = "added_patterns.toml", "inclusion_list.toml"
PROPOSER = "regex"
"""The submodel whose candidates the matches of added patterns are."""


def load_added_patterns(directory: Path, manifest: Manifest) -> PatternSet | None:
    """Return the patterns added to a model, None where there are none. Raises ModelError and RuleError."""
    if PATTERNS not in manifest.files:
        return None
    path = directory / PATTERNS
    patterns = parse_patterns(path.read_text(encoding="utf-8"), path=str(path))
    if unknown := sorted(patterns.labels - set(manifest.labels)):
        raise ModelError(f"{path}: damaged: the model has no label {unknown[0][:60]!r}")
    return patterns


def load_inclusion_list(directory: Path, manifest: Manifest) -> InclusionList | None:
    """Return the inclusion list of a model, None where it has none. Raises RuleError."""
    if INCLUSION not in manifest.files:
        return None
    path = directory / INCLUSION
    return parse_inclusion_list(path.read_text(encoding="utf-8"), path=str(path))


def check_proposer(directory: Path, added: PatternSet | None, submodels: Collection[str]) -> None:
    """Raise ConfigError where a model has added patterns, and the submodel that proposes them is not to be loaded."""
    if added is not None and PROPOSER not in submodels:
        raise ConfigError(f"{directory}: the model has added patterns, so the submodel {PROPOSER} must be loaded, too")
