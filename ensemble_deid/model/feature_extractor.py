"""Turning documents into the feature table of a given model: its patterns, tokenizer settings and lexicon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.config import Config
from ensemble_deid.errors import RuleError
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.columns import Stem, load_stemmer
from ensemble_deid.features.knowledge import Knowledge, read_knowledge, read_word_list
from ensemble_deid.features.lexicon import Lexicon, learn_lexicon
from ensemble_deid.features.patterns import PatternSet
from ensemble_deid.features.stanza_tags import Annotator, load_pipeline
from ensemble_deid.features.vocabulary import learn_vocabulary
from ensemble_deid.features.windows import COLUMN_NAME
from ensemble_deid.model.pattern_choice import PatternChoice, choose_patterns
from ensemble_deid.note.bpe import Bpe
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.resources import rules_directory

STANZA = "stanza"
"""The entry of a manifest's `choices` that says which models of stanza made the columns."""


@dataclass(frozen=True, slots=True)
class FeatureExtractor:
    """All that a model needs to extract features; `bpe`, `annotate` and `stem` are None unless switched on.

    `added` are patterns that were added after training (`pipeline/additions.py`).
    """

    patterns: PatternSet = field(repr=False)
    lexicon: Lexicon = field(repr=False)
    split_lines: bool
    bpe: Bpe | None = field(default=None, repr=False)
    annotate: Annotator | None = field(default=None, repr=False)
    knowledge: Knowledge | None = field(default=None, repr=False)
    stem: Stem | None = field(default=None, repr=False)
    added: PatternSet | None = field(default=None, repr=False)

    def to_record(self) -> dict[str, Any]:
        """Return the entry of a manifest's `choices` about the linguistic columns; nothing without them."""
        return {} if self.annotate is None else {STANZA: self.annotate.models.to_record()}

    def extract(self, documents: Sequence[Document]) -> Batch:
        """Return the batch of documents that the model was not trained on."""
        plain = plain_batch(
            documents,
            patterns=self.patterns,
            split_lines=self.split_lines,
            bpe=self.bpe,
            annotate=self.annotate,
            stem=self.stem,
            knowledge=self.knowledge,
            added=self.added,
        )
        return with_lexicon(plain, self.lexicon, leave_own_patient_out=False)


def fit_feature_extractor(
    documents: Sequence[Document], labels: Sequence[str], *, config: Config, choice: PatternChoice | None = None
) -> tuple[Batch, FeatureExtractor]:
    """Return the plain batch of the training notes, and the feature extractor fitted to them.

    `choice` is that of the patterns, where it has been made already. Raises RuleError for a bad pattern set, and
    ConfigError when BPE, stanza or the stemmer is unavailable as configured.
    """
    choice = choice or choose_patterns(config, labels, documents)
    patterns, options = choice.patterns, config.text
    bpe = (
        Bpe.learn(documents, tokenize(documents), vocabulary=options.bpe_vocabulary) if options.bpe_vocabulary else None
    )
    annotate, stem = load_annotator(config), load_stem(config)
    knowledge = load_knowledge(config, choice.language or patterns.name.partition("-")[0])
    plain = plain_batch(
        documents,
        patterns=patterns,
        split_lines=options.split_lines,
        bpe=bpe,
        annotate=annotate,
        stem=stem,
        knowledge=knowledge,
        for_training=True,
    )
    lexicon = fit_lexicon(plain, config=config)
    return plain, FeatureExtractor(
        patterns, lexicon, options.split_lines, bpe, annotate=annotate, knowledge=knowledge, stem=stem
    )


def load_knowledge(config: Config, language: str) -> Knowledge | None:
    """Return the configured tables of public lists, None where there are none for the language.

    `auto` takes the set of the notes' language. Raises RuleError for a set that does not exist and for unreadable
    lists.
    """
    name = config.text.knowledge
    if name == "none":
        return None
    sets = {folder.name: folder for folder in sorted((rules_directory() / "knowledge").iterdir()) if folder.is_dir()}
    folder = sets.get(language) if name == "auto" else sets.get(name, Path(name))
    if folder is None:
        return None
    if not folder.is_dir():
        raise RuleError(f"there is no knowledge set {name!r}; there are: {', '.join(sets)}, or a folder of tables")
    own = sorted(entry.partition("=")[::2] for entry in config.text.word_lists)
    for list_name, file in own:
        if not file or COLUMN_NAME.fullmatch(list_name) is None:
            raise RuleError(f"text.word_lists: {list_name!r}: expected NAME=FILE")
    return read_knowledge(folder, tuple((list_name, read_word_list(Path(file))) for list_name, file in own))


def reload_knowledge(content: Mapping[str, Any], *, config: Config) -> Knowledge:
    """Return the tables that a model was trained with: installed ones, or those in the folder that is configured.

    Tables that were added to the folder since are not read. Raises RuleError when the others have changed.
    """
    name = str(content["name"])
    installed = rules_directory() / "knowledge" / Path(name).name
    own = tuple((str(key), tuple(map(str, entries))) for key, entries in content["own"])
    folder = installed if installed.is_dir() else Path(config.text.knowledge)
    knowledge = read_knowledge(folder, own, files=frozenset(content["hashes"]))
    if knowledge.hashes != content["hashes"]:
        raise RuleError(f"the knowledge tables {name!r} are not the ones that the model was trained with")
    return knowledge


def load_annotator(config: Config) -> Annotator | None:
    """Return the configured stanza pipeline, if any. Raises ConfigError when it cannot be loaded."""
    return load_pipeline(config.text.stanza) if config.text.stanza else None


def reload_annotator(choices: Mapping[str, Any], *, config: Config) -> Annotator | None:
    """Return the pipeline that a model was trained with, by the `choices` of its manifest.

    Raises ConfigError when it cannot be loaded, ModelError when stanza's models are others (earlier versions of this
    package did not record them).
    """
    annotate = load_annotator(config)
    if annotate is not None and STANZA in choices:
        annotate.models.refuse_others(choices[STANZA])
    return annotate


def load_stem(config: Config) -> Stem | None:
    """Return the configured stemmer, if any. Raises ConfigError when it cannot be loaded."""
    return load_stemmer(config.text.stem) if config.text.stem else None


def fit_lexicon(batch: Batch, *, config: Config) -> Lexicon:
    """Learn the lexicon of an annotated batch, with a closed vocabulary for a shareable model."""
    documents, tokens, table = batch.documents, batch.tokens, batch.table
    if not config.shareable:
        return learn_lexicon(documents, tokens, table["lower"].strings())
    least = config.min_patients_outside
    vocabulary = learn_vocabulary(documents, tokens, table, min_patients=least)
    lower = vocabulary.close(table)["lower"].strings()
    return learn_lexicon(documents, tokens, lower, vocabulary=vocabulary, min_patients=least)
