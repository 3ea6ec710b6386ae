"""The report's sections and tables, and the table row of a score with its bar."""

from collections.abc import Sequence

from ensemble_deid.evaluation.render.figures import interval_text
from ensemble_deid.evaluation.render.html.markup import Child, Html, element, join
from ensemble_deid.evaluation.scores import Estimate, Score
from ensemble_deid.note.digits import figure


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


def score_row(name: str, score: Score, *, definition: str = "", with_bar: bool = False) -> tuple[str | Html, ...]:
    """Return a table row: the name (and what it means), F1 as a bar where wanted, the three figures, TP, FP and FN."""
    bars = [element("td", _bar(score.f1, name=f"F1 of {name}"), class_="drawn")] if with_bar else []
    return (
        named(name, definition) if definition else name,
        *bars,
        *(_estimate_cell(estimate) for estimate in (score.precision, score.recall, score.f1)),
        *(f"{count:,}" for count in (score.counts.tp, score.counts.fp, score.counts.fn)),
    )


def _bar(estimate: Estimate, *, name: str) -> Html:
    """Draw a figure between 0 and 1 as a bar, its interval as a line with ends; an empty track where undefined."""
    parts = [element("rect", x=0, y=4, width=120, height=12, fill="none", stroke="var(--line)")]
    text = f"{name}: undefined"
    if estimate.value is not None:
        text = f"{name}: {estimate.value:.4f}"
        parts.append(element("rect", x=0, y=4, width=number(120 * estimate.value), height=12, fill="var(--bar)"))
    interval = estimate.interval
    if interval is not None and interval.low is not None and interval.high is not None:
        low, high = 120 * interval.low, 120 * interval.high
        path = f"M{number(low)} 6V14M{number(low)} 10H{number(high)}M{number(high)} 6V14"
        parts.append(element("path", d=path, stroke="var(--ink)", fill="none", stroke_width="1.5"))
    return element(
        "svg", *parts, viewBox="-2 0 124 20", width=124, height=20, role="img", aria_label=text, focusable="false"
    )


def number(value: float) -> str:
    """Return a length or place in a drawing, without invisible digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def named(name: str, definition: str) -> Html:
    """Return a row's name with what it means below it."""
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


def _estimate_cell(estimate: Estimate) -> Html:
    interval = interval_text(estimate.interval).strip()
    return element("td", figure(estimate.value), element("small", interval) if interval else None)
