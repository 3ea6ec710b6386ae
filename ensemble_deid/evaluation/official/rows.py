"""What the official schemes share: named rows of counts and the shared tasks' own convention for undefined figures.

The shared tasks print 0 where a figure is undefined. That convention lives here and nowhere else in the project.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.note.counts import Counts


@dataclass(frozen=True, slots=True)
class OfficialRow:
    """One line of an official table: counts of every document, (documents, 3) as tp, fp, fn."""

    name: str
    counts: Int64s

    @property
    def total(self) -> Counts:
        """The counts over all documents."""
        tp, fp, fn = (int(value) for value in self.counts.sum(axis=0))
        return Counts(tp, fp, fn)


@dataclass(frozen=True, slots=True)
class OfficialScores:
    """The rows of one scheme ("i2b2" or "meddocan"), in the order in which its script prints them."""

    scheme: str
    documents: int
    rows: tuple[OfficialRow, ...]

    def row(self, name: str) -> OfficialRow:
        """Return the row of that name. Raises KeyError when the scheme has none."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class OfficialMacro:
    """Means and population standard deviations over documents, 0 standing for an undefined document."""

    precision: float
    precision_sd: float
    recall: float
    recall_sd: float

    @property
    def f1(self) -> float:
        """The harmonic mean of the two means (not the mean of the documents' F1)."""
        return f1_or_zero(self.precision, self.recall)


def zero_if_undefined(value: float | None) -> float:
    """Return the figure as the scripts print it."""
    return 0.0 if value is None else value


def f1_or_zero(precision: float, recall: float) -> float:
    """Return the harmonic mean, 0 where both are 0, rounded as the scripts' own formula rounds."""
    return 2 * ((precision * recall) / (precision + recall)) if precision + recall else 0.0


def macro_of(row: OfficialRow) -> OfficialMacro:
    """Return the row's means over documents."""
    tp, fp, fn = row.counts.astype(np.float64).T
    precision = np.divide(tp, tp + fp, out=np.zeros_like(tp), where=tp + fp > 0)
    recall = np.divide(tp, tp + fn, out=np.zeros_like(tp), where=tp + fn > 0)
    return OfficialMacro(float(precision.mean()), float(precision.std()), float(recall.mean()), float(recall.std()))


def count_sets(golds: Sequence[set[object]], systems: Sequence[set[object]]) -> Int64s:
    """Count, document by document, what two sets of annotations share and do not: (documents, 3)."""
    return np.array(
        [(len(g & s), len(s - g), len(g - s)) for g, s in zip(golds, systems, strict=True)], dtype=np.int64
    ).reshape(-1, 3)


def to_official_json(scores: OfficialScores) -> dict[str, Mapping[str, float]]:
    """Return the rows as plain numbers, named as the reference figures of the two scripts are."""
    figures = _i2b2_figures if scores.scheme == "i2b2" else _meddocan_figures
    return {row.name: figures(row) for row in scores.rows}


def _count_figures(row: OfficialRow) -> dict[str, float]:
    total = row.total
    return {
        "documents": len(row.counts),
        "true_positives": total.tp,
        "false_positives": total.fp,
        "false_negatives": total.fn,
    }


def _i2b2_figures(row: OfficialRow) -> dict[str, float]:
    macro = macro_of(row)
    precision, recall = zero_if_undefined(row.total.precision), zero_if_undefined(row.total.recall)
    return {
        **_count_figures(row),
        "macro_precision": macro.precision,
        "macro_precision_sd": macro.precision_sd,
        "macro_recall": macro.recall,
        "macro_recall_sd": macro.recall_sd,
        "macro_f1": macro.f1,
        "micro_precision": precision,
        "micro_recall": recall,
        "micro_f1": f1_or_zero(precision, recall),
    }


def _meddocan_figures(row: OfficialRow) -> dict[str, float]:
    precision, recall = zero_if_undefined(row.total.precision), zero_if_undefined(row.total.recall)
    return {
        **_count_figures(row),
        "precision": precision,
        "recall": recall,
        "f1": f1_or_zero(precision, recall),
    }


# The official schemes as text, laid out as the shared tasks' own scripts lay them out.


_I2B2_WIDTHS = (25, 15, 15, 20)
_MEDDOCAN_WIDTHS = (35, 15, 20)


def render_official(scores: OfficialScores) -> str:
    """Return one block per row, four significant digits, 0 where a figure is undefined, as the scripts print."""
    block = _i2b2_block if scores.scheme == "i2b2" else _meddocan_block
    return "\n\n".join("\n".join(block(row)) for row in scores.rows) + "\n"


def _i2b2_block(row: OfficialRow) -> list[str]:
    macro = macro_of(row)
    precision, recall = zero_if_undefined(row.total.precision), zero_if_undefined(row.total.recall)
    return [
        _line(_I2B2_WIDTHS, f"{row.name} ({len(row.counts)})", "Measure", "Macro (SD)", "Micro (Primary)"),
        "-" * sum(_I2B2_WIDTHS),
        _line(
            _I2B2_WIDTHS,
            "Total",
            "Precision",
            f"{macro.precision:.4} ({macro.precision_sd:.2})",
            f"{precision:.4}",
        ),
        _line(_I2B2_WIDTHS, "", "Recall", f"{macro.recall:.4} ({macro.recall_sd:.2})", f"{recall:.4}"),
        _line(_I2B2_WIDTHS, "", "F1", f"{macro.f1:.4}", f"{f1_or_zero(precision, recall):.4}"),
    ]


def _meddocan_block(row: OfficialRow) -> list[str]:
    precision, recall = zero_if_undefined(row.total.precision), zero_if_undefined(row.total.recall)
    return [
        _line(_MEDDOCAN_WIDTHS, row.name, "Measure", "Micro"),
        "-" * sum(_MEDDOCAN_WIDTHS),
        _line(_MEDDOCAN_WIDTHS, f"Total ({len(row.counts)} docs)", "Precision", f"{precision:.4}"),
        _line(_MEDDOCAN_WIDTHS, "", "Recall", f"{recall:.4}"),
        _line(_MEDDOCAN_WIDTHS, "", "F1", f"{f1_or_zero(precision, recall):.4}"),
    ]


def _line(widths: tuple[int, ...], *cells: str) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
