"""Reads the templates of two other learners of transformation rules: NLTK's, and the template lines of fnTBL."""

import re
from collections.abc import Iterable, Mapping

from ensemble_deid.errors import RuleError
from ensemble_deid.features.windows import Window
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, TAG_COLUMN, Template

# NLTK's feature classes and the columns that hold what they look at.
NLTK_COLUMNS: Mapping[str, str] = {"Word": "word", "Pos": TAG_COLUMN}
_NLTK_TEMPLATE = re.compile(r"\s*Template\((.*)\)\s*")
_NLTK_FEATURE = re.compile(r"\s*(\w+)\(\[\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]\)\s*(,|$)")
_FNTBL_TERM = re.compile(r"(?P<name>[^\W\d]\w*?)(?:_(?P<at>-?\d+)|:\[(?P<first>-?\d+),(?P<last>-?\d+)\])")


def read_nltk_templates(
    templates: Iterable[object], *, columns: Mapping[str, str] = NLTK_COLUMNS
) -> tuple[Template, ...]:
    """Read NLTK's templates (`nltk.tag.brill.brill24()`), or their text, `Template(Pos([-1]),Word([0]))`.

    `columns` names the column of each feature class. NLTK itself is not needed. Raises RuleError for a feature
    without a column, and for positions with a gap, which rules here do not have.
    """
    found: list[Template] = []
    for number, template in enumerate(templates, 1):
        place = f"NLTK template {number}"
        match = _NLTK_TEMPLATE.fullmatch(template if isinstance(template, str) else repr(template))
        if match is None:
            raise RuleError(f"{place}: expected Template(...)")
        found.append(Template(tuple(_nltk_windows(match[1], place, columns))))
    return tuple(found)


def read_fntbl_templates(
    text: str, *, tag: str = "pos", columns: Mapping[str, str] | None = None, name: str = "templates"
) -> tuple[Template, ...]:
    """Read the lines of an fnTBL template file, such as `pos_0 word_-1 word:[1,2] => pos`.

    `tag` is fnTBL's name of the tag that the rules change; the condition on the token's own tag is dropped, as
    every rule here has it. `columns` maps other names to columns; left out, they are columns themselves. Empty
    lines and those that begin with `#` are skipped. A RuleError begins with `name:line:column`; what rules here
    cannot do (affix terms, other targets) is refused.
    """
    found: list[Template] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            found.append(_fntbl_template(line, f"{name}:{number}", tag, columns or {}))
    return tuple(found)


def _nltk_windows(text: str, place: str, columns: Mapping[str, str]) -> list[Window]:
    windows: list[Window] = []
    at = 0
    while at < len(text):
        feature = _NLTK_FEATURE.match(text, at)
        if feature is None:
            raise RuleError(f"{place}: expected Feature([positions])")
        if feature[1] not in columns:
            known = ", ".join(sorted(columns))
            raise RuleError(f"{place}: no column is known for {feature[1]!r}; there are: {known}")
        positions = [int(position) for position in feature[2].split(",")]
        if positions != list(range(positions[0], positions[-1] + 1)):
            raise RuleError(f"{place}: the positions of a window must follow one another")
        windows.append(_window(columns[feature[1]], positions[0], positions[-1], place))
        at = feature.end()
    return windows


def _fntbl_template(line: str, place: str, tag: str, columns: Mapping[str, str]) -> Template:
    terms, arrow, target = line.partition("=>")
    if not arrow:
        raise RuleError(f"{place}:{len(line.rstrip()) + 1}: expected '=>'")
    if target.strip() != tag:
        raise RuleError(f"{place}:{len(terms) + 3}: expected the target {tag!r}")
    windows: list[Window] = []
    has_own_tag = False
    for word in re.finditer(r"\S+", terms):
        term = _FNTBL_TERM.fullmatch(word[0])
        if term is None:
            raise RuleError(f"{place}:{word.start() + 1}: expected name_offset or name:[first,last]")
        first, last = (int(term[group] or term["at"]) for group in ("first", "last"))
        if term["name"] == tag and first == last == 0:
            has_own_tag = True
            continue
        column = TAG_COLUMN if term["name"] == tag else columns.get(term["name"], term["name"])
        windows.append(_window(column, first, last, f"{place}:{word.start() + 1}"))
    if not has_own_tag:
        raise RuleError(f"{place}:1: expected the term {tag}_0: a rule here always asks for the present tag")
    if not windows:
        raise RuleError(f"{place}:1: expected a term beside {tag}_0")
    return Template(tuple(windows))


def _window(column: str, first: int, last: int, place: str) -> Window:
    try:
        window = Window(column, first, last)
        window.check_reach(MAX_OFFSET)
    except RuleError as error:
        raise RuleError(f"{place}: {error}") from None
    return window
