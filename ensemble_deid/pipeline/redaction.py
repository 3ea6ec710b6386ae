"""Taking the found spans out of a text."""

from collections.abc import Sequence

from ensemble_deid.errors import ConfigError
from ensemble_deid.text.span import Span

STYLES = ("tag", "mask", "remove")


def check_style(style: str) -> None:
    """Raise ConfigError for a style that does not exist."""
    if style not in STYLES:
        raise ConfigError(f"unknown style {style!r}; known: {', '.join(STYLES)}")


def redact(text: str, spans: Sequence[Span], *, style: str = "tag") -> str:
    """Return the text without its PHI.

    `tag` puts `[LABEL]` in the place of each span, `mask` an `X` for each of its characters but white space (the
    text keeps its length), `remove` nothing. Raises ValueError for spans that overlap or reach outside the text, and
    ConfigError for an unknown style.
    """
    check_style(style)
    parts: list[str] = []
    position = 0
    for span in sorted(spans):
        if span.start < position or span.end > len(text):
            raise ValueError(f"the span {span.start}-{span.end} overlaps another or reaches outside the text")
        parts += [text[position : span.start], _replacement(text[span.start : span.end], span.label, style)]
        position = span.end
    parts.append(text[position:])
    return "".join(parts)


def _replacement(surface: str, label: str, style: str) -> str:
    if style == "tag":
        return f"[{label}]"
    if style == "mask":
        return "".join(c if c.isspace() else "X" for c in surface)
    return ""
