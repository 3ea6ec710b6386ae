"""The sections of a configuration: the options of the text, of each submodel and of the stacker."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, ValidationError, model_validator

from ensemble_deid.errors import ConfigError

_SHOWN = 200
STANZA_NAME = "[a-z-]{2,20}(/[A-Za-z0-9_-]{1,40})?"
"""How models of stanza are named: a language, or language/package."""


def nearest(word: str, known: Any) -> str:
    """Return the end of a message about an unknown word: the nearest of the known ones, or all of them."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.4)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


class Section(BaseModel):
    """Base of all sections: frozen, hashable, numbers finite; raises ConfigError for unknown keys and wrong values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)
    prefix: ClassVar[str] = ""
    """Where the section's keys stand in the whole configuration, for error messages."""

    def __init__(self, **values: Any) -> None:
        for key, value in values.items():
            self._refuse_unknown(key, value)
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = self.prefix + ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"{key}: {first['msg']}, not {repr(first['input'])[:_SHOWN]}") from None

    @classmethod
    def _refuse_unknown(cls, key: str, value: Any) -> None:
        if key not in cls.model_fields:
            raise ConfigError(f"unknown key {cls.prefix}{key}{nearest(key, cls.model_fields)}")
        kind = cls.model_fields[key].annotation
        if isinstance(kind, type) and issubclass(kind, Section) and not isinstance(value, Mapping | kind):
            raise ConfigError(f"{key} is a section, not a value")


class AugmentConfig(Section):
    """Changed copies of training notes, which all submodels and the final estimator learn from.

    >>> from ensemble_deid import Config
    >>> Config(augment={"share": 0.3}).augment.changes
    ('bare-names', 'other-names', 'form')
    """

    prefix = "augment."

    share: float = Field(0.0, ge=0, le=1, description="share of the training notes that get a changed copy")
    changes: tuple[str, ...] = Field(
        ("bare-names", "other-names", "form"), description="what is changed in a copy (`corpus augment --changes`)"
    )


class TextConfig(Section):
    """Tokenization.

    >>> from ensemble_deid import Config, TextConfig
    >>> Config(text=TextConfig(bpe_vocabulary=500)).text.bpe_vocabulary
    500
    """

    prefix = "text."

    split_lines: bool = Field(True, description="split lines into sentences (for features and TBED's windows)")
    bpe_vocabulary: int = Field(
        0, ge=0, description="number of sentencepiece pieces that tokens are split into; 0: no BPE"
    )
    knowledge: str = Field(
        "auto", description="a set in rules/knowledge or a folder of tables; auto: the one of the patterns' language"
    )
    word_lists: tuple[str, ...] = Field(
        (), description="own lists (staff, wards ...), name=file with a word or phrase a line; a column for each"
    )
    stem: str = Field(
        "",
        pattern=r"^[a-z]{0,20}$",
        description="language of the Snowball stemmer for the feature stem (english, spanish ...); empty: none",
    )
    stanza: str = Field(
        "",
        pattern=rf"^({STANZA_NAME})?$",
        description="stanza models, as language or language/package, for the features pos and ner; empty: none",
    )


class RegexConfig(Section):
    """The patterns.

    >>> from ensemble_deid import Config, RegexConfig
    >>> Config(regex=RegexConfig(patterns="en-i2b2")).regex.patterns
    'en-i2b2'
    """

    prefix = "regex."

    patterns: str = Field("auto", description="a set in rules/patterns, a .toml file, none, or auto: the best match")
    language: Literal["auto", "en", "es", "none"] = Field(
        "auto", description="the language that auto takes patterns for; auto: told from the notes; none: no patterns"
    )
    map: str = Field(
        "", description="labels of patterns -> labels of the corpus: a .toml file or a built-in map; empty: the same"
    )


class TbedConfig(Section):
    """Transformation-based error-driven learning.

    >>> from ensemble_deid import Config, TbedConfig
    >>> Config(tbed=TbedConfig(max_rules=100)).tbed.max_rules
    100
    """

    prefix = "tbed."

    initial: Literal["regex", "none", "frequent"] = Field(
        "regex", description="initial tags: from the patterns, none, or each word's most frequent tag (cross-fitted)"
    )
    templates: str = Field("default", description="a set in rules/templates, or a .toml file")
    max_rules: int = Field(400, ge=0)
    min_score: int = Field(2, ge=1, description="least number of errors fixed minus correct tags broken")
    min_accuracy: float = Field(0.0, ge=0, le=1, description="least share of changed tags that fix an error")
    cv_folds: int = Field(
        3, ge=0, description="folds of the cross-validation that says how many rules are used; 0: all are"
    )
    min_patients: int = Field(2, ge=1, description="least number of patients in whom a rule fixes an error")
    names_phi: bool = Field(True, description="rules may name words that are mostly PHI in training notes")


class CrfConfig(Section):
    """The conditional random field (sklearn-crfsuite, L-BFGS).

    >>> from ensemble_deid import Config, CrfConfig
    >>> Config(crf=CrfConfig(max_iterations=20)).crf.max_iterations
    20
    """

    prefix = "crf."

    c1: float = Field(0.05, ge=0, description="L1 penalty")
    c2: float = Field(0.05, ge=0, description="L2 penalty")
    max_iterations: int = Field(60, ge=1)
    min_frequency: int = Field(1, ge=0, description="rarer attributes are dropped")
    min_patients: int = Field(1, ge=1, description="attributes that fewer patients have are dropped")
    max_sequence: int = Field(90, ge=1, le=10_000, description="lines are merged into sequences up to this many tokens")
    windows: tuple[str, ...] = Field(
        (), max_length=1000, description="windows over the feature table; empty: the built-in list"
    )


KernelSize = Annotated[int, Field(ge=1, le=64)]


class NeuralConfig(Section):
    """The network, by default a BiLSTM-CNN-CRF; sizes are those of Zhao et al. 2020, table 3, where it gives them.

    >>> from ensemble_deid import Config, NeuralConfig
    >>> Config(neural=NeuralConfig(epochs=8)).neural.epochs
    8
    """

    prefix = "neural."

    characters: Literal["none", "cnn", "bilstm", "names"] = Field(
        "cnn", description="encoder of spellings; names: a BiLSTM trained on lists of names, then frozen (char2vec)"
    )
    encoder: Literal["bilstm", "transformer", "transformer-bilstm"] = "bilstm"
    decoder: Literal["crf", "softmax"] = "crf"
    word_dimension: int = Field(128, ge=1, le=4096)
    word_vectors: str = Field("", description="text file (word2vec, GloVe, fastText) of word_dimension numbers a word")
    word_vectors_limit: int = Field(200_000, ge=1, description="words of the file that are kept in the model")
    zero_digits: bool = Field(False, description="read every digit of a word as 0 (characters stay as they are)")
    character_dimension: int = Field(16, ge=1, le=4096)
    kernel_sizes: tuple[KernelSize, ...] = Field((2, 3, 4, 5), min_length=1, max_length=16)
    channels: int = Field(8, ge=1, le=4096, description="per kernel size")
    character_hidden: int = Field(
        50, ge=2, le=4096, multiple_of=2, description="size of the character BiLSTM, half in each direction"
    )
    names: str = Field(
        "en", min_length=1, description="names for char2vec: a set in rules/knowledge, or a file with a name a line"
    )
    name_steps: int = Field(500, ge=0, description="batches of 128 names that char2vec is trained on")
    feature_dimension: int = Field(4, ge=1, le=4096, description="embedding size of each feature")
    transformer_layers: int = Field(2, ge=1, le=24)
    transformer_heads: int = Field(4, ge=1, le=64, description="they share `hidden`, which is a multiple of them")
    transformer_dropout: float = Field(0.1, ge=0, lt=1, description="inside the layers of the Transformer")
    hidden: int = Field(
        128, ge=2, le=4096, multiple_of=2, description="LSTM size, half in each direction; width of the Transformer"
    )
    gradient_clip: float = Field(10.0, gt=0)
    optimizer: Literal["adamw", "adagrad"] = "adamw"
    learning_rate: float = Field(0.003, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    dropout: float = Field(0.4, ge=0, lt=1)
    word_dropout: float = Field(0.1, ge=0, lt=1, description="share of training words replaced by UNKNOWN")
    epochs: int = Field(16, ge=1)
    batch_tokens: int = Field(800, ge=1, description="tokens per batch")
    max_sequence: int = Field(90, ge=1, le=10_000, description="lines are merged into sequences up to this many tokens")
    min_word_count: int = Field(1, ge=1, description="rarer words share one embedding")
    outside_bias: float = Field(
        0.0, ge=-100, le=100, description="added to the score of 'not PHI' when predicting: below 0, recall rises"
    )
    features: tuple[str, ...] = (
        *("shape", "case", "digits", "length", "suffix3", "prefix3", "initial", "pattern", "in_note", "lexicon"),
        *("known_word", "field", "position_in_line", "section", "spaced"),
    )

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> "NeuralConfig":
        if self.encoder != "bilstm" and self.hidden % self.transformer_heads:
            raise ConfigError(
                f"neural.hidden: {self.hidden} must be a multiple of "
                f"neural.transformer_heads ({self.transformer_heads})"
            )
        return self


class TransformerConfig(Section):
    """A pretrained encoder, fine-tuned (BERT-deid, Johnson et al. 2020).

    >>> from ensemble_deid import Config, TransformerConfig
    >>> Config(transformer=TransformerConfig(epochs=3)).transformer.epochs
    3
    """

    prefix = "transformer."

    encoder: str = Field(
        "all-MiniLM-L6-v2", min_length=1, description="a packaged encoder, a folder, or a name on the hub"
    )
    window: int = Field(126, ge=16, le=10_000, description="word pieces that are read together")
    overlap: int = Field(8, ge=0, description="pieces that consecutive windows share when predicting")
    training_overlap: int = Field(0, ge=0, description="pieces that consecutive windows share in training")
    epochs: int = Field(6, ge=1)
    resampled_copies: int = Field(
        0,
        ge=0,
        le=100,
        description="copies of the training notes, with other names, dates and numbers for the PHI, in each epoch",
    )
    learning_rate: float = Field(2e-4, gt=0)
    head_rate: float = Field(
        10.0, gt=0, description="learning rate of the new layers, in learning rates of the encoder"
    )
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.01, ge=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    gradient_clip: float = Field(1.0, gt=0)
    batch_pieces: int = Field(1024, ge=16, description="pieces a batch")
    max_sequence: int = Field(
        90, ge=1, le=10_000, description="tokens that are decoded together: whole lines, merged while they fit"
    )
    features: tuple[str, ...] = Field(
        (), description="columns embedded beside the pieces, those that are in the table (knowledge_given, ...)"
    )
    eight_bit_weights: bool = Field(True, description="store matrices in eight bits")
    half_precision_weights: bool = Field(True, description="else store weights as 16-bit floats")


class StackConfig(Section):
    """The stacker: an RBF-kernel SVM over the candidates of all submodels.

    >>> from ensemble_deid import Config, StackConfig
    >>> Config(stack=StackConfig(threshold=0.4)).stack.threshold
    0.4
    """

    prefix = "stack."

    n_best: int = Field(5, ge=1, le=100, description="tag sequences that a sequence model draws its candidates from")
    min_confidence: float = Field(0.01, ge=0, lt=1, description="candidates below it for every submodel are dropped")
    tokens: bool = Field(
        True, description="low scores for the likeliest words that no candidate covers, to raise possible recall"
    )
    pool_weight: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="weight of the sequence models' log odds of PHI in a candidate's score, where there is a net",
    )
    net: bool = Field(False, description="candidates that no submodel proposes: doubts, unknown words, codes, repeats")
    mentions: bool = Field(
        False, description="what the submodels think of other places in the note that have a word of the candidate"
    )
    trees: bool = Field(
        False,
        description="boosted trees beside the SVM, which also know how much PHI is near and in a table's column; "
        "they need the net",
    )
    also_without: tuple[str, ...] = Field(
        (),
        description="submodels (several joined by +) that prediction may leave out: for each entry a final estimator "
        "is fitted without them",
    )
    best_members: int = Field(2, ge=1, description="submodels that the combiner per-type takes for each label")
    preset: Literal["search", "zhao2020"] = Field("search", description="zhao2020: the paper's C+, C- and gamma")
    c_grid: tuple[PositiveFloat, ...] = Field((0.5, 1.0, 2.0, 5.0), min_length=1)
    gamma_grid: tuple[PositiveFloat, ...] = Field((0.004, 0.009, 0.02), min_length=1)
    weight_grid: tuple[PositiveFloat, ...] = Field((0.417, 1.0), min_length=1)
    search_candidates: int = Field(
        8000, ge=100, description="size of the sample for the search, whole patients or sites"
    )
    fit_candidates: int = Field(30_000, ge=100, description="at most so many candidates, drawn at random, to fit on")
    threshold: float | None = Field(
        None, ge=0, le=1, description="probability from which on a candidate is accepted; default: by operating_point"
    )
    operating_point: Literal["f1", "recall"] = Field(
        "f1", description="the threshold by CV: best strict F1, or highest recall within max_false_positives"
    )
    max_false_positives: float = Field(15.0, ge=0, description="wrongly tagged tokens in 1000 tokens, for recall")

    @model_validator(mode="after")
    def _one_threshold(self) -> "StackConfig":
        if self.threshold is not None and self.operating_point != "f1":
            raise ConfigError("stack.threshold and stack.operating_point: give one of the two")
        return self

    @model_validator(mode="after")
    def _a_pool_has_a_net(self) -> "StackConfig":
        if self.pool_weight and not self.net:
            raise ConfigError("stack.pool_weight: the scores that are pooled are the net's: set stack.net=true, too")
        if self.trees and not self.net:
            raise ConfigError("stack.trees: the trees read the net's scores: set stack.net=true, too")
        return self
