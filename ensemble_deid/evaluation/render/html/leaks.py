"""The report's section on what a reader could still see."""

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.leaks import LeakView
from ensemble_deid.evaluation.render.figures import missed_per_note_rows
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, section
from ensemble_deid.note.digits import percent

_LEAK = (
    "An annotation leaks when at least one of its letters or digits does, and leaks entirely when all of them do. "
    "At most: the exact one-sided 95% upper bound of the rate, as if each were independent, which patients are."
)


def leak_section(evaluation: Evaluation, *, brief: bool = False) -> Html:
    """Say what leaks at all, by label, by number of errors in a note and by kind of note; `brief` ends with labels."""
    view = evaluation.leaks
    characters = view.characters
    line = (
        f"{characters.count:,} of {characters.total:,} letters and digits of PHI leak "
        f"({percent(characters.share)}). A letter or digit leaks when no annotation of the system covers it, "
        "whatever its label."
    )
    return section(
        "leaks",
        "Leaks",
        element("p", line),
        _at_all(view),
        _by_label(view),
        _by_errors(view) if view.by_errors and not brief else None,
        _by_kind(view) if view.by_kind and not brief else None,
    )


def _at_all(view: LeakView) -> Html:
    rows = [
        ("Notes with a leak", *_cells(view.total.notes)),
        ("Patients with a leak", *_cells(view.total.patients)),
        ("Annotations with a leak", *_cells(view.total.phi)),
        ("Annotations that leak entirely", *_cells(view.missed_whole)),
    ]
    return data_table("Leaks overall.", ("Unit", "With a leak", "All", "Share", "At most"), rows, note=_LEAK)


def _by_label(view: LeakView) -> Html:
    header = (
        "Label",
        "Annotations with a leak",
        "Annotations",
        "Share",
        "At most",
        "Notes with a leak",
        "Patients with a leak",
        "At most",
    )
    rows = [
        (label, *_cells(row.phi), _of(row.notes), _of(row.patients), percent(row.patients.upper))
        for label, row in view.by_label.items()
    ]
    return data_table("Leaks by label", header, rows)


def _by_errors(view: LeakView) -> Html:
    header = ("Annotations with a leak in a note", "Notes", "Annotations", "Cumulative", "Coverage", "Labels per note")
    note = "Coverage: the recall if only the leaks of notes with more of them counted."
    return data_table("Annotations with a leak per note.", header, missed_per_note_rows(view), note=note)


def _by_kind(view: LeakView) -> Html:
    header = ("Kind", "Annotations with a leak", "Annotations", "Notes with a leak", "Notes", "Share", "At most")
    rows = [(row.kind or "(none)", f"{row.missed:,}", f"{row.phi:,}", *_cells(row.notes)) for row in view.by_kind]
    return data_table("Leaks by kind of note", header, rows)


def _cells(share: Share) -> tuple[str, str, str, str]:
    return (f"{share.count:,}", f"{share.total:,}", percent(share.share), percent(share.upper))


def _of(share: Share) -> str:
    return f"{share.count:,} of {share.total:,}"
