"""The official schemes as text, laid out as the shared tasks' own scripts lay them out."""

from ensemble_deid.evaluation.official.rows import (
    OfficialRow,
    OfficialScores,
    f1_or_zero,
    macro_of,
    zero_if_undefined,
)

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
