"""How documents become a batch for a given model: its patterns, its way of cutting text, its lexicon."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.config import Config
from ensemble_deid.errors import RuleError
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import Lexicon, learn_lexicon
from ensemble_deid.features.patterns import PatternSet, read_patterns
from ensemble_deid.features.stanza_tags import Annotate, load_pipeline
from ensemble_deid.resources import rules_directory
from ensemble_deid.text.bpe import Bpe
from ensemble_deid.text.document import Document
from ensemble_deid.text.tokens import tokenize

NO_PATTERNS = PatternSet("none", (), "")


@dataclass(frozen=True, slots=True)
class Preparation:
    """What every batch of one model is made with; without BPE and stanza `bpe` and `annotate` are None."""

    patterns: PatternSet = field(repr=False)
    lexicon: Lexicon = field(repr=False)
    split_lines: bool
    bpe: Bpe | None = field(default=None, repr=False)
    annotate: Annotate | None = field(default=None, repr=False)

    def batch(self, documents: Sequence[Document]) -> Batch:
        """Make the batch of new documents."""
        plain = plain_batch(
            documents, patterns=self.patterns, split_lines=self.split_lines, bpe=self.bpe, annotate=self.annotate
        )
        return with_lexicon(plain, self.lexicon, leave_own_patient_out=False)


def learn_preparation(
    documents: Sequence[Document], labels: Sequence[str], *, config: Config
) -> tuple[Batch, Preparation]:
    """Return the plain batch of annotated notes, and what batches of other notes are made with after them.

    Raises RuleError for the patterns, and ConfigError where BPE or stanza cannot be had as configured.
    """
    patterns = find_patterns(config, labels)
    options = config.text
    bpe = (
        Bpe.learn(documents, tokenize(documents), vocabulary=options.bpe_vocabulary) if options.bpe_vocabulary else None
    )
    annotate = find_annotator(config)
    plain = plain_batch(documents, patterns=patterns, split_lines=options.split_lines, bpe=bpe, annotate=annotate)
    return plain, Preparation(patterns, lexicon_of(plain), options.split_lines, bpe, annotate)


def find_annotator(config: Config) -> Annotate | None:
    """Return the configured stanza pipeline, None where there is none. Raises ConfigError when it cannot be loaded."""
    return load_pipeline(config.text.stanza) if config.text.stanza else None


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
