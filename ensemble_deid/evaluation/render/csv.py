"""The results as one long table for data frames, one figure per line; keys and units are in docs/evaluation.md."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ensemble_deid.evaluation.agreement import Agreement
from ensemble_deid.evaluation.bootstrap import Interval
from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.compare import Comparison
from ensemble_deid.evaluation.curve import OperatingPoint
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.leaks import LabelLeaks
from ensemble_deid.evaluation.official.rows import OfficialScores, to_official_json
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.scores import Score

COLUMNS: tuple[str, ...] = ("section", "view", "part", "name", "figure", "value", "low", "high")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure; `value` None is undefined, `low` and `high` are the ends of its interval where it has one."""

    section: str
    view: str
    part: str
    name: str
    figure: str
    value: float | None
    interval: Interval | None = None


def evaluation_to_csv(
    evaluation: Evaluation, *, official: OfficialScores | None = None, operating: OperatingPoints | None = None
) -> str:
    """Return an evaluation as CSV, with the official rows and operating points where there are any."""
    lines = [*_scores(evaluation.scores), *_macros(evaluation), *_leaks(evaluation)]
    for rates in evaluation.token_rates:
        for figure, rate in (("fn_per_1000", rates.false_negatives), ("fp_per_1000", rates.false_positives)):
            lines.append(Line("scores", rates.view, "total", "all", figure, rate.value, rate.interval))
    near = evaluation.missed_beside_right
    for figure, count in (("missed_tokens", near.total), ("missed_beside_right", near.count)):
        lines.append(Line("scores", "token-binary", "total", "all", figure, count))
    if operating is not None:
        lines += _operating(operating)
    if official is not None:
        for row, figures in to_official_json(official).items():
            lines += [Line("official", official.scheme, "row", row, *figure) for figure in figures.items()]
    return _write(lines)


def comparison_to_csv(comparison: Comparison) -> str:
    """Return a comparison as CSV; `value` and its interval are A minus B."""
    lines: list[Line] = []
    for view, differences in comparison.differences.items():
        for d in differences:
            lines += [
                Line("compare", view, "total", "all", f"{d.measure}_a", d.a),
                Line("compare", view, "total", "all", f"{d.measure}_b", d.b),
                Line("compare", view, "total", "all", f"{d.measure}_difference", d.difference, d.interval),
                Line("compare", view, "total", "all", f"{d.measure}_p", d.p_value),
            ]
    for row in comparison.by_label:
        d = row.difference
        lines += [
            Line("compare", "strict", "label", row.label, "f1_a", d.a),
            Line("compare", "strict", "label", row.label, "f1_b", d.b),
            Line("compare", "strict", "label", row.label, "f1_difference", d.difference, d.interval),
            Line("compare", "strict", "label", row.label, "f1_p", d.p_value),
            Line("compare", "strict", "label", row.label, "f1_holm_p", row.holm_p),
        ]
    return _write(lines)


def agreement_to_csv(agreement: Agreement) -> str:
    """Return annotators' agreement as CSV."""
    lines = list(_scores(agreement.scores))
    for kappa in agreement.kappas:
        for figure, value in (("observed", kappa.observed), ("expected", kappa.expected)):
            lines.append(Line("kappa", "token", "total", kappa.naming, figure, value))
        lines.append(Line("kappa", "token", "total", kappa.naming, "kappa", kappa.kappa.value, kappa.kappa.interval))
    return _write(lines)


def _write(lines: Iterable[Line]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        low, high = (None, None) if line.interval is None else (line.interval.low, line.interval.high)
        writer.writerow([line.section, line.view, line.part, line.name, line.figure, line.value, low, high])
    return stream.getvalue()


def _scores(scores: Iterable[Score]) -> Iterator[Line]:
    for score in scores:
        place = ("scores", score.view, score.part, score.name)
        yield Line(*place, "tp", score.counts.tp)
        yield Line(*place, "fp", score.counts.fp)
        yield Line(*place, "fn", score.counts.fn)
        for figure, estimate in (("precision", score.precision), ("recall", score.recall), ("f1", score.f1)):
            yield Line(*place, figure, estimate.value, estimate.interval)


def _macros(evaluation: Evaluation) -> Iterator[Line]:
    for score in evaluation.macro:
        for figure, macro in (("precision", score.precision), ("recall", score.recall), ("f1", score.f1)):
            yield Line("macro", score.view, "total", "all", f"{figure}_mean", macro.mean)
            yield Line("macro", score.view, "total", "all", f"{figure}_sd", macro.sd)
            yield Line("macro", score.view, "total", "all", f"{figure}_documents", macro.documents)


def _leaks(evaluation: Evaluation) -> Iterator[Line]:
    leaks, intervals = evaluation.leaks, evaluation.leak_intervals
    of_all = {
        "annotations_share": intervals.phi.interval,
        "notes_share": intervals.notes.interval,
        "characters_share": intervals.characters.interval,
    }
    for figure, value in _label_leaks(leaks.total):
        yield Line("leaks", "leak", "total", "all", figure, value, of_all.get(figure))
    for figure, value in (*_share("missed_whole", leaks.missed_whole), *_share("characters", leaks.characters)):
        # Characters are no independent trials, so they have no bound.
        if figure != "characters_upper_95":
            yield Line("leaks", "leak", "total", "all", figure, value, of_all.get(figure))
    for label, row in leaks.by_label.items():
        for figure, value in _label_leaks(row):
            yield Line("leaks", "leak", "label", label, figure, value)
    for errors in leaks.by_errors:
        yield Line("leaks", "leak", "errors per note", str(errors.errors), "notes", errors.notes)
        yield Line("leaks", "leak", "errors per note", str(errors.errors), "coverage", errors.coverage)
    for kind in leaks.by_kind:
        yield Line("leaks", "leak", "note kind", kind.kind or "", "missed", kind.missed)
        yield Line("leaks", "leak", "note kind", kind.kind or "", "annotations", kind.phi)
        for figure, value in _share("notes", kind.notes):
            yield Line("leaks", "leak", "note kind", kind.kind or "", figure, value)


def _label_leaks(leaks: LabelLeaks) -> Iterator[tuple[str, float | None]]:
    yield from _share("annotations", leaks.phi)
    yield from _share("notes", leaks.notes)
    yield from _share("patients", leaks.patients)


def _share(name: str, share: Share) -> Iterator[tuple[str, float | None]]:
    yield f"{name}_count", share.count
    yield f"{name}_total", share.total
    yield f"{name}_share", share.share
    yield f"{name}_upper_95", share.upper


def _operating(operating: OperatingPoints) -> Iterator[Line]:
    part = "oracle threshold" if operating.oracle else "threshold"
    named: list[tuple[str, OperatingPoint | None]] = [
        ("as it is", operating.as_it_is),
        ("recall at precision", operating.recall_at_precision.reported),
    ]
    named += [(f"sensitivity {p.chosen.wanted}", p.point) for p in operating.sensitivities]
    for name, point in named:
        if point is None:
            yield Line("operating points", operating.view, part, name, "threshold", None)
            continue
        counts = point.counts
        for figure, value in (
            ("threshold", point.threshold),
            ("precision", counts.precision),
            ("recall", counts.recall),
            ("f1", counts.f1),
            ("fn_per_1000", point.fn_per_1000),
            ("fp_per_1000", point.fp_per_1000),
        ):
            yield Line("operating points", operating.view, part, name, figure, value)
