"""The results as data: one tree that JSON holds whole, and CSV a figure a line; docs/evaluation.md has keys and units.

Undefined is null, and empty in CSV. No key holds note text or note ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ensemble_deid.evaluation.bootstrap import PairedDifference, Share
from ensemble_deid.evaluation.compare import Agreement, Comparison
from ensemble_deid.evaluation.curve import OperatingPoint, spread
from ensemble_deid.evaluation.evaluate import Estimate, Evaluation, Macro
from ensemble_deid.evaluation.leaks import LeakView
from ensemble_deid.evaluation.official import OfficialScores, to_official_json
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.results import csv_text
from ensemble_deid.note.counts import Counts

Json = dict[str, Any]
CURVE_POINTS = 1000
"""A longer curve is given by so many of its points, evenly spread, the first and the last among them."""
COLUMNS = ("section", "view", "part", "name", "figure", "value", "low", "high")
_NAMES = {"phi": "annotations", "found": "found_by", "false_negatives": "fn_per_1000", "false_positives": "fp_per_1000"}


def evaluation_data(
    evaluation: Evaluation, *, official: OfficialScores | None = None, operating: OperatingPoints | None = None
) -> Json:
    near = evaluation.missed_beside_right
    data: Json = {
        "documents": evaluation.documents,
        "patients": evaluation.patients,
        "notes_without_patient": evaluation.without_patient,
        "tokens": evaluation.tokens,
        "labels": plain(evaluation.labels),
        "resampling": {**plain(evaluation.resampling), "unit": "patient"},
        "gold": plain(evaluation.gold),
        "system": plain(evaluation.system),
        "scores": plain(evaluation.scores),
        "macro": plain(evaluation.macro),
        "token_rates": plain(evaluation.token_rates),
        "missed_tokens": {"missed": near.total, "beside_right": near.count},
        "by_site": None if evaluation.by_site is None else {"sites": evaluation.sites, **plain(evaluation.by_site)},
        "leaks": {**_leaks(evaluation.leaks), "intervals": plain(evaluation.leak_intervals)},
    }
    if operating is not None:
        data["operating_points"] = operating_data(operating)
    if official is not None:
        data["official"] = to_official_json(official)
        data["official_scheme"] = official.scheme
    return data


def operating_data(operating: OperatingPoints) -> Json:
    curve, recall = operating.curve, operating.recall_at_precision
    return {
        "view": operating.view,
        "oracle": operating.oracle,
        "as_it_is": plain(operating.as_it_is),
        "sensitivities": [
            {
                "sensitivity_wanted": reported.chosen.wanted,
                "reached_when_chosen": reported.chosen.threshold is not None,
                "oracle": reported.oracle,
                "at": plain(reported.point),
            }
            for reported in operating.sensitivities
        ],
        "recall_at_precision": {
            "precision_wanted": recall.precision,
            "adjusted": recall.adjusted,
            "oracle": recall.oracle,
            **plain(recall.reported),
        },
        "curve_thresholds": len(curve),
        "curve": [plain(curve.point(index)) for index in spread(len(curve), CURVE_POINTS)],
    }


def comparison_data(comparison: Comparison) -> Json:
    """Return a comparison; differences are A minus B."""
    return {
        **plain(comparison),
        "resampling": {**plain(comparison.resampling), "unit": "patient"},
        "differences": [
            {"view": view, **plain(difference), "holm_p": comparison.adjusted.get(f"{view} {difference.measure}")}
            for view, differences in comparison.differences.items()
            for difference in differences
        ],
        "by_label": [
            {"label": row.label, **plain(row.difference), "holm_p": row.holm_p} for row in comparison.by_label
        ],
    }


def agreement_data(agreement: Agreement) -> Json:
    return {
        **plain(agreement),
        "resampling": {**plain(agreement.resampling), "unit": "patient"},
        "kappas": [
            {
                **plain(kappa),
                "pairs": [{"a": a or None, "b": b or None, "tokens": tokens} for a, b, tokens in kappa.pairs],
            }
            for kappa in agreement.kappas
        ],
    }


def _leaks(leaks: LeakView) -> Json:
    characters = plain(leaks.characters)
    return {
        **plain(leaks.total),
        "direct": plain(leaks.direct),
        "annotations_missed_whole": plain(leaks.missed_whole),
        # Characters are no independent trials, so they have no bound.
        "characters": {name: characters[name] for name in ("count", "total", "share")},
        "by_label": plain(leaks.by_label),
        "by_errors": plain(leaks.by_errors),
        "by_kind": plain(leaks.by_kind),
    }


def plain(value: object) -> Any:
    """Return results as dicts, lists and numbers: counts, estimates and means are figures of what holds them."""
    if isinstance(value, Share):
        ends = {"upper_95": value.upper, "three_in_n": value.three_in_n}
        return {"count": value.count, "total": value.total, "share": value.share, **ends}
    if isinstance(value, OperatingPoint):
        counts = value.counts
        figures = {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1}
        rates = {"fn_per_1000": value.fn_per_1000, "fp_per_1000": value.fp_per_1000}
        return {"threshold": value.threshold, **_figures("", counts), **figures, **rates}
    if isinstance(value, PairedDifference):
        estimate = _figures("difference", Estimate(value.difference, value.interval))
        return {"measure": value.measure, "a": value.a, "b": value.b, **estimate, "p": value.p_value}
    if is_dataclass(value):
        content: Json = {}
        for field in fields(value):
            content |= _figures(_NAMES.get(field.name, field.name), getattr(value, field.name))
        return content
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _figures(name: str, value: object) -> Json:
    match value:
        case Counts(tp=tp, fp=fp, fn=fn):
            return {"tp": tp, "fp": fp, "fn": fn}
        case Estimate(value=figure, interval=interval):
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            return {name: figure, f"{name}_low": low, f"{name}_high": high}
        case Macro(mean=mean, sd=sd, documents=documents):
            return {f"{name}_mean": mean, f"{name}_sd": sd, f"{name}_documents": documents}
    return {name: plain(value)}


_PLACE = ("view", "part", "name", "naming", "label", "measure", "pairs")
_Line = tuple[str, str, str, str, str, Any, Any, Any]


def long_table(data: Json) -> str:
    """Return an evaluation, a comparison or an agreement as CSV; the first five columns tell a figure."""
    return csv_text([COLUMNS, *_lines(data)])


def _lines(data: Json) -> Iterator[_Line]:
    for row in (*data.get("scores", ()), *data.get("token_rates", ())):
        yield from _row("scores", row)
    for row in data.get("macro", ()):
        yield from _row("macro", row)
    if "missed_tokens" in data:
        near = {"missed_tokens": data["missed_tokens"]["missed"]}
        near["missed_beside_right"] = data["missed_tokens"]["beside_right"]
        yield from _row("scores", near, view="token-binary")
    yield from _leak_lines(data.get("leaks", {}))
    yield from _operating_lines(data.get("operating_points"))
    for name, row in data.get("official", {}).items():
        yield from _row("official", row, view=data["official_scheme"], part="row", name=name)
    for row in data.get("differences", ()):
        yield from _row("compare", row, prefix=f"{row['measure']}_")
    for row in data.get("by_label", ()):
        yield from _row("compare", row, view="strict", part="label", name=row["label"], prefix=f"{row['measure']}_")
    for row in data.get("kappas", ()):
        yield from _row("kappa", row, view="token", name=row["naming"])


def _row(
    section: str, row: Json, *, view: str = "", part: str = "total", name: str = "all", prefix: str = ""
) -> Iterator[_Line]:
    place = (section, row.get("view", view), row.get("part", part), row.get("name", name))
    for figure, value in row.items():
        of = figure.removesuffix("_low").removesuffix("_high")
        if figure not in _PLACE and (of == figure or of not in row):
            yield (*place, f"{prefix}{figure}", value, row.get(f"{figure}_low"), row.get(f"{figure}_high"))


def _leak_lines(leaks: Json) -> Iterator[_Line]:
    if not leaks:
        return
    ends = {
        f"{name}_share_{end}": leaks["intervals"][f"{name}_{end}"]
        for name in ("annotations", "notes", "characters")
        for end in ("low", "high")
    }
    whole = {"missed_whole": leaks["annotations_missed_whole"]}
    shares = {name: leaks[name] for name in ("annotations", "notes", "patients", "characters")}
    yield from _row("leaks", {**_share_figures(shares | whole), **ends}, view="leak")
    yield from _row("leaks", _share_figures(leaks["direct"]), view="leak", part="direct identifiers")
    for label, row in leaks["by_label"].items():
        yield from _row("leaks", _share_figures(row), view="leak", part="label", name=label)
    for row in leaks["by_errors"]:
        figures = {"notes": row["notes"], "coverage": row["coverage"]}
        yield from _row("leaks", figures, view="leak", part="errors per note", name=str(row["errors"]))
    for row in leaks["by_kind"]:
        figures = {
            "missed": row["missed"],
            "annotations": row["annotations"],
            **_share_figures({"notes": row["notes"]}),
        }
        yield from _row("leaks", figures, view="leak", part="note kind", name=row["kind"] or "")


def _share_figures(shares: Mapping[str, Json]) -> Json:
    return {
        f"{name}_{figure}": value
        for name, share in shares.items()
        for figure, value in share.items()
        if figure != "three_in_n"
    }


def _operating_lines(operating: Json | None) -> Iterator[_Line]:
    if operating is None:
        return
    part = "oracle threshold" if operating["oracle"] else "threshold"
    points = {"as it is": operating["as_it_is"], "recall at precision": operating["recall_at_precision"]}
    points |= {f"sensitivity {row['sensitivity_wanted']}": row["at"] for row in operating["sensitivities"]}
    for name, point in points.items():
        figures = {"threshold": None} if point is None else {key: point[key] for key in operating["as_it_is"]}
        yield from _row("operating points", figures, view=operating["view"], part=part, name=name)
