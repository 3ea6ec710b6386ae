"""Turning documents into the feature table of a given model: its patterns, tokenizer settings and lexicon."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import Lexicon, learn_lexicon
from ensemble_deid.features.patterns import PatternSet
from ensemble_deid.features.stanza_tags import Annotate, load_pipeline
from ensemble_deid.pipeline.pattern_choice import choose_patterns
from ensemble_deid.text.bpe import Bpe
from ensemble_deid.text.document import Document
from ensemble_deid.text.tokens import tokenize


@dataclass(frozen=True, slots=True)
class FeatureExtractor:
    """All that a model needs to extract features from notes; `bpe` and `annotate` are None unless switched on."""

    patterns: PatternSet = field(repr=False)
    lexicon: Lexicon = field(repr=False)
    split_lines: bool
    bpe: Bpe | None = field(default=None, repr=False)
    annotate: Annotate | None = field(default=None, repr=False)

    def extract(self, documents: Sequence[Document]) -> Batch:
        """Return the batch of documents that the model was not trained on."""
        plain = plain_batch(
            documents, patterns=self.patterns, split_lines=self.split_lines, bpe=self.bpe, annotate=self.annotate
        )
        return with_lexicon(plain, self.lexicon, leave_own_patient_out=False)


def fit_feature_extractor(
    documents: Sequence[Document], labels: Sequence[str], *, config: Config, patterns: PatternSet | None = None
) -> tuple[Batch, FeatureExtractor]:
    """Return the plain batch of the training notes, and the feature extractor fitted to them.

    Without `patterns` the set is chosen by the configuration. Raises RuleError for a bad pattern set, and ConfigError
    when BPE or stanza is unavailable as configured.
    """
    if patterns is None:
        patterns = choose_patterns(config, labels, documents).patterns
    options = config.text
    bpe = (
        Bpe.learn(documents, tokenize(documents), vocabulary=options.bpe_vocabulary) if options.bpe_vocabulary else None
    )
    annotate = load_annotator(config)
    plain = plain_batch(documents, patterns=patterns, split_lines=options.split_lines, bpe=bpe, annotate=annotate)
    return plain, FeatureExtractor(patterns, fit_lexicon(plain), options.split_lines, bpe, annotate)


def load_annotator(config: Config) -> Annotate | None:
    """Return the configured stanza pipeline, if any. Raises ConfigError when it cannot be loaded."""
    return load_pipeline(config.text.stanza) if config.text.stanza else None


def fit_lexicon(batch: Batch) -> Lexicon:
    """Learn the lexicon of an annotated batch."""
    return learn_lexicon(batch.documents, batch.tokens, batch.table["lower"].strings())
