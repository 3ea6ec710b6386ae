"""Two tables of corpus statistics as in publications: size, and PHI by category and type, for one or several splits."""

from collections.abc import Callable, Mapping, Sequence

from ensemble_deid.corpora.statistics import NO_CATEGORY, CorpusStatistics, LabelStatistics, sum_up
from ensemble_deid.phi.groups import category_of

_COLUMNS = ("spans", "share", "unique", "unseen")
_SIZES: Mapping[str, Callable[[CorpusStatistics], str]] = {
    "sites": lambda split: f"{split.sites:,}",
    "patients": lambda split: f"{split.patients:,}",
    "notes": lambda split: f"{split.notes:,}",
    "tokens": lambda split: f"{split.tokens:,}",
    "words": lambda split: f"{split.words:,}",
    "words of a note: minimum": lambda split: f"{split.words_of_note[0]:,}",
    "words of a note: median": lambda split: f"{split.words_of_note[1]:g}",
    "words of a note: maximum": lambda split: f"{split.words_of_note[2]:,}",
    "PHI spans": lambda split: f"{split.spans:,}",
    "PHI spans per 100 words": lambda split: _one_decimal(split.phi_per_100_words),
    "spans that begin or end inside a token": lambda split: f"{split.tokenization.cut:,}",
    "spans that cannot be tagged": lambda split: f"{split.tokenization.lost:,}",
}


def render_statistics(splits: Mapping[str, CorpusStatistics]) -> str:
    """Return both tables as text, with a column or a group of columns for each split.

    The first table shows the size of each split. The second shows, by category and type, the number of spans and their
    share of all, the number of unique strings, and the share of these that do not occur in the first split (usually
    train).
    """
    sizes = [[name, *(figure(split) for split in splits.values())] for name, figure in _SIZES.items()]
    lines = ["Table 1. Size", "", *_table([["", *splits], *sizes])]
    if any(split.labels for split in splits.values()):
        columns = _columns_of(len(splits))
        names = [cell for name, group in zip(splits, columns, strict=True) for cell in (name, *[""] * (len(group) - 1))]
        heads = [["", *names], ["", *(column for group in columns for column in group)]]
        lines += ["", "Table 2. PHI by category and type", ""]
        lines += _table([*heads, *_phi_rows(list(splits.values()))])
        unseen = f"; unseen: share of these that do not occur in {next(iter(splits))}" if len(splits) > 1 else ""
        lines += ["", f"share: of all spans; unique: distinct strings{unseen}"]
    return "\n".join(lines) + "\n"


def phi_table(splits: Mapping[str, CorpusStatistics]) -> list[list[str]]:
    """Return the second table as cells, its one row of heads first."""
    columns = _columns_of(len(splits))
    heads = [f"{name}: {column}" for name, group in zip(splits, columns, strict=True) for column in group]
    return [["type", *heads], *_phi_rows(list(splits.values()))]


def _columns_of(n_splits: int) -> list[tuple[str, ...]]:
    """Return the columns of each split; of the first no string is unseen."""
    return [_COLUMNS if k else _COLUMNS[:-1] for k in range(n_splits)]


def _phi_rows(splits: Sequence[CorpusStatistics]) -> list[list[str]]:
    """Return a row per category, each followed by the rows of its types, most frequent first, and a row of totals."""
    labels = [split.labels for split in splits]
    categories = [split.categories for split in splits]
    totals = [split.spans for split in splits]
    rows: list[list[str]] = []
    for category in _by_frequency(categories):
        rows.append([category, *_figures([found.get(category) for found in categories], totals)])
        for label in _by_frequency(labels):
            if (category_of(label) or NO_CATEGORY) == category and label != category:
                rows.append([f"  {label}", *_figures([found.get(label) for found in labels], totals)])
    rows.append(["all", *_figures([sum_up(found.values()) for found in labels], totals)])
    return rows


def _by_frequency(splits: Sequence[Mapping[str, LabelStatistics]]) -> list[str]:
    totals: dict[str, int] = {}
    for split in splits:
        for name, label in split.items():
            totals[name] = totals.get(name, 0) + label.spans
    return sorted(totals, key=lambda name: (-totals[name], name))


def _figures(splits: Sequence[LabelStatistics | None], totals: Sequence[int]) -> list[str]:
    cells: list[str] = []
    for k, (label, total) in enumerate(zip(splits, totals, strict=True)):
        share_of_all = f"{label.spans / total:.1%}" if label and total else "-"
        cells += [f"{label.spans:,}", share_of_all, f"{label.distinct:,}"] if label else ["0", "-", "0"]
        if k:
            share = label.unseen_share(splits[0]) if label else None
            cells.append("-" if share is None else f"{share:.1%}")
    return cells


def _one_decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        figures = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *figures)).rstrip())
    return lines
