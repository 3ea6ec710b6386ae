"""The report's section on groups of annotations: is PHI hidden as well in each of them as in the rest?"""

from collections.abc import Sequence

from ensemble_deid.evaluation.render.figures import percent
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, section
from ensemble_deid.evaluation.scores import Estimate, Resampling
from ensemble_deid.evaluation.subgroups import LEVEL, MIN_PATIENTS, Subgroup, Subgroups

_HEADER = ("Group", "Annotations", "Patients", "Hidden", "Interval", "The rest", "Adjusted p", "Verdict")


def subgroup_section(subgroups: Subgroups, resampling: Resampling, *, brief: bool = False) -> Html:
    """List the groups of each dimension with their recall, and flag those that fare worse than the rest.

    `brief` counts groups of few patients instead of listing them.
    """
    dimensions = list(dict.fromkeys(group.dimension for group in subgroups.groups))
    tables = [
        _table(dimension, [g for g in subgroups.groups if g.dimension == dimension], brief=brief)
        for dimension in dimensions
    ]
    left_out = [element("p", f"{dimension}: {why}") for dimension, why in subgroups.without.items()]
    return section(
        "subgroups", "Subgroups", element("p", _meaning(resampling)), _verdict(subgroups.groups), *tables, *left_out
    )


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
        "beyond chance: no flag is no proof of equal treatment."
    )


def _verdict(groups: Sequence[Subgroup]) -> Html:
    worse = [f"{group.dimension}: {group.name}" for group in groups if group.worse]
    if worse:
        return element("p", element("strong", f"Worse than the rest beyond chance: {'; '.join(worse)}."), class_="flag")
    tested = sum(group.holm_p is not None for group in groups)
    return element("p", f"None of the {tested} groups tested is worse than the rest beyond chance.")


def _row(group: Subgroup) -> tuple[str | Html, ...]:
    verdict = "not tested" if group.holm_p is None else "worse" if group.worse else "not beyond chance"
    return (
        group.name,
        f"{group.annotations:,}",
        f"{group.patients:,}",
        percent(group.recall.value),
        _interval(group.recall),
        percent(group.rest),
        "" if group.holm_p is None else f"{group.holm_p:.4f}",
        element("td", verdict, class_="text flag" if group.worse else "text"),
    )


def _interval(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"{percent(interval.low)} to {percent(interval.high)}"
