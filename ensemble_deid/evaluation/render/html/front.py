"""The report's first pages: the record for those who decide on a system's use, the summary, and what leaks."""

from collections.abc import Sequence

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.error_list import ErrorList
from ensemble_deid.evaluation.evaluate import Estimate, Evaluation
from ensemble_deid.evaluation.leaks import LeakView
from ensemble_deid.evaluation.render.figures import (
    ROWS_OVERLAP,
    interval_text,
    missed_per_note_rows,
    notes_text,
    resampling_text,
    side_text,
    site_lines,
)
from ensemble_deid.evaluation.render.html.labels import interval_in_percent, score_row, verdict
from ensemble_deid.evaluation.render.html.markup import Html, data_table, element, named, section
from ensemble_deid.evaluation.subgroups import Subgroups
from ensemble_deid.evaluation.views import VIEWS
from ensemble_deid.note.digits import figure, percent

_SIGNATURES = 3


def front_section(facts: Sequence[tuple[str, str]], evaluation: Evaluation, subgroups: Subgroups) -> Html:
    """Put on one page the record of what was scored, what leaks, which groups fare worse, and lines to sign on."""
    worse = any(group.worse for group in subgroups.groups)
    return section(
        "front",
        "Record",
        data_table("What was scored.", ("", ""), facts, words=2),
        _leaks(evaluation),
        *(element("p", line) for line in site_lines(evaluation)),
        element("p", f"Groups of annotations: {verdict(subgroups.groups)}", class_="flag" if worse else None),
        _sign_off(),
    )


def _leaks(evaluation: Evaluation) -> Html:
    intervals = {"Notes with a leak": interval_in_percent(evaluation.leak_intervals.notes)}
    rows = [(name, *cells, intervals.get(name, "")) for name, *cells in _rows(evaluation.leaks)]
    note = (
        "A leak: a letter or digit of PHI that the system does not cover. Direct identifiers name somebody by "
        "themselves: names, addresses, numbers. The rows overlap, and do not add up. At most: exact one-sided 95% "
        "upper bound, as if each were independent, which patients are. Interval: bootstrap over patients."
    )
    return data_table("Leak rates.", ("Unit", "With a leak", "All", "Rate", "At most", "Interval"), rows, note=note)


def _rows(view: LeakView) -> list[tuple[str, ...]]:
    return [
        ("Notes with a direct identifier left", *_cells(view.direct.notes)),
        ("Patients with a direct identifier left", *_cells(view.direct.patients)),
        ("Notes with a leak", *_cells(view.total.notes)),
        ("Patients with a leak", *_cells(view.total.patients)),
        ("Annotations with a leak", *_cells(view.total.phi)),
    ]


def _sign_off() -> Html:
    columns = ("Name and role", "Decision", "Date", "Signature")
    head = element("tr", *(element("th", name, scope="col") for name in columns))
    body = element("tbody", *[element("tr", *[element("td", "")] * len(columns))] * _SIGNATURES)
    caption = element("caption", element("strong", "Sign-off."))
    return element("table", caption, element("thead", head), body, class_="sign")


_UNITS = {"entity": "annotations", "token": "tokens in annotations"}


def summary_section(evaluation: Evaluation, errors: ErrorList) -> Html:
    """The first look: what was scored, the figures that matter most, all views, and the misses in every unit."""
    sides = [side_text(name, stats) for name, stats in (("Gold", evaluation.gold), ("System", evaluation.system))]
    chosen = [] if evaluation.labels is None else [element("p", f"Only the labels {', '.join(evaluation.labels)}.")]
    return section(
        "summary",
        "Summary",
        element("p", f"{notes_text(evaluation)}, {evaluation.tokens:,} tokens. {'. '.join(sides)}."),
        *chosen,
        element("div", *_tiles(evaluation), class_="tiles"),
        data_table(
            "Views of the same annotations",
            ("View", "Precision", "Recall", "F1", "TP", "FP", "FN"),
            [
                score_row(
                    view.name,
                    evaluation.score(view.name),
                    definition=f"{_UNITS[view.unit]}; {view.definition.removeprefix('tagged token: ')}",
                )
                for view in VIEWS.values()
            ],
            note="TP, FP and FN count the unit of their row: what matches, what the system alone gives, and what gold "
            f"alone has. {resampling_text(evaluation.resampling)}",
        ),
        _missed(evaluation, errors),
    )


def _tiles(evaluation: Evaluation) -> list[Html]:
    strict, tokens = evaluation.score(), evaluation.score("token-binary")
    leaks = evaluation.leaks.total
    missed = {rates.view: rates.false_negatives for rates in evaluation.token_rates}["token-binary"]
    return [
        _estimate_tile("Entities: strict F1", strict.f1, "annotations with the same start, end and type"),
        _estimate_tile(
            "PHI tokens found", tokens.recall, "sensitivity: tokens in gold annotations that are tagged, as any type"
        ),
        _estimate_tile(
            "PHI tokens missed per 1000", missed, "those not tagged, for every 1000 tokens of the notes", digits=2
        ),
        _share_tile("Notes with a leak", leaks.notes, "a letter or digit of PHI that no annotation covers"),
        _share_tile("Patients with a leak", leaks.patients, "a leak in any of their notes"),
    ]


def _missed(evaluation: Evaluation, errors: ErrorList) -> Html:
    strict, tokens, leaks = evaluation.score().counts, evaluation.score("token-binary").counts, evaluation.leaks
    rows: list[tuple[str, str, Share]] = [
        (
            "Annotations without an exact match",
            "no annotation of the system has the same start, end and type: FN of the view strict",
            Share(strict.fn, strict.gold),
        ),
        (
            "Annotations without a counterpart",
            "not even a wrong label or boundary is given for it: “missed” in the list of errors",
            Share(len(errors.of_kind("missed")), strict.gold),
        ),
        (
            "Annotations with a leak",
            "at least one letter or digit is covered by no annotation of the system",
            leaks.total.phi,
        ),
        ("Annotations that leak entirely", "no letter or digit is covered", leaks.missed_whole),
        (
            "PHI tokens",
            "not tagged, or only in part, whatever the type: FN of the view token-binary",
            Share(tokens.fn, tokens.gold),
        ),
        ("Letters and digits", "of gold annotations, covered by no annotation of the system", leaks.characters),
    ]
    cells = [
        (named(name, meaning), f"{share.count:,}", f"{share.total:,}", percent(share.share))
        for name, meaning, share in rows
    ]
    note = "The same misses counted in different units and by different definitions, so the figures differ."
    return data_table("Missed, unit by unit.", ("Unit and definition", "Missed", "In gold", "Share"), cells, note=note)


def _estimate_tile(name: str, estimate: Estimate, definition: str, *, digits: int = 4) -> Html:
    ends = estimate.interval
    interval = interval_text(ends, digits).strip()
    if interval and ends is not None and ends.level == 0.95:
        interval = f"95% CI {interval}"
    return _tile(name, figure(estimate.value, digits), interval, definition)


def _share_tile(name: str, share: Share, definition: str) -> Html:
    bound = f", at most {percent(share.upper)}" if share.upper is not None else ""
    return _tile(name, percent(share.share), f"{_of(share)}{bound}", definition)


def _tile(name: str, value: str, beside: str, definition: str) -> Html:
    return element(
        "div",
        element("span", name, class_="soft"),
        element("b", value),
        element("span", beside, class_="soft"),
        element("span", definition, class_="soft meaning"),
        class_="tile",
    )


_LEAK = (
    "An annotation leaks when at least one of its letters or digits does, and leaks entirely when all of them do. "
    "At most: the exact one-sided 95% upper bound of the rate, as if each were independent, which patients are."
)


def leak_section(evaluation: Evaluation, *, brief: bool = False) -> Html:
    """Say what leaks: at all, by label and, unless `brief`, by errors in a note and kind of note."""
    view = evaluation.leaks
    characters = view.characters
    line = (
        f"{characters.count:,} of {characters.total:,} letters and digits of PHI leak "
        f"({percent(characters.share)}). A letter or digit leaks when no annotation of the system covers it, "
        "whatever its label."
    )
    overall = [*_rows(view), ("Annotations that leak entirely", *_cells(view.missed_whole))]
    return section(
        "leaks",
        "Leaks",
        element("p", line),
        data_table("Leaks overall.", ("Unit", "With a leak", "All", "Share", "At most"), overall, note=_LEAK),
        _by_label(view),
        _by_errors(view) if view.by_errors and not brief else None,
        _by_kind(view) if view.by_kind and not brief else None,
    )


def _by_label(view: LeakView) -> Html:
    header = (
        *("Label", "Annotations with a leak", "Annotations", "Share", "At most"),
        *("Notes with a leak", "Patients with a leak", "At most"),
    )
    rows = [
        (label, *_cells(row.phi), _of(row.notes), _of(row.patients), percent(row.patients.upper))
        for label, row in view.by_label.items()
    ]
    return data_table("Leaks by label.", header, rows, note=f"{ROWS_OVERLAP[0].upper()}{ROWS_OVERLAP[1:]}.")


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
