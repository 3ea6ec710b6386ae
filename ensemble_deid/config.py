"""Every option of training, in one place: TOML text -> validated, frozen models.

An unknown key or a value of the wrong kind raises ConfigError, which names the key and the nearest known one.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from ensemble_deid.errors import ConfigError

SUBMODELS = ("regex", "tbed", "crf", "neural")


class Section(BaseModel):
    """Base of all sections: frozen, numbers finite, and nothing passes that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)


class TextConfig(Section):
    """How notes are cut."""

    split_lines: bool = Field(True, description="cut lines into sentences, too (features and TBED's windows)")
    bpe_vocabulary: int = Field(0, ge=0, description="sentencepiece pieces on top of the tokens; 0 switches BPE off")
    stanza: str = Field(
        "", description="stanza's models, as language or language/package, for the features pos and ner; empty: none"
    )


class RegexConfig(Section):
    """The initial tagger."""

    patterns: str = Field("auto", description="name of a set in rules/patterns, a file, or auto: the best fitting set")


class TbedConfig(Section):
    """Transformation-based error-driven learning."""

    initial: Literal["regex", "none", "frequent"] = Field(
        "regex", description="tags to start from: the patterns', none, or each word's most frequent tag (cross-fitted)"
    )
    templates: str = Field("default", description="name of a set in rules/templates, or a file")
    max_rules: int = Field(400, ge=0)
    min_score: int = Field(2, ge=1, description="errors fixed minus right tags broken, at least")
    min_accuracy: float = Field(0.0, ge=0, le=1, description="errors fixed over tags changed, at least")
    min_patients: int = Field(2, ge=1, description="a rule must fix errors in so many different patients")


class CrfConfig(Section):
    """The conditional random field (sklearn-crfsuite, L-BFGS)."""

    c1: float = Field(0.05, ge=0, description="L1 penalty")
    c2: float = Field(0.05, ge=0, description="L2 penalty")
    max_iterations: int = Field(60, ge=1)
    min_frequency: int = Field(1, ge=0, description="attributes seen fewer times are dropped")
    max_sequence: int = Field(90, ge=1, description="lines are merged into sequences of at most so many tokens")
    windows: tuple[str, ...] = Field((), description="windows of the feature table; empty means the built-in list")


class NeuralConfig(Section):
    """The BiLSTM-CNN-CRF; sizes are those of Zhao et al. 2020, table 3, where it gives them."""

    word_dimension: int = Field(128, ge=1)
    character_dimension: int = Field(16, ge=1)
    kernel_sizes: tuple[PositiveInt, ...] = Field((2, 3, 4, 5), min_length=1)
    channels: int = Field(8, ge=1, description="of each kernel size")
    feature_dimension: int = Field(4, ge=1, description="of each feature's embedding")
    hidden: int = Field(128, ge=2, multiple_of=2, description="of the LSTM, half of it in each direction")
    gradient_clip: float = Field(10.0, gt=0)
    learning_rate: float = Field(0.003, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    dropout: float = Field(0.4, ge=0, lt=1)
    word_dropout: float = Field(0.1, ge=0, lt=1, description="share of training words shown as unknown")
    epochs: int = Field(16, ge=1)
    batch_tokens: int = Field(800, ge=1, description="tokens a batch")
    max_sequence: int = Field(90, ge=1, description="lines are merged into sequences of at most so many tokens")
    min_word_count: int = Field(1, ge=1, description="rarer words share one embedding")
    features: tuple[str, ...] = (
        "shape",
        "case",
        "digits",
        "length",
        "suffix3",
        "prefix3",
        "initial",
        "pattern",
        "in_note",
        "lexicon",
        "known_word",
        "field",
        "position_in_line",
        "section",
        "spaced",
    )


class TransformerConfig(Section):
    """A pretrained encoder, fine-tuned (BERT-deid, Johnson et al. 2020)."""

    encoder: str = Field("all-MiniLM-L6-v2", min_length=1, description="a packaged encoder, a folder, or a name on the hub")
    window: int = Field(126, ge=16, description="word pieces that are read together")
    overlap: int = Field(40, ge=0, description="pieces that consecutive windows share when predicting")
    training_overlap: int = Field(0, ge=0, description="pieces that consecutive windows share in training")
    epochs: int = Field(6, ge=1)
    learning_rate: float = Field(1e-4, gt=0)
    head_rate: float = Field(10.0, gt=0, description="learning rate of the new layers, in learning rates of the encoder")
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.01, ge=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    gradient_clip: float = Field(1.0, gt=0)
    batch_pieces: int = Field(2048, ge=16, description="pieces a batch")
    max_sequence: int = Field(90, ge=1, description="tokens that are decoded together: whole lines, merged while they fit")
    half_precision_weights: bool = Field(True, description="round and store the weights as 16-bit floats")


class StackConfig(Section):
    """The stacker: an RBF-kernel SVM over the candidates of all submodels."""

    n_best: int = Field(5, ge=1, description="best sequences of CRF and network that give candidates")
    min_confidence: float = Field(0.01, ge=0, lt=1, description="candidates that no submodel believes more are dropped")
    preset: Literal["search", "zhao2020"] = Field("search", description="zhao2020: the paper's C+, C- and gamma")
    c_grid: tuple[PositiveFloat, ...] = Field((0.5, 1.0, 2.0, 5.0), min_length=1)
    gamma_grid: tuple[PositiveFloat, ...] = Field((0.004, 0.009, 0.02), min_length=1)
    weight_grid: tuple[PositiveFloat, ...] = Field((0.417, 1.0), min_length=1)
    search_candidates: int = Field(8000, ge=100, description="candidates in the search, drawn by patient")
    threshold: float | None = Field(None, ge=0, le=1, description="probability to accept at; chosen by CV if not given")


class Config(Section):
    """All of it. `submodels` is kept in the fixed order regex, tbed, crf, neural."""

    seed: int = Field(13, ge=0)
    folds: int = Field(5, ge=2)
    jobs: int = Field(2, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    submodels: tuple[Literal["regex", "tbed", "crf", "neural"], ...] = ("regex", "tbed", "crf", "neural")
    text: TextConfig = TextConfig()
    regex: RegexConfig = RegexConfig()
    tbed: TbedConfig = TbedConfig()
    crf: CrfConfig = CrfConfig()
    neural: NeuralConfig = NeuralConfig()
    stack: StackConfig = StackConfig()


def load_config(path: Path | None = None, *, overrides: Sequence[str] = (), **options: Any) -> Config:
    """Read a TOML file, then apply `section.key=value` overrides, then keyword options (None leaves one as it is)."""
    content: dict[str, Any] = {}
    if path is not None:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such configuration file") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read as a file ({error.strerror})") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: {error}") from None
    for override in overrides:
        _apply_override(content, override)
    content.update({key: value for key, value in options.items() if value is not None})
    return make_config(content, place=str(path) if path else "configuration")


def make_config(content: Mapping[str, Any], *, place: str = "configuration") -> Config:
    """Validate a nested mapping. Raises ConfigError."""
    _refuse_unknown(content, Config, place, "")
    _refuse_unknown_submodels(content.get("submodels", SUBMODELS), place)
    try:
        config = Config.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{place}: {key}: {first['msg']}, not {first['input']!r}") from None
    ordered = tuple(name for name in SUBMODELS if name in config.submodels)
    return config.model_copy(update={"submodels": ordered})


def _refuse_unknown(content: Mapping[str, Any], model: type[BaseModel], place: str, prefix: str) -> None:
    for key, value in content.items():
        if key not in model.model_fields:
            raise ConfigError(f"{place}: unknown key {prefix}{key}{_nearest(key, model.model_fields)}")
        annotation = model.model_fields[key].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{place}: {prefix}{key} is a section, not a value")
            _refuse_unknown(value, annotation, place, f"{prefix}{key}.")


def _refuse_unknown_submodels(names: Any, place: str) -> None:
    if not isinstance(names, list | tuple) or not names:
        raise ConfigError(f"{place}: submodels must be a list of at least one of {', '.join(SUBMODELS)}")
    for name in names:
        if name not in SUBMODELS:
            raise ConfigError(f"{place}: unknown submodel {name!r}{_nearest(str(name), SUBMODELS)}")


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.4)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def _apply_override(content: dict[str, Any], override: str) -> None:
    key, sign, value = override.partition("=")
    if not sign or not key:
        raise ConfigError(f"--set {override}: expected section.key=value")
    *sections, last = key.strip().split(".")
    target = content
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"--set {override}: {section} is a value, not a section")
    try:
        target[last] = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        target[last] = value.strip()
