"""The report's figures of each label, and the confusion of labels."""

from collections.abc import Mapping, Sequence

from ensemble_deid.evaluation.error_list import ErrorList
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import breakable, data_table, score_row, scroll, section

NONE = "∅"


def label_section(evaluation: Evaluation) -> Html:
    """Strict figures of each label, category and subset, with bars."""
    parts = (("label", "By label"), ("category", "By category"), ("subset", "HIPAA and the groups A-D"))
    tables = [
        data_table(
            title,
            (part.capitalize(), "F1 as a bar", "Precision", "Recall", "F1", "TP", "FP", "FN"),
            [score_row(s.name, s, with_bar=True) for s in evaluation.scores if (s.view, s.part) == ("strict", part)],
        )
        for part, title in parts
    ]
    meaning = (
        "Counted in annotations. TP: in gold and given by the system, with the same start, end and type; FN: in gold "
        "alone; FP: given by the system alone."
    )
    return section("labels", "Labels (strict)", element("p", meaning), *tables)


def confusion_section(errors: ErrorList) -> Html:
    """The confusion matrix of annotations with the same offsets or overlapping ones."""
    names = sorted({name for both in errors.confusion for name in both if name is not None})
    if not names:
        return section("confusion", "Confusion of labels", element("p", "There is nothing to confuse."))
    ends: list[str | None] = [*names, None]
    wrong = {both: n for both, n in errors.confusion.items() if both[0] != both[1]}
    most = max(wrong.values(), default=1)
    head = [
        element("th", "gold ╲ system", scope="col"),
        *(element("th", element("span", n or NONE), scope="col") for n in ends),
    ]
    rows = [
        element(
            "tr",
            element("th", breakable(gold or NONE), scope="row"),
            *_confusion_cells(gold, ends, errors.confusion, most),
        )
        for gold in ends
    ]
    listed = sorted(
        ((gold, system, n) for (gold, system), n in wrong.items() if gold and system),
        key=lambda row: (-row[2], row[0] or "", row[1] or ""),
    )
    table = element(
        "table",
        element(
            "caption",
            "Annotations by gold and system label, where they are at the same place or overlap. "
            f"Column {NONE}: gold annotations without a counterpart (missed in the list of errors); row {NONE}: "
            "annotations of the system without one (spurious).",
        ),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
        class_="matrix",
    )
    return section(
        "confusion",
        "Confusion of labels",
        scroll("Confusion of labels", table),
        data_table(
            "Most frequent confusions",
            ("Gold", "System", "Annotations"),
            [(gold or NONE, system or NONE, f"{n:,}") for gold, system, n in listed[:15]],
            words=2,
        )
        if listed
        else element("p", "No label is taken for another."),
    )


def _confusion_cells(
    gold: str | None, ends: Sequence[str | None], counts: Mapping[tuple[str | None, str | None], int], most: int
) -> list[Html]:
    cells: list[Html] = []
    for system in ends:
        n = counts.get((gold, system), 0)
        if gold == system:
            cells.append(element("td", f"{n:,}" if n else "", class_="right"))
        else:
            shade = f"background:rgba(var(--heat),{0.12 + 0.5 * n / most:.2f})" if n else None
            cells.append(element("td", f"{n:,}" if n else "", class_="wrong", style=shade))
    return cells
