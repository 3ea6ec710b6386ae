"""The report's figures of each label, and the confusion of labels."""

from collections.abc import Mapping, Sequence

from ensemble_deid.evaluation.error_list import ErrorList
from ensemble_deid.evaluation.evaluate import Estimate, Evaluation, Resampling, Score
from ensemble_deid.evaluation.render.figures import interval_text
from ensemble_deid.evaluation.render.html.markup import (
    Html,
    breakable,
    data_table,
    element,
    named,
    number,
    scroll,
    section,
)
from ensemble_deid.evaluation.subgroups import LEVEL, MIN_PATIENTS, Subgroup, Subgroups
from ensemble_deid.note.digits import figure, percent

NONE = "∅"


def label_section(evaluation: Evaluation) -> Html:
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
    names = sorted({name for both in errors.confusion for name in both if name is not None})
    if not names:
        return section("confusion", "Confusion of labels", element("p", "There is nothing to confuse."))
    ends: list[str | None] = [*names, None]
    wrong = {both: n for both, n in errors.confusion.items() if both[0] != both[1]}
    most = max(wrong.values(), default=1)
    names_of_columns = [
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
    caption = element(
        "caption",
        "Annotations by gold and system label, where they are at the same place or overlap. "
        f"Column {NONE}: gold annotations without a counterpart (missed in the list of errors); row {NONE}: "
        "annotations of the system without one (spurious).",
    )
    head, body = element("thead", element("tr", *names_of_columns)), element("tbody", *rows)
    matrix = scroll("Confusion of labels", element("table", caption, head, body, class_="matrix"))
    frequent = element("p", "No label is taken for another.")
    if listed:
        most_frequent = [(gold or NONE, system or NONE, f"{n:,}") for gold, system, n in listed[:15]]
        columns = ("Gold", "System", "Annotations")
        frequent = data_table("Most frequent confusions", columns, most_frequent, words=2)
    return section("confusion", "Confusion of labels", matrix, frequent)


def _confusion_cells(
    gold: str | None, ends: Sequence[str | None], counts: Mapping[tuple[str | None, str | None], int], most: int
) -> list[Html]:
    cells: list[Html] = []
    for system in ends:
        n = counts.get((gold, system), 0)
        right = gold == system
        shade = f"background:rgba(var(--heat),{0.12 + 0.5 * n / most:.2f})" if n and not right else None
        cells.append(element("td", f"{n:,}" if n else "", class_="right" if right else "wrong", style=shade))
    return cells


_HEADER = ("Group", "Annotations", "Patients", "Hidden", "Interval", "The rest", "Adjusted p", "Verdict")


def subgroup_section(subgroups: Subgroups, resampling: Resampling, *, brief: bool = False) -> Html:
    """List the groups of each dimension with their recall, and flag those that fare worse than the rest.

    `brief` counts groups of few patients instead of listing them.
    """
    dimensions = list(dict.fromkeys(group.dimension for group in subgroups.groups))
    found = {name: [g for g in subgroups.groups if g.dimension == name] for name in dimensions}
    tables = [_table(dimension, groups, brief=brief) for dimension, groups in found.items()]
    left_out = [element("p", f"{dimension}: {why}") for dimension, why in subgroups.without.items()]
    flag = "flag" if any(group.worse for group in subgroups.groups) else None
    said = [element("p", _meaning(resampling)), element("p", verdict(subgroups.groups), class_=flag)]
    return section("subgroups", "Subgroups", *said, *tables, *left_out)


def _table(dimension: str, groups: Sequence[Subgroup], *, brief: bool) -> Html:
    shown = [group for group in groups if group.patients >= MIN_PATIENTS or not brief]
    left_out = len(groups) - len(shown)
    note = f"{left_out} groups of fewer than {MIN_PATIENTS} patients each are not listed here." if left_out else ""
    if not shown:
        return element("p", f"{dimension}: {note}")
    return data_table(f"{dimension}.", _HEADER, [_row(group) for group in shown], note=note)


def _meaning(resampling: Resampling) -> str:
    text = "Hidden: the share of gold annotations of which no letter or digit leaks."
    if not resampling.resamples:
        return f"{text} No intervals were made and nothing was tested (--resamples 0)."
    return (
        f"{text} Each group is compared with all other annotations by a cluster-robust score test (signs of the "
        f"patients' contributions drawn at random, {resampling.resamples:,} times; one-sided). P values are adjusted "
        f"for the number of groups (Holm); a group is worse than the rest where that is at most {LEVEL:g}. Groups of "
        f"fewer than {MIN_PATIENTS} patients are not tested, and with few patients even a large difference is not "
        "beyond chance; the absence of a flag does not prove equal treatment."
    )


def verdict(groups: Sequence[Subgroup]) -> str:
    """Say which groups are worse than the rest, and of how many nothing can be said."""
    worse = [f"{group.dimension}: {group.name}" for group in groups if group.worse]
    tested = sum(group.holm_p is not None for group in groups)
    small = sum(group.holm_p is None and group.patients < MIN_PATIENTS for group in groups)
    silent = f" Nothing is said of groups of fewer than {MIN_PATIENTS} patients ({small})." if small else ""
    if worse:
        return f"Worse than the rest beyond chance: {'; '.join(worse)}.{silent}"
    if not tested:
        return f"No group was tested.{silent}"
    return f"None of the {tested} groups tested is worse than the rest beyond chance.{silent}"


def _row(group: Subgroup) -> tuple[str | Html, ...]:
    verdict = "not tested" if group.holm_p is None else "worse" if group.worse else "not beyond chance"
    return (
        group.name,
        f"{group.annotations:,}",
        f"{group.patients:,}",
        percent(group.recall.value),
        interval_in_percent(group.recall),
        percent(group.rest),
        "" if group.holm_p is None else f"{group.holm_p:.4f}",
        element("td", verdict, class_="text flag" if group.worse else "text"),
    )


def interval_in_percent(estimate: Estimate) -> str:
    """Return "low to high", or nothing where there is no interval."""
    interval = estimate.interval
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"{percent(interval.low)} to {percent(interval.high)}"


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


def _estimate_cell(estimate: Estimate) -> Html:
    interval = interval_text(estimate.interval).strip()
    return element("td", figure(estimate.value), element("small", interval) if interval else None)
