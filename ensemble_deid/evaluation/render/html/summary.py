"""The report's first section: what was scored, the figures that matter most, and all views."""

from ensemble_deid.evaluation.bounds import Share
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
from ensemble_deid.evaluation.render.html.tables import data_table, score_row, section
from ensemble_deid.evaluation.scores import Estimate
from ensemble_deid.evaluation.views import VIEWS


def summary_section(evaluation: Evaluation) -> Html:
    """The first look: what was scored, the figures that matter most, and all views."""
    strict, tokens = evaluation.score(), evaluation.score("token-binary")
    leaks = evaluation.leaks.total
    missed = {rates.view: rates.false_negatives for rates in evaluation.token_rates}["token-binary"]
    tiles = [
        _tile("Entities found and right (strict F1)", strict.f1),
        _tile("PHI tokens found (sensitivity)", tokens.recall),
        _tile("PHI tokens missed per 1000 tokens", missed, digits=2),
        _share_tile("Notes with a leak", leaks.notes),
        _share_tile("Patients with a leak", leaks.patients),
    ]
    rows = [score_row(view, evaluation.score(view), definition=VIEWS[view].definition) for view in VIEWS]
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
        element("div", *tiles, class_="tiles"),
        data_table(
            "Views of the same annotations",
            ("View", "Precision", "Recall", "F1", "TP", "FP", "FN"),
            rows,
            note=resampling_text(evaluation.resampling),
        ),
    )


def _tile(name: str, estimate: Estimate, *, digits: int = 4) -> Html:
    interval = interval_text(estimate.interval, digits).strip()
    return element(
        "div",
        element("span", name, class_="soft"),
        element("b", figure(estimate.value, digits)),
        element("span", f"95% CI {interval}" if interval and _is_95(estimate) else interval, class_="soft"),
        class_="tile",
    )


def _is_95(estimate: Estimate) -> bool:
    return estimate.interval is not None and estimate.interval.level == 0.95


def _share_tile(name: str, share: Share) -> Html:
    bound = f", at most {percent(share.upper)}" if share.upper is not None else ""
    return element(
        "div",
        element("span", name, class_="soft"),
        element("b", percent(share.share)),
        element("span", f"{share.count:,} of {share.total:,}{bound}", class_="soft"),
        class_="tile",
    )
