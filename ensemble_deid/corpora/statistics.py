"""Figures that describe a corpus."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ensemble_deid.corpora.read import Corpus
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import category_of
from ensemble_deid.note.tags import TagLoss, tag_loss
from ensemble_deid.note.tokens import tokenize

NO_CATEGORY = "(none)"


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """One label or category: the number of spans, and the distinct strings that they cover.

    White space is normalised, so that a name broken over two lines is the same name.
    """

    spans: int
    strings: frozenset[str] = field(repr=False)

    @property
    def distinct(self) -> int:
        return len(self.strings)

    def unseen_share(self, known: "LabelStatistics | None") -> float | None:
        """Return the share of the distinct strings that `known` does not have; None if there are no strings."""
        new = self.strings - known.strings if known else self.strings
        return len(new) / len(self.strings) if self.strings else None


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Counts of a corpus. Words are separated by white space; tokens are those of `text.tokens`.

    `patients` counts each note of an unknown patient as a patient; `sites` counts the known sites.
    """

    notes: int
    patients: int
    sites: int
    words: int
    tokens: int
    characters: int
    words_of_note: tuple[int, float, int]
    """Fewest, median and most words of a note."""
    labels: Mapping[str, LabelStatistics]
    tokenization: TagLoss

    @property
    def spans(self) -> int:
        return sum(label.spans for label in self.labels.values())

    @property
    def phi_per_100_words(self) -> float | None:
        """Spans per 100 words; None if there are no words."""
        return 100 * self.spans / self.words if self.words else None

    @property
    def categories(self) -> dict[str, LabelStatistics]:
        """Totals by category (NAME, DATE, ...), most frequent first."""
        members: dict[str, list[LabelStatistics]] = defaultdict(list)
        for name, label in self.labels.items():
            members[category_of(name) or NO_CATEGORY].append(label)
        summed = {category: sum_up(labels) for category, labels in members.items()}
        return dict(sorted(summed.items(), key=lambda item: (-item[1].spans, item[0])))

    def as_dict(self, *, known: "CorpusStatistics | None" = None) -> dict[str, object]:
        """Return the figures as plain values for JSON; with `known` (train), also the share of strings unseen there."""
        fewest, middle, most = self.words_of_note
        loss = self.tokenization
        labels: dict[str, dict[str, object]] = {}
        for name, label in self.labels.items():
            labels[name] = {"category": category_of(name), "spans": label.spans, "distinct": label.distinct}
            if known:
                labels[name]["unseen_share"] = label.unseen_share(known.labels.get(name))
        return {
            **{name: getattr(self, name) for name in ("notes", "patients", "sites", "words", "tokens", "characters")},
            "words_of_note": {"min": fewest, "median": middle, "max": most},
            "spans": self.spans,
            "phi_per_100_words": self.phi_per_100_words,
            "tokenization": {"spans_cut": loss.cut, "spans_lost": loss.lost},
            "labels": labels,
        }


def sum_up(labels: Iterable[LabelStatistics]) -> LabelStatistics:
    parts = list(labels)
    return LabelStatistics(sum(part.spans for part in parts), frozenset().union(*(part.strings for part in parts)))


def corpus_statistics(corpus: Corpus | Iterable[Document]) -> CorpusStatistics:
    """Count notes, patients, sites, words, tokens, and the PHI of each label (most frequent label first)."""
    documents = tuple(corpus)
    surfaces: dict[str, list[str]] = defaultdict(list)
    for document in documents:
        for span in document.spans:
            surfaces[span.label].append(" ".join(document.text[span.start : span.end].split()))
    labels = {
        label: LabelStatistics(len(strings), frozenset(strings))
        for label, strings in sorted(surfaces.items(), key=lambda item: (-len(item[1]), item[0]))
    }
    words = [len(document.text.split()) for document in documents]
    tokens = tokenize(documents)
    return CorpusStatistics(
        notes=len(documents),
        patients=len({document.group for document in documents}),
        sites=len({document.site for document in documents if document.site is not None}),
        words=sum(words),
        tokens=len(tokens),
        characters=sum(len(document.text) for document in documents),
        words_of_note=(min(words), median(words), max(words)) if words else (0, 0, 0),
        labels=labels,
        tokenization=tag_loss(documents, tokens),
    )


# Two tables of corpus statistics as in publications: size, and PHI by category and type, for one or several splits.

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
    "PHI spans per 100 words": lambda split: "-" if not split.words else f"{split.phi_per_100_words:.1f}",
    "spans that begin or end inside a token": lambda split: f"{split.tokenization.cut:,}",
    "spans that cannot be tagged": lambda split: f"{split.tokenization.lost:,}",
}


def render_statistics(splits: Mapping[str, CorpusStatistics]) -> str:
    """Return two tables as text, with a column or a group of columns for each split.

    The first has the size of each split. The second has, by category and type, the number of spans and their share, the
    number of distinct strings, and the share of these that do not occur in the first split (usually train).
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
    totals: Counter[str] = Counter()
    for split in splits:
        totals.update({name: label.spans for name, label in split.items()})
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


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        figures = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *figures)).rstrip())
    return lines
