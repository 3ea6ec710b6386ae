"""Show the examples in docstrings as code: for Markdown, `>>>` would be a quotation in a quotation."""

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Put each example, from its first prompt to the next empty line, into a fence."""

    def on_object(self, *, obj: griffe.Object, **others: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return the text with its examples in fences."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if not inside and line.startswith(">>> "):
            lines.append("```python")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join(lines[:-1])
