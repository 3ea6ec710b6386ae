"""How documents become a batch for a given model: its patterns, its way of cutting text, its lexicon."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.config import Config
from ensemble_deid.errors import RuleError
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import Lexicon, learn_lexicon
from ensemble_deid.features.patterns import PatternSet, read_patterns
from ensemble_deid.resources import rules_directory
from ensemble_deid.text.document import Document

NO_PATTERNS = PatternSet("none", (), "")


@dataclass(frozen=True, slots=True)
class Preparation:
    """What every batch of one model is made with."""

    patterns: PatternSet = field(repr=False)
    lexicon: Lexicon = field(repr=False)
    split_lines: bool

    def batch(self, documents: Sequence[Document]) -> Batch:
        """Make the batch of new documents."""
        plain = plain_batch(documents, patterns=self.patterns, split_lines=self.split_lines)
        return with_lexicon(plain, self.lexicon, leave_own_patient_out=False)


def lexicon_of(batch: Batch) -> Lexicon:
    """Learn the lexicon of an annotated batch."""
    return learn_lexicon(batch.documents, batch.tokens, batch.table["lower"].strings())


def find_patterns(config: Config, labels: Sequence[str]) -> PatternSet:
    """Return the configured pattern set without the labels that the corpus does not have.

    `auto` takes the set of `rules/patterns` that knows most of the labels (the first by name among equals); a corpus
    whose labels none of them knows gets an empty set. Raises RuleError for a name that is no set and no file.
    """
    name = config.regex.patterns
    if Path(name).suffix == ".toml":
        return read_patterns(Path(name)).restricted_to(labels)
    files = sorted((rules_directory() / "patterns").glob("*.toml"))
    if name == "auto":
        sets = [read_patterns(file).restricted_to(labels) for file in files]
        return max(sets, key=lambda patterns: len(patterns.labels), default=NO_PATTERNS)
    for file in files:
        if file.stem == name:
            return read_patterns(file).restricted_to(labels)
    raise RuleError(f"there is no pattern set {name!r}; there are: {', '.join(f.stem for f in files)}, or a .toml file")
