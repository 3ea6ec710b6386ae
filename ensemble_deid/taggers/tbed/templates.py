"""Templates: which columns, at which offsets, a learned rule may ask about.

The short form of a template joins windows with `&`: `word[0] & tag[-1]`, `shape[0] & word in [-3,-1]`.
The column `tag` is the current tag, which the rules themselves rewrite; the present tag of the token in hand
is a condition of every rule and is never written.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.errors import RuleError

TAG_COLUMN = "tag"
MAX_OFFSET = 4
_NAME = re.compile(r"[^\W\d][\w.-]*")
_SINGLE = re.compile(r"\[\s*([+-]?\d+)\s*\]")
_RANGE = re.compile(r"\s*(?:in\s*)?\[\s*([+-]?\d+)\s*(?:,|\.\.)\s*([+-]?\d+)\s*\]")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """The places where one column is looked at: offsets `first` to `last`, both included, 0 the token in hand.

    A window of several offsets holds when any of them has the value. Raises RuleError when it is empty or
    reaches beyond four tokens, or when the column's name cannot be written in a rule.
    """

    column: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.column) is None:
            raise RuleError("a column's name is a letter followed by letters, digits, '_', '.' or '-'")
        if self.first > self.last:
            raise RuleError(f"the window [{self.first},{self.last}] ends before it begins")
        if self.first < -MAX_OFFSET or self.last > MAX_OFFSET:
            raise RuleError(
                f"the window [{self.first},{self.last}] reaches beyond offsets -{MAX_OFFSET} to {MAX_OFFSET}"
            )

    @property
    def offsets(self) -> range:
        """Every offset of the window, in rising order."""
        return range(self.first, self.last + 1)

    def __str__(self) -> str:
        if self.first == self.last:
            return f"{self.column}[{self.first}]"
        return f"{self.column} in [{self.first},{self.last}]"


@dataclass(frozen=True, slots=True)
class Template:
    """A conjunction of windows; its rules give each window a value. Raises RuleError when it has none."""

    windows: tuple[Window, ...]

    def __post_init__(self) -> None:
        if not self.windows:
            raise RuleError("a template needs at least one window")

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
    windows: list[Window] = []
    at = _skip_space(text, 0)
    while True:
        name = _NAME.match(text, at)
        if name is None:
            raise RuleError(f"{place}, column {at + 1}: expected the name of a feature column")
        numbers = _SINGLE.match(text, name.end()) or _RANGE.match(text, name.end())
        if numbers is None:
            raise RuleError(f"{place}, column {name.end() + 1}: expected [offset] or in [first,last]")
        first, last = int(numbers[1]), int(numbers[numbers.lastindex or 1])
        try:
            windows.append(Window(name[0], first, last))
        except RuleError as error:
            raise RuleError(f"{place}, column {at + 1}: {error}") from None
        at = _skip_space(text, numbers.end())
        if at == len(text):
            break
        if text[at] != "&":
            raise RuleError(f"{place}, column {at + 1}: expected '&' or the end of the template")
        at = _skip_space(text, at + 1)
    try:
        return Template(tuple(windows))
    except RuleError as error:
        raise RuleError(f"{place}: {error}") from None


def parse_templates(texts: Iterable[str]) -> tuple[Template, ...]:
    """Read templates in their short form, such as `word[0] & tag[-1]` or `word in [-3,-1]`.

    A RuleError gives the number of the template (from 1) and the column in it.
    """
    return tuple(parse_template(text, place=f"template {number}") for number, text in enumerate(texts, 1))


def load_templates(path: Path) -> TemplateSet:
    """Read a TOML file of `name`, `description` and `templates`; a RuleError gives the file and the place."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
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


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
