"""The report's sections of figures: summary, labels and the confusion of labels."""

from collections.abc import Mapping, Sequence

from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.error_list import ErrorList
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.report.charts import bar
from ensemble_deid.evaluation.report.leaks import percent
from ensemble_deid.evaluation.report.markup import Html, element, join
from ensemble_deid.evaluation.report.tables import breakable, data_table, scroll, section
from ensemble_deid.evaluation.scores import Estimate, Score
from ensemble_deid.evaluation.text_table import figure, interval_text, resampling_text
from ensemble_deid.evaluation.to_text import notes_text, side_text
from ensemble_deid.evaluation.views import VIEWS

NONE = "∅"


def summary(evaluation: Evaluation) -> Html:
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
    rows = [_score_row(view, evaluation.score(view), definition=VIEWS[view].definition) for view in VIEWS]
    sides = [side_text(name, facts) for name, facts in (("Gold", evaluation.gold), ("System", evaluation.system))]
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


def labels(evaluation: Evaluation) -> Html:
    """Strict figures of each label, category and subset, with bars."""
    parts = (("label", "By label"), ("category", "By category"), ("subset", "HIPAA and the groups A-D"))
    tables = [
        data_table(
            title,
            (part.capitalize(), "F1 as a bar", "Precision", "Recall", "F1", "TP", "FP", "FN"),
            [_score_row(s.name, s, with_bar=True) for s in evaluation.scores if (s.view, s.part) == ("strict", part)],
        )
        for part, title in parts
    ]
    return section("labels", "Labels (strict)", *tables)


def confusion(errors: ErrorList) -> Html:
    """Which label is taken for which, among annotations at one place or overlapping."""
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
        element("caption", f"Annotations by gold and system label; {NONE}: nothing on that side."),
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


def _score_row(name: str, score: Score, *, definition: str = "", with_bar: bool = False) -> tuple[str | Html, ...]:
    first = join([name, element("small", definition, class_="soft", style="display:block;font-weight:400")])
    bars = [element("td", bar(score.f1, name=f"F1 of {name}"), class_="drawn")] if with_bar else []
    return (
        first if definition else name,
        *bars,
        *(_estimate_cell(estimate) for estimate in (score.precision, score.recall, score.f1)),
        *(f"{count:,}" for count in (score.counts.tp, score.counts.fp, score.counts.fn)),
    )


def _estimate_cell(estimate: Estimate) -> Html:
    interval = interval_text(estimate.interval).strip()
    return element("td", figure(estimate.value), element("small", interval) if interval else None)


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
