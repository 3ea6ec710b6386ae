"""Which style each label has: from a policy, a default, and settings of single labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.labels import I2B2_CATEGORIES, category_of, known_labels, to_i2b2
from ensemble_deid.parsing import read_toml
from ensemble_deid.surrogates.patient import SurrogateSettings

INVENTING = ("surrogate", "cap-age")
"""Styles that write a value which a reader takes for what was in the note."""
STYLES = ("tag", "numbered", "mask", "remove", "hash", "surrogate", "keep", "year", "cap-age", "zip3")
"""The styles that have a name. Besides, `text:WORDS` puts these words in the place of each span."""
FIXED = "text:"
_SWITCHES = tuple(setting.name for setting in fields(SurrogateSettings) if setting.name != "min_score")
# Of labels that the model finds, a default that leaves them as they are would hand out PHI.
_ONLY_PER_LABEL = ("keep", "year", "cap-age", "zip3")


@dataclass(frozen=True, slots=True)
class Styles:
    """A default style, and those of labels and categories; `settings` are those of `[surrogates]` in a policy."""

    default: str = "tag"
    by_label: Mapping[str, str] = field(default_factory=dict)
    settings: SurrogateSettings = field(default_factory=SurrogateSettings)

    def of(self, label: str) -> str:
        """Return the style of a label: its own, its i2b2 counterpart's, its category's, or the default."""
        name = label.upper()
        for known in (label, name, to_i2b2(name), category_of(name)):
            if known is not None and known in self.by_label:
                return self.by_label[known]
        return self.default

    def hides(self, label: str) -> bool:
        """Whether the style of a label shows nothing of what the span holds."""
        return self.of(label) not in _ONLY_PER_LABEL

    @property
    def used(self) -> frozenset[str]:
        """Every style that may occur."""
        return frozenset({self.default, *self.by_label.values()})


def policies() -> dict[str, Path]:
    """Return the files of the named policies."""
    folder = Path(__file__).parents[2] / "policies"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def make_styles(
    style: str | None = None,
    styles: Mapping[str, str] | None = None,
    policy: str | Path | None = None,
    settings: Mapping[str, bool | float] | None = None,
) -> Styles:
    """Join a policy (a name or a TOML file), a default style, and those of labels; the later ones win.

    Raises ConfigError for a style, label or setting that does not exist.
    """
    content: dict[str, Any] = {} if policy is None else _read(policy)
    place = "styles" if policy is None else str(policy)
    unknown = sorted(set(content) - {"style", "styles", "surrogates"})
    if unknown:
        raise ConfigError(f"{place}: unknown key {unknown[0]}; known: style, styles, surrogates")
    default = style if style is not None else content.get("style", "tag")
    by_label = {**_table(content, "styles", place), **(styles or {})}
    chosen = {**_table(content, "surrogates", place), **(settings or {})}
    _check_style(default, "style")
    if default in _ONLY_PER_LABEL:
        raise ConfigError(f"style {default!r} is for single labels only: --set styles.LABEL={default}")
    for label, value in by_label.items():
        _check_style(value, f"styles.{label}")
    return Styles(default, by_label, _settings(chosen))


def _settings(chosen: Mapping[str, Any]) -> SurrogateSettings:
    for name, value in chosen.items():
        number = name == "min_score" and isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 <= value <= 1) and not (name in _SWITCHES and isinstance(value, bool)):
            raise ConfigError(
                f"surrogates.{name}={value!r}: {', '.join(_SWITCHES)} are true or false, min_score is from 0 to 1"
            )
    return SurrogateSettings(**chosen)


def check_labels(styles: Mapping[str, str], labels: frozenset[str]) -> None:
    """Raise ConfigError for a label that neither the model nor a known scheme has: a typing error would leak."""
    known = labels | known_labels() | set(I2B2_CATEGORIES)
    for label in styles:
        if label not in known:
            raise ConfigError(f"styles.{label}: there is no such label; the model has {', '.join(sorted(labels))}")


def _check_style(style: object, place: str) -> None:
    if not isinstance(style, str) or not (style in STYLES or style.startswith(FIXED)):
        raise ConfigError(f"{place}: unknown style {style!r}; known: {', '.join(STYLES)}, {FIXED}WORDS")


def _table(content: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{place}: [{name}] must be a table")
    return table


def _read(policy: str | Path) -> dict[str, Any]:
    named = policies()
    missing = f"no such file, and none of the policies {', '.join(named)}"
    return read_toml(Path(named.get(str(policy), policy)), ConfigError, missing=missing)
