"""Reports of cross-validation, search and ablation, and a package's figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.evaluation.curve import OperatingPoint, keep_above, trace_curve
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.operating_points import CHOSEN, find_point, target_text, threshold_from_record
from ensemble_deid.evaluation.render.figures import counts_cells, difference_cells, difference_record, range_text
from ensemble_deid.evaluation.render.results import Point, Results, Table, draw_points
from ensemble_deid.model.manifest import Manifest, fingerprint
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import UNDEFINED, four_digits, percent
from ensemble_deid.note.document import Document
from ensemble_deid.training.ablate import AS_TRAINED, RETRAINED, AblationRow, ThresholdTarget
from ensemble_deid.training.crossval import CrossValidation, SystemFigures, as_records
from ensemble_deid.training.tune import Tuned

_MEANING = {
    AS_TRAINED: "the submodel's candidates and its features of the final estimator are dropped; "
    "the other submodels stay as trained, and may still see the patterns as features",
    RETRAINED: "the other submodels are trained again without the patterns as features",
}


def crossval_results(result: CrossValidation) -> Results:
    columns = ("system", "P", "R", "F1", "95% interval", "mean of folds (sd)", "F1 minus ensemble (p)")
    table = Table(
        "Strict entity figures of the cross-validation, in per cent", columns, tuple(map(_system_cells, result.systems))
    )
    points = [Point(s.name, s.counts.f1, s.interval.low, s.interval.high) for s in result.systems]
    picture = draw_points(points, measure="strict F1, 95% interval")
    return Results([[table]], as_records(result), picture)


def _system_cells(system: SystemFigures) -> tuple[str, ...]:
    change, _, _ = difference_cells(system.difference)
    if system.difference is not None and system.difference.difference is not None:
        p = system.difference.p_value
        change += f" ({UNDEFINED if p is None else f'{p:.3g}'})"
    folds = f"{percent(system.mean_f1, sign='')} ({percent(system.deviation, sign='')})"
    return (system.name, *counts_cells(system.counts), range_text(system.interval), folds, change)


def tune_results(tuned: Tuned) -> Results:
    ordered = sorted(enumerate(tuned.trials, 1), key=lambda entry: -entry[1].f1)
    rows = [
        (
            str(number),
            percent(trial.f1, sign=""),
            ", ".join(f"{key}={value}" for key, value in trial.settings.items()) or "as given",
        )
        for number, trial in ordered
    ]
    caption = "Trials, chosen on dev: the best figure is optimistic"
    table = Table(caption, ("trial", "strict F1 on dev", "settings"), tuple(rows))
    picture = draw_points([Point(f"trial {number}", trial.f1) for number, trial in ordered], measure="strict F1 on dev")
    return Results([[table]], [asdict(trial) for trial in tuned.trials], picture)


def ablation_results(rows: Sequence[AblationRow], rule: ThresholdTarget | None) -> Results:
    if rule is None:
        chosen = "Every threshold was chosen by cross-validation on the training notes."
    else:
        target = target_text(rule.rule, rule.wanted)
        chosen = f"Every threshold was chosen on the notes scored here, for {target}: the figures are optimistic."
    used = [f"{name}: {text}." for name, text in _MEANING.items() if any(row.members == name for row in rows)]
    caption = " ".join(["Strict entity scores; change against the first row.", chosen, *used])
    columns = (
        *("system", "other submodels", "threshold", "P", "R", "F1", "change"),
        *("paired 95% interval", "p", "token recall"),
    )
    table = Table(caption, columns, tuple(map(_ablation_cells, rows)))
    points = [Point(row.name, None if row.counts is None else row.counts.f1) for row in rows]
    return Results([[table]], [_ablation_record(row, rule) for row in rows], draw_points(points, measure="strict F1"))


def _ablation_cells(row: AblationRow) -> tuple[str, ...]:
    if row.counts is None:
        return (row.name, row.members, "not reached", *[""] * 7)
    threshold = "" if row.threshold is None else four_digits(row.threshold)
    figures = (*counts_cells(row.counts), *difference_cells(row.difference))
    return (row.name, row.members, threshold, *figures, percent(row.token_recall, sign=""))


def _ablation_record(row: AblationRow, rule: ThresholdTarget | None) -> dict[str, Any]:
    """Return a row for JSON; where its threshold is not reached, its figures are null."""
    content: dict[str, Any] = {
        "system": row.name,
        "members": row.members,
        "threshold": row.threshold,
        "threshold_rule": "cross-validation" if rule is None else f"{rule.rule} {rule.wanted:g}",
        **counts_record(row.counts),
        "token_recall": row.token_recall,
    }
    return content | difference_record(row.difference, "f1_difference_to_ensemble", "interval_95", "p_value")


def counts_record(counts: Counts | None) -> dict[str, float | None]:
    """Return counts and their scores for JSON; null where there are none."""
    names = ("precision", "recall", "f1", "tp", "fp", "fn")
    return {name: None if counts is None else getattr(counts, name) for name in names}


BOUNDS = (2.0, 5.0, 10.0, 15.0)
"""False positives per 1000 tokens within which to find the highest recall."""
_HEADS = (
    "operating point",
    "threshold",
    "strict precision",
    "strict recall",
    "strict F1",
    "token recall",
    "token precision",
    "false positives per 1000 tokens",
    "notes fully redacted",
)

_FOUND_HERE = ", threshold found on these notes (oracle)"
_WHAT_ORACLES_SAY = (
    "Rows marked as oracle have the best threshold on these same notes: they say what could be reached, not what a "
    "threshold that was chosen on other notes gives."
)


@dataclass(frozen=True, slots=True)
class FiguresRow:
    """One operating point; shares between 0 and 1, None where undefined. Tokens count as PHI or not, whatever type.

    `oracle` says that the threshold was found on these same notes: what could be reached, not what to expect.
    """

    point: str
    threshold: float
    oracle: bool
    strict_precision: float | None
    strict_recall: float | None
    strict_f1: float | None
    token_recall: float | None
    token_precision: float | None
    false_positives_per_1000: float | None
    fully_redacted: float | None


def measure_model(
    model: Deidentifier, documents: Sequence[Document], *, manifest: Manifest | None = None
) -> tuple[FiguresRow, ...]:
    """Score a model at its own threshold, and at the best one within each bound on false positives.

    The bounds' thresholds are found on these same notes, like the operating points of papers; the first row has the
    model's own threshold. That is an oracle, too, if the `manifest` says that it was chosen on some of these notes. A
    bound that no threshold keeps has no row.
    """
    scored = model.predict(documents, threshold=0.0)
    curve = trace_curve(documents, scored)
    at = curve.at(model.ensemble.stacker.threshold)
    record = None if manifest is None else manifest.figures.get(CHOSEN)
    oracle = record is not None and bool(threshold_from_record(record).notes.shared(documents))
    rows = [_row("the model's own", documents, scored, at, oracle=oracle)]
    for bound in BOUNDS:
        point = find_point(curve, rule="false-positives", wanted=bound)
        if point is not None:
            rows.append(_row(f"at most {bound:g} false positives", documents, scored, point, oracle=True))
    return tuple(rows)


def _row(
    name: str, gold: Sequence[Document], scored: Sequence[Document], point: OperatingPoint, *, oracle: bool
) -> FiguresRow:
    found = evaluate(gold, keep_above(scored, point.threshold), resamples=0)
    strict, leaks = found.score("strict"), found.leaks.total.notes.share
    return FiguresRow(
        point=name,
        threshold=point.threshold,
        oracle=oracle,
        strict_precision=strict.precision.value,
        strict_recall=strict.recall.value,
        strict_f1=strict.f1.value,
        token_recall=point.counts.recall,
        token_precision=point.counts.precision,
        false_positives_per_1000=point.fp_per_1000,
        fully_redacted=None if leaks is None else 1 - leaks,
    )


def figures_record(name: str, documents: Sequence[Document], rows: Sequence[FiguresRow]) -> dict[str, Any]:
    return {"corpus": name, "fingerprint": fingerprint(documents), "rows": [asdict(row) for row in rows]}


def figures_table(name: str, documents: Sequence[Document], rows: Sequence[FiguresRow]) -> str:
    sites = {document.site for document in documents if document.site is not None}
    of_sites = f" of {len(sites)} sites" if sites else ""
    cells = []
    for row in rows:
        _, threshold, _, *shares, rate, redacted = list(asdict(row).values())
        point = f"{row.point}{_FOUND_HERE if row.oracle else ''}"
        wrong = "-" if rate is None else f"{rate:.2f}"
        cells.append((point, four_digits(threshold), *map(_percent, shares), wrong, _percent(redacted)))
    marked = f" {_WHAT_ORACLES_SAY}" if any(row.oracle for row in rows) else ""
    head = f"## Figures on {name}\n\n{len(documents)} notes{of_sites}, in per cent.{marked}"
    return Table(head, _HEADS, tuple(cells)).to_markdown()


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"
