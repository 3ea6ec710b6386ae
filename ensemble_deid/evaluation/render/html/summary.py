"""The report's first section: what was scored, the figures that matter most, all views, and what is missed."""

from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.error_list import ErrorList
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.render.figures import (
    figure,
    interval_text,
    notes_text,
    percent,
    resampling_text,
    side_text,
)
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, named, score_row, section
from ensemble_deid.evaluation.scores import Estimate
from ensemble_deid.evaluation.views import VIEWS, View

_UNITS = {"entity": "annotations", "token": "tokens in annotations"}


def summary_section(evaluation: Evaluation, errors: ErrorList) -> Html:
    """The first look: what was scored, the figures that matter most, all views, and the misses in every unit."""
    sides = [side_text(name, stats) for name, stats in (("Gold", evaluation.gold), ("System", evaluation.system))]
    chosen = [] if evaluation.labels is None else [element("p", f"Only the labels {', '.join(evaluation.labels)}.")]
    return section(
        "summary",
        "Summary",
        element(
            "p",
            f"{notes_text(evaluation)}, {evaluation.tokens:,} tokens. ",
            ". ".join(sides),
            ".",
        ),
        *chosen,
        element("div", *_tiles(evaluation), class_="tiles"),
        data_table(
            "Views of the same annotations",
            ("View", "Precision", "Recall", "F1", "TP", "FP", "FN"),
            [
                score_row(view.name, evaluation.score(view.name), definition=_definition(view))
                for view in VIEWS.values()
            ],
            note="TP, FP and FN count the unit of their row: what matches, what the system alone gives, and what gold "
            f"alone has. {resampling_text(evaluation.resampling)}",
        ),
        _missed(evaluation, errors),
    )


def _definition(view: View) -> str:
    return f"{_UNITS[view.unit]}; {view.definition.removeprefix('tagged token: ')}"


def _tiles(evaluation: Evaluation) -> list[Html]:
    strict, tokens = evaluation.score(), evaluation.score("token-binary")
    leaks = evaluation.leaks.total
    missed = {rates.view: rates.false_negatives for rates in evaluation.token_rates}["token-binary"]
    return [
        _tile("Entities: strict F1", strict.f1, "annotations with the same start, end and type"),
        _tile(
            "PHI tokens found", tokens.recall, "sensitivity: tokens in gold annotations that are tagged, as any type"
        ),
        _tile("PHI tokens missed per 1000", missed, "those not tagged, for every 1000 tokens of the notes", digits=2),
        _share_tile("Notes with a leak", leaks.notes, "a letter or digit of PHI that no annotation covers"),
        _share_tile("Patients with a leak", leaks.patients, "a leak in any of their notes"),
    ]


def _missed(evaluation: Evaluation, errors: ErrorList) -> Html:
    """Put the figures of what is missed side by side, each with its unit and definition."""
    strict, tokens, leaks = evaluation.score().counts, evaluation.score("token-binary").counts, evaluation.leaks
    alone = Share(len(errors.of_kind("missed")), strict.gold)
    rows: list[tuple[str, str, Share]] = [
        (
            "Annotations without an exact match",
            "no annotation of the system has the same start, end and type: FN of the view strict",
            Share(strict.fn, strict.gold),
        ),
        (
            "Annotations without a counterpart",
            "not even a wrong label or boundary is given for it: “missed” in the list of errors",
            alone,
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


def _tile(name: str, estimate: Estimate, definition: str, *, digits: int = 4) -> Html:
    interval = interval_text(estimate.interval, digits).strip()
    return element(
        "div",
        element("span", name, class_="soft"),
        element("b", figure(estimate.value, digits)),
        element("span", f"95% CI {interval}" if interval and _is_95(estimate) else interval, class_="soft"),
        element("span", definition, class_="soft meaning"),
        class_="tile",
    )


def _is_95(estimate: Estimate) -> bool:
    return estimate.interval is not None and estimate.interval.level == 0.95


def _share_tile(name: str, share: Share, definition: str) -> Html:
    bound = f", at most {percent(share.upper)}" if share.upper is not None else ""
    return element(
        "div",
        element("span", name, class_="soft"),
        element("b", percent(share.share)),
        element("span", f"{share.count:,} of {share.total:,}{bound}", class_="soft"),
        element("span", definition, class_="soft meaning"),
        class_="tile",
    )
