"""Build HTML whose text is escaped unless it was built here."""

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"meta", "input", "br", "hr"})
_DRAWN = frozenset({"line", "rect", "path", "circle", "polyline"})
Attribute = str | int | float | bool | None


class Html(str):
    """Markup that is safe to stand in a page as it is."""

    __slots__ = ()


Child = str | Html | None


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


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
