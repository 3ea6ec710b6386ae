"""Which style and which name in the output each label has: from a policy, a default, and settings of single labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ensemble_deid.deidentify.recognizers import check_recorded, loaded, name_of, source_digest
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.labels import I2B2_CATEGORIES, NEW_LABEL, category_of, is_label, known_labels, to_i2b2
from ensemble_deid.parsing import read_toml
from ensemble_deid.surrogates.patient import SurrogateSettings

INVENTING = ("surrogate", "cap-age")
"""Styles that write a value which a reader takes for what was in the note."""
COARSE = ("year", "cap-age", "zip3")
"""Styles that keep a part of a value, or all of it if it says little."""
STYLES = ("tag", "numbered", "mask", "remove", "hash", "surrogate", "keep", *COARSE)
"""The styles that have a name. Besides, `text:WORDS` puts these words in the place of each span."""
FIXED = "text:"
GROUP = "ensemble_deid.operators"
"""The entry points of installed operators, whose names are styles."""
StyleFunction = Callable[[str, str], str]
"""Returns what takes the place of a string with this label."""
_SWITCHES = tuple(setting.name for setting in fields(SurrogateSettings) if setting.name != "min_score")
# Of labels that the model finds, a default that leaves them as they are would hand out PHI.
_ONLY_PER_LABEL = ("keep", *COARSE)


@dataclass(frozen=True, slots=True)
class Styles:
    """A default style, and those of labels and categories; `settings` are those of `[surrogates]` in a policy.

    `operators` has the callables behind styles that are not built in; `names` renames labels in the output.
    """

    default: str = "tag"
    by_label: Mapping[str, str] = field(default_factory=dict)
    settings: SurrogateSettings = field(default_factory=SurrogateSettings)
    operators: Mapping[str, StyleFunction] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, label: str) -> str:
        """Return the style of a label: its own, its i2b2 counterpart's, its category's, or the default."""
        return _of_label(self.by_label, label) or self.default if self.by_label else self.default

    def name(self, label: str) -> str:
        """Return what a label is called in the output."""
        return _of_label(self.names, label) or label if self.names else label

    def hides(self, label: str) -> bool:
        """Whether the style of a label shows nothing of what the span holds; False for operators: nobody knows."""
        return self.of(label) not in _ONLY_PER_LABEL and self.of(label) not in self.operators

    @property
    def used(self) -> frozenset[str]:
        return frozenset({self.default, *self.by_label.values()})

    def to_json(self) -> dict[str, Any]:
        """Return what a run and a project record. Raises ConfigError for an operator without digest or version."""
        styles: dict[str, Any] = {"default": self.default, "by_label": dict(sorted(self.by_label.items()))}
        if self.operators:
            styles["operators"] = {name: _recorded(name, self.operators[name]) for name in sorted(self.operators)}
        return {**styles, "names": dict(sorted(self.names.items()))} if self.names else styles


def _recorded(name: str, operator: StyleFunction) -> str:
    """Return an operator's digest, and its version where it has one."""
    module = next((point.module for point in entry_points(group=GROUP, name=name)), "")
    found = source_digest(operator, module=module), getattr(operator, "version", None)
    recorded = " ".join(str(told) for told in found if told)
    check_recorded(recorded, f"operator {name}")
    return recorded


def _of_label(table: Mapping[str, str], label: str) -> str | None:
    name = label.upper()
    found = (label, name, to_i2b2(name), category_of(name))
    return next((table[known] for known in found if known is not None and known in table), None)


def policies() -> dict[str, Path]:
    folder = Path(__file__).parents[2] / "policies"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def make_styles(
    style: str | StyleFunction | None = None,
    styles: Mapping[str, str | StyleFunction] | None = None,
    policy: str | Path | None = None,
    settings: Mapping[str, bool | float] | None = None,
    rename: Mapping[str, str] | None = None,
) -> Styles:
    """Join a policy (a name or a TOML file), a default style, and the styles of labels; later ones win.

    A style may be an operator. Raises ConfigError for a style, label or setting that does not exist.
    """
    content: dict[str, Any] = {}
    place = "styles" if policy is None else str(policy)
    if policy is not None:
        missing = f"no such file, and none of the policies {', '.join(policies())}"
        content = read_toml(Path(policies().get(str(policy), policy)), ConfigError, missing=missing)
    unknown = sorted(set(content) - {"style", "styles", "surrogates"})
    if unknown:
        raise ConfigError(f"{place}: unknown key {unknown[0]}; known: style, styles, surrogates")
    operators: dict[str, StyleFunction] = {}
    default = _named(style if style is not None else content.get("style", "tag"), "style", operators)
    given = {**_table(content, "styles", place), **(styles or {})}
    by_label = {label: _named(value, f"styles.{label}", operators) for label, value in given.items()}
    chosen = {**_table(content, "surrogates", place), **(settings or {})}
    if default in _ONLY_PER_LABEL:
        raise ConfigError(f"style {default!r} is for single labels only: --set styles.LABEL={default}")
    made = Styles(default, by_label, _settings(chosen), operators, dict(rename or {}))
    for label, name in made.names.items():
        if not is_label(name):
            raise ConfigError(f"rename {label}: the new name may hold {NEW_LABEL}")
    if made.names and "numbered" in made.used:
        # Of two labels with one name, each has its own numbers: two people would be PERSON-1.
        raise ConfigError("rename: goes with every style but numbered")
    return made


def _settings(chosen: Mapping[str, Any]) -> SurrogateSettings:
    for name, value in chosen.items():
        number = name == "min_score" and isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 <= value <= 1) and not (name in _SWITCHES and isinstance(value, bool)):
            raise ConfigError(
                f"surrogates.{name}={value!r}: {', '.join(_SWITCHES)} are true or false, min_score is from 0 to 1"
            )
    return SurrogateSettings(**chosen)


def check_labels(styles: Mapping[str, object], labels: frozenset[str], place: str = "styles.") -> None:
    """Raise ConfigError for a label that neither the model nor a known scheme has: a typing error would leak."""
    known = labels | known_labels() | set(I2B2_CATEGORIES)
    for label in styles:
        if label not in known:
            raise ConfigError(f"{place}{label}: there is no such label; the model has {', '.join(sorted(labels))}")


def _named(style: Any, place: str, operators: dict[str, StyleFunction]) -> str:
    """Return the name of a style, and put the operator behind it, if it is one, among `operators`."""
    if callable(style):
        named = name_of(style)
        if operators.setdefault(named, style) is not style:
            raise ConfigError(f"{place}: two operators have the name {named}: define each by a name of its own")
        return named
    if isinstance(style, str) and (style in STYLES or style.startswith(FIXED)):
        return style
    installed = entry_points(group=GROUP)
    if not isinstance(style, str) or style not in installed.names:
        known = ", ".join((*STYLES, *sorted(installed.names)))
        raise ConfigError(f"{place}: unknown style {style!r}; known: {known}, {FIXED}WORDS")
    operators[style] = loaded(installed[style], f"operator {style}")
    return style


def _table(content: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{place}: [{name}] must be a table")
    return table
