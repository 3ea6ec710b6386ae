"""Templates, the columns and offsets that a learned rule may ask about, and the rules made from them.

A template is written as windows are (`features/windows.py`): `word[0] & tag[-1]`, `shape[0] & word in [-3,-1]`. A
window of several offsets holds when any of them has the rule's value. The column `tag` is the current tag, which the
rules themselves rewrite; the token's own present tag is a condition of every rule and is never written.
"""

import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_deid.errors import RuleError
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.features.windows import Window, parse_windows
from ensemble_deid.parsing import strict_toml

TAG_COLUMN = "tag"
MAX_OFFSET = 4
STANZA_TEMPLATES: tuple[str, ...] = (
    "pos[0] & tag[-1]",
    "pos[-1] & pos[0] & tag[-1]",
    "pos[0] & case[0]",
    "lower[-1] & pos[0]",
    "ner[0]",
    "ner[0] & tag[-1]",
    "ner[0] & case[0]",
    "ner[-1] & ner[0]",
)
"""Added to any set where stanza's columns are in the table, as the CRF and the network take them."""


@dataclass(frozen=True, slots=True)
class Template:
    """A conjunction of windows; its rules give each window a value.

    Raises RuleError when it has no window, or one that reaches beyond four tokens.
    """

    windows: tuple[Window, ...]

    def __post_init__(self) -> None:
        if not self.windows:
            raise RuleError("a template needs at least one window")
        for window in self.windows:
            window.check_reach(MAX_OFFSET)

    def __str__(self) -> str:
        return " & ".join(map(str, self.windows))


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """A named list of templates, in the order that breaks ties between rules."""

    name: str
    description: str
    templates: tuple[Template, ...]


def parse_template(text: str, *, place: str = "template") -> Template:
    """Read the short form of one template; `place` begins the message of a RuleError, which gives the column."""
    return Template(parse_windows(text, place=place, most=MAX_OFFSET))


def parse_templates(texts: Iterable[str]) -> tuple[Template, ...]:
    """Read templates in their short form, such as `word[0] & tag[-1]` or `word in [-3,-1]`.

    A RuleError gives the number of the template (from 1) and the column in it.
    """
    return tuple(parse_template(text, place=f"template {number}") for number, text in enumerate(texts, 1))


def with_stanza(templates: TemplateSet, columns: Collection[str]) -> TemplateSet:
    """Return the set with `STANZA_TEMPLATES` where the table has stanza's columns, else as it is."""
    if not set(STANZA_COLUMNS) <= set(columns):
        return templates
    more = [template for template in parse_templates(STANZA_TEMPLATES) if template not in templates.templates]
    return replace(templates, templates=(*templates.templates, *more))


def load_templates(path: Path) -> TemplateSet:
    """Read a TOML file of `name`, `description` and `templates`; a RuleError gives the file and the place."""
    try:
        content = strict_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RuleError(f"{path}: there is no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: {error}") from None
    expected = {"name", "description", "templates"}
    if unknown := sorted(set(content) - expected):
        raise RuleError(f"{path}: unknown key {unknown[0]!r}; the keys are {', '.join(sorted(expected))}")
    name, description = content.get("name"), content.get("description", "")
    texts = content.get("templates")
    if not isinstance(name, str) or not isinstance(description, str):
        raise RuleError(f"{path}: name and description must be strings")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RuleError(f"{path}: templates must be a list of strings")
    templates = [parse_template(text, place=f"{path}: template {i}") for i, text in enumerate(texts, 1)]
    for number, template in enumerate(templates, 1):
        if template in templates[: number - 1]:
            raise RuleError(f"{path}: template {number} repeats template {templates.index(template) + 1}")
    return TemplateSet(name, description, tuple(templates))


@dataclass(frozen=True, slots=True)
class Condition:
    """A window and the value that at least one of its places must have. The value may be text of a note.

    Raises RuleError when the window reaches beyond four tokens.
    """

    window: Window
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        self.window.check_reach(MAX_OFFSET)


@dataclass(frozen=True, slots=True)
class Rule:
    """Change `from_tag` to `to_tag` wherever all conditions hold, at all such places of the text at once.

    `fixed` and `broken` count the wrong tags put right and the right tags put wrong when the rule was learned.
    Raises RuleError when the rule changes nothing, or has no condition, or a count is negative.
    """

    from_tag: str
    to_tag: str
    conditions: tuple[Condition, ...]
    fixed: int = 0
    broken: int = 0

    def __post_init__(self) -> None:
        if self.from_tag == self.to_tag:
            raise RuleError("a rule must change the tag to another tag")
        if self.fixed < 0 or self.broken < 0:
            raise RuleError("the counts of fixed and broken tags cannot be negative")
        if not self.conditions:
            raise RuleError("a rule needs at least one condition")

    @property
    def score(self) -> int:
        """Errors fixed less right tags broken: what the learner maximises."""
        return self.fixed - self.broken

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the two tags, where they are BIO tags; `O` has none."""
        return tuple(label for tag in (self.from_tag, self.to_tag) if (label := tag.partition("-")[2]))

    @property
    def template(self) -> Template:
        """The windows of the conditions, without their values."""
        return Template(tuple(condition.window for condition in self.conditions))

    @property
    def identity(self) -> tuple[str, str, tuple[Condition, ...]]:
        """What the rule does, whatever it was counted to fix or break."""
        return (self.from_tag, self.to_tag, self.conditions)
