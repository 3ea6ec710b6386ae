"""The report's first page, for those who decide on a system's use: what was scored, the leak rates, and who signs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, section
from ensemble_deid.evaluation.subgroups import Subgroups
from ensemble_deid.note.digits import percent

_SIGNATURES = 3


@dataclass(frozen=True, slots=True)
class FrontPage:
    """What the first page records of the system and the notes: names and what is said of them, in order."""

    facts: tuple[tuple[str, str], ...]


def front_section(front: FrontPage, evaluation: Evaluation, subgroups: Subgroups) -> Html:
    """Put on one page the record of what was scored, what leaks, which groups fare worse, and lines to sign on."""
    worse = [f"{group.dimension}: {group.name}" for group in subgroups.groups if group.worse]
    groups = f"Worse than the rest beyond chance: {'; '.join(worse)}." if worse else "No group is worse beyond chance."
    return section(
        "front",
        "Record",
        data_table("What was scored.", ("", ""), front.facts, words=2),
        _leaks(evaluation),
        element("p", f"Groups of annotations (section Subgroups): {groups}", class_="flag" if worse else None),
        _sign_off(),
    )


def _leaks(evaluation: Evaluation) -> Html:
    leaks, intervals = evaluation.leaks, evaluation.leak_intervals
    notes = intervals.notes.interval
    bootstrap = ""
    if notes is not None and notes.low is not None and notes.high is not None:
        bootstrap = f"{percent(notes.low)} to {percent(notes.high)}"
    rows = [
        _row("Notes with a leak", leaks.total.notes, bootstrap),
        _row("Patients with a leak", leaks.total.patients, ""),
        _row("Annotations with a leak", leaks.total.phi, ""),
    ]
    note = (
        "A leak: a letter or digit of PHI that the system does not cover. At most: exact one-sided 95% upper bound, "
        "as if each were independent, which patients are. Interval: bootstrap over patients."
    )
    return data_table("Leak rates.", ("Unit", "With a leak", "All", "Rate", "At most", "Interval"), rows, note=note)


def _row(name: str, share: Share, interval: str) -> tuple[str, ...]:
    return (name, f"{share.count:,}", f"{share.total:,}", percent(share.share), percent(share.upper), interval)


def _sign_off() -> Html:
    rows: Sequence[Sequence[str]] = [("", "", "", "")] * _SIGNATURES
    head = element(
        "tr", *(element("th", name, scope="col") for name in ("Name and role", "Decision", "Date", "Signature"))
    )
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element(
        "table",
        element("caption", element("strong", "Sign-off.")),
        element("thead", head),
        element("tbody", *body),
        class_="sign",
    )
