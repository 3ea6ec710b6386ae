"""The report's sections and tables as such."""

from collections.abc import Sequence

from ensemble_deid.evaluation.report.markup import Child, Html, element, join


def section(name: str, title: str, *children: Child) -> Html:
    """Return a section that the page's own links reach by `name`."""
    return element(
        "section", element("h2", title, id=f"{name}-title"), *children, id=name, aria_labelledby=f"{name}-title"
    )


def scroll(name: str, child: Html) -> Html:
    """Let a wide table scroll on its own, also by keyboard."""
    return element("div", child, class_="scroll", tabindex=0, role="region", aria_label=name)


def data_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str | Html]], *, note: str = "", words: int = 1
) -> Html:
    """Return a captioned table whose first column names its rows and whose first `words` columns hold words.

    Cells that are whole `td` elements already stand as they are.
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
