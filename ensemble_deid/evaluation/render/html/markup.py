"""HTML whose text is escaped unless it was built here: elements, pages without scripts, sections and tables."""

from collections.abc import Iterable, Sequence
from html import escape

_VOID = frozenset({"meta", "input", "br", "hr"})
_DRAWN = frozenset({"line", "rect", "path", "circle", "polyline"})
Attribute = str | int | float | bool | None


class Html(str):
    """Markup that is safe to stand in a page as it is."""

    __slots__ = ()


Child = str | Html | None
CONTAINS_PHI = "This page contains protected health information (PHI)."


def element(tag: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element; plain strings among its children and all attribute values are escaped.

    `class_` and `for_` lose their last mark, other marks become hyphens; True stands alone, None and False are left
    out. Children that are None are left out.
    """
    opened = f"<{tag}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if tag in _VOID:
        return Html(f"{opened}>")
    return Html(f"{opened}/>") if tag in _DRAWN else Html(f"{opened}>{join(children)}</{tag}>")


def join(children: Iterable[Child], between: str = "") -> Html:
    """Put children one after another, escaping plain strings."""
    parts = (
        child if isinstance(child, Html) else escape(child, quote=False) for child in children if child is not None
    )
    return Html(between.join(parts))


def phi_warning(rest: str, *, tag: str = "p", strong: str = CONTAINS_PHI) -> Html:
    """Return the framed line that begins a page with PHI."""
    return element(tag, element("strong", strong), rest, class_="warning", role="note")


def whole_page(head: Html, body: Html) -> str:
    """Return the text of a page that can be written to a file as UTF-8."""
    page = f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
    # Half a character, which a JSON escape can leave in a note, cannot be written to a file.
    return page.encode("utf-8", "replace").decode("utf-8")


PRINTED = (
    "@media print{caption,h2,h3{break-after:avoid}caption,tr,thead{break-inside:avoid}"
    "thead,tbody>tr:first-child{break-before:avoid}}"
)
"""On paper no caption and no heading is left alone at the foot of a page."""


def static_page(title: str, body: Html, *, style: str) -> str:
    """Return a page without scripts that loads nothing: neither a note nor a rule can make it do so."""
    return whole_page(static_head(title, style=style), body)


def static_head(title: str, *, style: str) -> Html:
    return page_head(title, style=style + PRINTED, policy=NO_SCRIPTS)


NO_SCRIPTS = "default-src 'none'; style-src 'unsafe-inline'"
"""The content security policy of a page that loads and runs nothing."""


def page_head(title: str, *, style: str, policy: str) -> Html:
    """Return the head of a page that no search engine lists; `policy` says what it may load and run."""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="robots", content="noindex"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Html(style)),
    )


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def section(name: str, title: str, *children: Child) -> Html:
    """Return a section that the page's own links reach by `name`."""
    return element(
        "section", element("h2", title, id=f"{name}-title"), *children, id=name, aria_labelledby=f"{name}-title"
    )


def scroll(name: str, child: Html) -> Html:
    """Let a wide table scroll on its own, also by keyboard, under a line that says so where it is cut off."""
    return element(
        "div",
        element("p", "Scroll sideways for more columns →", class_="cue screen", aria_hidden="true"),
        element("div", child, class_="scroll", tabindex=0, role="region", aria_label=name),
        class_="table",
    )


def data_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str | Html]], *, note: str = "", words: int = 1
) -> Html:
    """Return a captioned table whose first column names its rows and whose first `words` columns hold words.

    Cells that are already whole `td` elements are kept.
    """
    head = [_cell("th", name, as_words=i < words, scope="col") for i, name in enumerate(header)]
    body = [
        element(
            "tr",
            element("th", breakable(row[0]), scope="row"),
            *(_cell("td", cell, as_words=i < words) for i, cell in enumerate(row[1:], start=1)),
        )
        for row in rows
    ]
    table = element(
        "table",
        element("caption", element("strong", title), f" {note}" if note else ""),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return scroll(title, table)


def number(value: float) -> str:
    """Return a length or place in a drawing, without invisible digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def named(name: str, definition: str) -> Html:
    return join([name, element("small", definition, class_="soft meaning")])


def breakable(name: str | Html) -> Html:
    """Let a long label be broken after its hyphens and underscores, and nowhere else."""
    if isinstance(name, Html):
        return name
    return join(name.split("_"), "_<wbr>")


def _cell(tag: str, cell: str | Html, *, as_words: bool, scope: str | None = None) -> Html:
    if isinstance(cell, Html) and cell.startswith("<td"):
        return cell
    child = breakable(cell) if as_words else cell
    return element(tag, child, class_="text" if as_words else None, scope=scope)
