"""The figures that a model's package carries: what it finds at which price, on notes of sites that it has not seen."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.evaluation.curve import OperatingPoint, keep_above, trace_curve
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.operating_points import CHOSEN, find_point, threshold_from_record
from ensemble_deid.evaluation.render.results import Table
from ensemble_deid.model.manifest import Manifest, fingerprint
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.document import Document

BOUNDS = (2.0, 5.0, 10.0, 15.0)
"""False positives in 1000 tokens within which the highest recall is looked for."""
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

    The bounds' thresholds are found on these same notes, as operating points of papers are; the first row says what
    the model does as it is. It is an oracle, too, where the `manifest` tells that the model's threshold was chosen on
    some of these notes. A bound that no threshold keeps has no row.
    """
    scored = model.predict(documents, threshold=0.0)
    curve = trace_curve(documents, scored)
    at = curve.at(model.ensemble.stacker.threshold)
    rows = [_row("the model's own", documents, scored, at, oracle=_chosen_on(documents, manifest))]
    for bound in BOUNDS:
        point = find_point(curve, rule="false-positives", wanted=bound)
        if point is not None:
            rows.append(_row(f"at most {bound:g} false positives", documents, scored, point, oracle=True))
    return tuple(rows)


def _chosen_on(documents: Sequence[Document], manifest: Manifest | None) -> bool:
    """Return whether a model's threshold was chosen on any of these notes."""
    record = None if manifest is None else manifest.figures.get(CHOSEN)
    return record is not None and bool(threshold_from_record(record).notes.shared(documents))


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
    """Return the figures as JSON, with the corpus's name and fingerprint."""
    return {"corpus": name, "fingerprint": fingerprint(documents), "rows": [asdict(row) for row in rows]}


def figures_table(name: str, documents: Sequence[Document], rows: Sequence[FiguresRow]) -> str:
    """Return the figures as a Markdown section for the package's card."""
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
