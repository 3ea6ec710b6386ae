"""The report's first section: what was scored, the figures that matter most, all views, and what is missed."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.error_list import ErrorKind, ErrorList
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.evaluation.render.figures import interval_text, notes_text, resampling_text, side_text
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, named, score_row, section
from ensemble_deid.evaluation.scores import Estimate
from ensemble_deid.evaluation.views import VIEWS, View
from ensemble_deid.note.digits import figure, percent

# The report's most frequent missed and spurious words.


MOST_WORDS = 25
"""Lines of each table."""


def words_section(errors: ErrorList, pairs: Mapping[str, Pair]) -> Html:
    """List the words that are most often missed or spurious, with their labels and in how many notes."""
    kinds: tuple[ErrorKind, ...] = ("missed", "spurious")
    tables = [
        data_table(
            f"Most frequent {kind} words.",
            ("Words", "Label", "Annotations", "Notes"),
            rows,
            words=2,
            note=f"The annotations that the list of errors calls {kind}, by their text.",
        )
        for kind in kinds
        if (rows := _rows(errors, pairs, kind))
    ]
    nothing = element("p", "Nothing is missed or spurious.")
    return section("words", "Missed and spurious words", *(tables or [nothing]))


def _rows(errors: ErrorList, pairs: Mapping[str, Pair], kind: ErrorKind) -> list[tuple[str, ...]]:
    times: Counter[tuple[str, str]] = Counter()
    notes: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for error in errors.of_kind(kind):
        span = error.gold or error.system
        if span is None:
            continue
        words = " ".join(pairs[error.document_id].gold.text[span.start : span.end].split())
        times[words, span.label] += 1
        notes[words, span.label].add(error.document_id)
    most = sorted(times.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS]
    return [(words, label, f"{n:,}", f"{len(notes[words, label]):,}") for (words, label), n in most]


# How to read the report: definitions and keys.


_TERMS: tuple[tuple[str, str], ...] = (
    ("Precision (PPV)", "of what the system gave, the share that is right"),
    ("Recall (sensitivity)", "of what is gold, the share that the system found"),
    ("F1", "2 TP / (2 TP + FP + FN)"),
    ("Undefined", "there was nothing to divide by; it is neither 0 nor 1"),
    ("Interval", "from resampling patients with all their notes, because one patient's annotations are alike"),
    ("Missed", "depends on the unit: see “Missed, unit by unit” in the summary, which defines each figure"),
    ("Leak", "a letter or digit of gold PHI that no annotation of the system covers, whatever its label"),
    ("At most", "a rate this high would show as few leaks, or fewer, in one sample of twenty (Clopper-Pearson)"),
    ("Score", "the system's confidence in an annotation, from 0 to 1"),
)


def guide() -> Html:
    """Define what stands on the page, and name the keys."""
    views = [(view.name, view.definition) for view in VIEWS.values()]
    items = [part for term, meaning in (*_TERMS, *views) for part in (element("dt", term), element("dd", meaning))]
    return section(
        "guide",
        "How to read this page",
        element("dl", *items),
        element(
            "p",
            "Keys: ",
            element("kbd", "j"),
            " and ",
            element("kbd", "k"),
            " go to the next and the previous error, ",
            element("kbd", "Esc"),
            " closes a note.",
            class_="soft screen",
        ),
    )


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
