"""Every option of training as validated, frozen models; the sections are in `config_sections.py`.

An unknown key or a wrong value raises ConfigError, which names the key, and for an unknown one the nearest known key.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ensemble_deid.config_sections import (
    STANZA_NAME,
    AugmentConfig,
    CrfConfig,
    NeuralConfig,
    RegexConfig,
    Section,
    StackConfig,
    TbedConfig,
    TextConfig,
    TransformerConfig,
    nearest,
)
from ensemble_deid.errors import ConfigError
from ensemble_deid.parsing import read_toml, strict_toml
from ensemble_deid.submodels import DEFAULT, NAMES, SUBMODELS, check_member_name, row_of

__all__ = [
    "STANZA_NAME",
    "AugmentConfig",
    "Config",
    "CrfConfig",
    "NeuralConfig",
    "RegexConfig",
    "Section",
    "StackConfig",
    "TbedConfig",
    "TextConfig",
    "TransformerConfig",
    "make_config",
]


class Config(Section):
    """The whole configuration. `submodels` is kept in the order of the table of submodels, each name once.

    The `members`, other systems whose spans are given, are its last entries.

    >>> from ensemble_deid import Config, CrfConfig
    >>> config = Config(seed=7, submodels=["crf", "regex"], crf=CrfConfig(max_iterations=20))
    >>> config.submodels, config.crf.max_iterations, config.crf.c1
    (('regex', 'crf'), 20, 0.05)
    """

    seed: int = Field(13, ge=0)
    folds: int = Field(5, ge=2)
    group_by: Literal["auto", "patient", "site"] = Field(
        "auto",
        description="what folds keep together; auto: sites if there are at least as many as folds, else patients",
    )
    jobs: int = Field(2, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    shareable: bool = Field(False, description="close the vocabulary: the model does not memorise names")
    min_patients_outside: int = Field(
        3, ge=2, description="of shareable models: in how many patients a word must be seen outside PHI"
    )
    members: tuple[str, ...] = Field((), description="other systems whose spans are given (`train --member`)")
    submodels: tuple[str, ...] = Field(DEFAULT, validate_default=True)
    by_type: tuple[str, ...] = Field(
        (),
        description="labels or categories, several joined by +, or label for each one: submodels with marginals are "
        "a model for each entry, and one for the rest",
    )
    uncased: tuple[str, ...] = Field((), description="submodels that read all words in lower case")
    augment: AugmentConfig = AugmentConfig()
    text: TextConfig = TextConfig()
    regex: RegexConfig = RegexConfig()
    tbed: TbedConfig = TbedConfig()
    crf: CrfConfig = CrfConfig()
    neural: NeuralConfig = NeuralConfig()
    transformer: TransformerConfig = TransformerConfig()
    stack: StackConfig = StackConfig()

    @field_validator("members")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            check_member_name(name)
        return tuple(sorted(set(names)))

    @field_validator("submodels", mode="before")
    @classmethod
    def _in_order(cls, names: Any, info: ValidationInfo) -> tuple[str, ...]:
        members = info.data.get("members", ())
        if not isinstance(names, list | tuple) or not names:
            raise ConfigError(f"submodels must be a list of at least one of {', '.join(NAMES)}")
        for name in names:
            if name not in (*NAMES, *members):
                raise ConfigError(f"unknown submodel {name!r}{nearest(str(name), NAMES)}")
        return (*(name for name in NAMES if name in names), *members)

    @model_validator(mode="after")
    def _leaves_some_submodels(self) -> "Config":
        """Raise ConfigError where `stack.also_without` names what is no submodel, or leaves nothing."""
        for entry in self.stack.also_without:
            for name in entry.split("+"):
                if name not in (*NAMES, *self.members):
                    raise ConfigError(f"stack.also_without: unknown submodel {name!r}{nearest(name, NAMES)}")
            if set(self.submodels) <= set(entry.split("+")):
                raise ConfigError(f"stack.also_without: without {entry} no submodel is left")
        return self

    @model_validator(mode="after")
    def _copies_have_what_is_read(self) -> "Config":
        """Raise ConfigError where resampled copies would lack columns or pieces that the encoder is to read."""
        if "transformer" in self.submodels and self.transformer.resampled_copies:
            read = {"transformer.features": self.transformer.features, "text.bpe_vocabulary": self.text.bpe_vocabulary}
            for other, value in read.items():
                if value:
                    raise ConfigError(f"transformer.resampled_copies: not possible together with {other}")
        return self

    @field_validator("uncased")
    @classmethod
    def _reads_words_of_the_table(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Raise ConfigError for what is no submodel, or one whose case is not a matter of the feature table."""
        possible = [row.name for row in SUBMODELS if row.reads_only_table and row.has_marginals]
        for name in names:
            if name not in possible:
                raise ConfigError(f"uncased: {name!r} is none of {', '.join(possible)}")
        return tuple(name for name in possible if name in names)

    def refuse_without_effect(self) -> None:
        """Raise ConfigError where `by_type` or `uncased` concern no submodel in use.

        Not when a configuration is made: models that were trained with such settings are still read.
        """
        used = ", ".join(self.submodels)
        if self.by_type and not any(row_of(name).has_marginals for name in self.submodels):
            possible = ", ".join(row.name for row in SUBMODELS if row.has_marginals)
            raise ConfigError(f"by_type has no effect on the submodels {used}: it concerns {possible}")
        if self.uncased and not set(self.uncased) & set(self.submodels):
            raise ConfigError(f"uncased names {', '.join(self.uncased)}, and the submodels are {used}")

    def is_by_type(self, submodel: str) -> bool:
        """Return whether a submodel is several models: rules that find a type are apart as they are."""
        return bool(self.by_type) and row_of(submodel).has_marginals

    @property
    def smaller_stacks(self) -> tuple[tuple[str, ...], ...]:
        """The submodels that each further final estimator is for; an entry that leaves out nothing adds none."""
        kept = (tuple(n for n in self.submodels if n not in entry.split("+")) for entry in self.stack.also_without)
        return tuple(dict.fromkeys(names for names in kept if names != self.submodels))

    def of_submodel(self, name: str) -> Section:
        """Return the section of a submodel; in a shareable model nothing is learned from too few patients."""
        section: Section = getattr(self, name)
        if self.shareable and isinstance(section, TbedConfig | CrfConfig):
            least = max(section.min_patients, self.min_patients_outside)
            return section.model_copy(update={"min_patients": least})
        return section

    @model_validator(mode="after")
    def _can_be_shareable(self) -> "Config":
        """Raise ConfigError where a shareable model is asked for with what no closed vocabulary covers."""
        if not self.shareable:
            return self
        open_ones = [name for name in self.submodels if not row_of(name).reads_only_table]
        reasons = {
            f"the submodel {', '.join(open_ones)} reads the words themselves": bool(open_ones),
            "text.bpe_vocabulary learns pieces of all words": self.text.bpe_vocabulary > 0,
            "neural.word_vectors brings words of its own": bool(self.neural.word_vectors),
            "text.word_lists are stored in the model": bool(self.text.word_lists),
            "text.stem gives stems of all words": bool(self.text.stem),
            "tbed.initial = frequent stores words with their tags": self.tbed.initial == "frequent",
        }
        for reason, applies in reasons.items():
            if applies:
                raise ConfigError(f"shareable: not possible with these settings: {reason}")
        return self


def make_config(content: Mapping[str, Any], *, place: str = "configuration") -> Config:
    """Validate a nested mapping. Raises ConfigError, whose message begins with `place`."""
    try:
        return Config(**content)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


_MOST_DOTS, _SHOWN = 3, 200


def named_configurations() -> dict[str, Path]:
    folder = Path(__file__).parent / "configurations"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_config(path: Path | str | None = None, *, overrides: Sequence[str] = (), **options: Any) -> Config:
    """Read a TOML file, then apply `section.key=value` overrides, then keyword options (None is ignored).

    `path` may be the name of a configuration of the package: see `named_configurations`. Raises ConfigError for what
    cannot be read, for wrong settings, and for `by_type` or `uncased` without a submodel that they concern.

    >>> from ensemble_deid import load_config
    >>> load_config(overrides=["crf.max_iterations=20"], seed=7).crf.max_iterations
    20
    """
    content: dict[str, Any] = {}
    if path is not None:
        named = named_configurations()
        missing = f"no such file, and none of the names {', '.join(named)}"
        content = read_toml(Path(named.get(str(path), path)), ConfigError, missing=missing)
    for override in overrides:
        _apply_override(content, override)
    content.update({key: value for key, value in options.items() if value is not None})
    try:
        config = Config(**content)
        config.refuse_without_effect()
    except ConfigError as error:
        raise ConfigError(f"{path or 'configuration'}: {error}") from None
    return config


def config_to_toml(config: Config) -> str:
    """Return the whole configuration as a TOML file, without `jobs`, which changes no result, and values of None."""
    content = config.model_dump(mode="json", exclude={"jobs"}, exclude_none=True)
    values = {key: value for key, value in content.items() if not isinstance(value, dict)}
    sections = {"": values, **{key: value for key, value in content.items() if isinstance(value, dict)}}
    # Strings, numbers, booleans and lists are written alike in JSON and TOML.
    blocks = [
        "\n".join([*([f"[{name}]"] if name else []), *(f"{key} = {json.dumps(value)}" for key, value in block.items())])
        for name, block in sections.items()
    ]
    return "\n\n".join(blocks) + "\n"


def _apply_override(content: dict[str, Any], override: str) -> None:
    key, sign, value = override.partition("=")
    if not sign or not key or key.count(".") > _MOST_DOTS:
        raise ConfigError(f"--set {override[:_SHOWN]}: expected section.key=value")
    *sections, last = key.strip().split(".")
    target = content
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"--set {override}: {section} is a value, not a section")
    try:
        target[last] = strict_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        target[last] = value.strip()
