"""The counting and the tables of the shared tasks' own evaluation scripts, by name: 2014 i2b2/UTHealth and MEDDOCAN.

The shared tasks print 0 where a figure is undefined. That convention lives here and nowhere else in the project.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.pairs import EvaluationError, Pair, pair_documents
from ensemble_deid.evaluation.views import RELAXED_END, runs_in, to_counts
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_CATEGORIES, category_of, is_hipaa


@dataclass(frozen=True, slots=True)
class OfficialRow:
    """One line of an official table: counts of every document, (documents, 3) as tp, fp, fn."""

    name: str
    counts: Int64s

    @property
    def total(self) -> Counts:
        return to_counts(self.counts.sum(axis=0))

    @property
    def micro(self) -> tuple[float, float, float]:
        """Precision, recall and F1 over all documents."""
        precision, recall = self.total.precision or 0.0, self.total.recall or 0.0
        return precision, recall, _f1(precision, recall)


@dataclass(frozen=True, slots=True)
class OfficialScores:
    """The rows of one scheme ("i2b2" or "meddocan"), in the order in which its script prints them."""

    scheme: str
    documents: int
    rows: tuple[OfficialRow, ...]

    def row(self, name: str) -> OfficialRow:
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
        return _f1(self.precision, self.recall)


def _f1(precision: float, recall: float) -> float:
    """Return the harmonic mean, 0 where both are 0, rounded as the scripts' own formula rounds."""
    return 2 * ((precision * recall) / (precision + recall)) if precision + recall else 0.0


def macro_of(row: OfficialRow) -> OfficialMacro:
    tp, fp, fn = row.counts.astype(np.float64).T
    precision = np.divide(tp, tp + fp, out=np.zeros_like(tp), where=tp + fp > 0)
    recall = np.divide(tp, tp + fn, out=np.zeros_like(tp), where=tp + fn > 0)
    return OfficialMacro(float(precision.mean()), float(precision.std()), float(recall.mean()), float(recall.std()))


def count_sets(golds: Sequence[Set[object]], systems: Sequence[Set[object]]) -> Int64s:
    """Count, by document, the annotations that two sets share and do not share: (documents, 3)."""
    counts = [(len(g & s), len(s - g), len(g - s)) for g, s in zip(golds, systems, strict=True)]
    return np.array(counts, dtype=np.int64).reshape(-1, 3)


def to_official_json(scores: OfficialScores) -> dict[str, Mapping[str, float]]:
    """Return the rows as plain numbers, named as the reference figures of the two scripts are."""
    return {row.name: _figures(row, with_macro=scores.scheme == "i2b2") for row in scores.rows}


def _figures(row: OfficialRow, *, with_macro: bool) -> dict[str, float]:
    total, micro = row.total, dict(zip(("precision", "recall", "f1"), row.micro, strict=True))
    counts = {
        "documents": len(row.counts),
        "true_positives": total.tp,
        "false_positives": total.fp,
        "false_negatives": total.fn,
    }
    if not with_macro:
        return {**counts, **micro}
    macro = macro_of(row)
    return {
        **counts,
        "macro_precision": macro.precision,
        "macro_precision_sd": macro.precision_sd,
        "macro_recall": macro.recall,
        "macro_recall_sd": macro.recall_sd,
        "macro_f1": macro.f1,
        **{f"micro_{name}": value for name, value in micro.items()},
    }


# The rows of the 2014 i2b2/UTHealth script, count for count.
#
# Source: Kotfila, i2b2_evaluation_scripts (2014), which Stubbs, Kotfila and Uzuner 2015 and Zhao et al. 2020 report.
# "HIPPA" is spelled as the script spells it, so that its rows can be looked up by name.


class Tag(NamedTuple):
    """What the script compares of an annotation: category (the XML element), TYPE and offsets, ignoring case."""

    category: str
    type: str
    start: int
    end: int


_Side = Sequence[Sequence[Tag]]


def score_i2b2(gold: Sequence[Document], system: Sequence[Document]) -> OfficialScores:
    """Score as the 2014 script does: ten totals, then per category its Token and Strict rows."""
    pairs = pair_documents(gold, system)
    both = [p.gold for p in pairs], [p.system for p in pairs]
    sides = {
        "Strict": [[_tags(document) for document in side] for side in both],
        "Token": [[_tokens(document) for document in side] for side in both],
    }
    rows = []
    for name, unit, equality, category, hipaa in _ROWS:
        golds, systems = (
            [
                [tag for tag in tags if category in (None, tag.category) and (not hipaa or is_hipaa(tag.type))]
                for tags in side
            ]
            for side in sides[unit]
        )
        rows.append(OfficialRow(name, _count(golds, systems, equality)))
    return OfficialScores("i2b2", len(pairs), tuple(rows))


def _tags(document: Document) -> list[Tag]:
    return [Tag(category_of(span.label) or "", span.label.upper(), span.start, span.end) for span in document.spans]


def _tokens(document: Document) -> list[Tag]:
    text = document.text
    return [Tag(*tag[:2], *run) for tag in _tags(document) for run in runs_in(text, tag.start, tag.end)]


def _count(golds: _Side, systems: _Side, equality: str) -> Int64s:
    """Count by document what is the "same", has the same end or nearly ("relaxed"), or has the same "place"."""
    if equality == "relaxed":
        counts = [_relaxed(_distinct(g), _distinct(s)) for g, s in zip(golds, systems, strict=True)]
        return np.array(counts, dtype=np.int64).reshape(-1, 3)
    first = 2 if equality == "place" else 0
    return count_sets([{t[first:] for t in tags} for tags in golds], [{t[first:] for t in tags} for tags in systems])


def _relaxed(golds: Sequence[Tag], systems: Sequence[Tag]) -> tuple[int, int, int]:
    """Count as the script's sets do, whose equality lets the end differ.

    One annotation may stand for several of the other side, so the three counts need not add up to the sides'
    sizes: what has a partner is neither spurious nor missed, and the true positives are those of the smaller side.
    """
    found = sum(_has_partner(tag, systems) for tag in golds)
    right = sum(_has_partner(tag, golds) for tag in systems)
    return (found if len(systems) > len(golds) else right, len(systems) - right, len(golds) - found)


def _distinct(tags: Iterable[Tag]) -> list[Tag]:
    """Drop duplicates under the relaxed equality, in text order, so that the order of the file does not matter."""
    kept: list[Tag] = []
    for tag in sorted(set(tags), key=lambda t: (t.start, t.end, t.category, t.type)):
        if not _has_partner(tag, kept):
            kept.append(tag)
    return kept


def _has_partner(tag: Tag, others: Iterable[Tag]) -> bool:
    return any(
        other.start == tag.start
        and other.type == tag.type
        and other.category == tag.category
        and abs(other.end - tag.end) <= RELAXED_END
        for other in others
    )


# Row name, unit (tags or their tokens), what counts as equal, the category (None: any), and HIPAA's types alone or all.
_ROWS: tuple[tuple[str, str, str, str | None, bool], ...] = (
    ("Token", "Token", "same", None, False),
    ("Strict", "Strict", "same", None, False),
    ("Relaxed", "Strict", "relaxed", None, False),
    ("HIPPA Token", "Token", "same", None, True),
    ("HIPAA Strict", "Strict", "same", None, True),
    ("HIPAA Relaxed", "Strict", "relaxed", None, True),
    ("Binary Token", "Token", "place", None, False),
    ("Binary Strict", "Strict", "place", None, False),
    ("Binary HIPPA Token", "Token", "place", None, True),
    ("Binary HIPAA Strict", "Strict", "place", None, True),
    *(
        row
        for category in I2B2_CATEGORIES
        for row in (
            (f"{category} Token", "Token", "same", category, False),
            (f"{category} Strict", "Strict", "same", category, False),
            (f"{category} HIPPA Token", "Token", "same", category, True),
            # Named Binary by the script, which has set its equality back to types and places by then.
            (f"{category} Binary HIPAA Strict", "Strict", "same", category, True),
        )
    ),
)


# The rows of MEDDOCAN's script.
#
# Source: Marimon et al. 2019 (IberLEF), MEDDOCAN-Evaluation-Script: subtrack 1 compares type and offsets, subtrack 2
# offsets alone, strictly or after spans with nothing alphanumeric between them are merged.


_Place = tuple[int, int]


def score_meddocan(gold: Sequence[Document], system: Sequence[Document]) -> OfficialScores:
    """Score as the task's script does: NER, strict spans and merged spans."""
    pairs = pair_documents(gold, system)
    golds, systems = [p.gold for p in pairs], [p.system for p in pairs]
    named = count_sets([{s.key for s in d.spans} for d in golds], [{s.key for s in d.spans} for d in systems])
    placed = count_sets([set(_places(d)) for d in golds], [set(_places(d)) for d in systems])
    merged = np.array([_count_merged(pair) for pair in pairs], dtype=np.int64)
    rows = (
        OfficialRow("Subtrack 1 [NER]", named),
        OfficialRow("Subtrack 2 [strict]", placed),
        OfficialRow("Subtrack 2 [merged]", merged),
    )
    return OfficialScores("meddocan", len(pairs), rows)


def _places(document: Document) -> list[_Place]:
    return sorted((span.start, span.end) for span in document.spans)


def _count_merged(pair: Pair) -> tuple[int, int, int]:
    """Count places found alone or as merged; a span inside what was found is neither spurious nor missed."""
    golds, systems = set(_places(pair.gold)), set(_places(pair.system))
    found = golds & systems | _merge(pair.gold) & _merge(pair.system)
    spurious = sum(not _inside(place, found) for place in systems - golds)
    missed = sum(not _inside(place, found) for place in golds - systems)
    return len(found), spurious, missed


def _merge(document: Document) -> set[_Place]:
    """Join each place to the one before when no letter or digit lies between them.

    As in the script, the joined place ends where the later one ends, even if the earlier one reaches further.
    """
    merged: list[_Place] = []
    for start, end in _places(document):
        if merged and not any(c.isalnum() for c in document.text[merged[-1][1] : start]):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return set(merged)


def _inside(place: _Place, others: Iterable[_Place]) -> bool:
    return any(start <= place[0] and place[1] <= end for start, end in others)


SCHEMES: Mapping[str, Callable[[Sequence[Document], Sequence[Document]], OfficialScores]] = MappingProxyType(
    {"i2b2": score_i2b2, "meddocan": score_meddocan}
)


def score_official(gold: Sequence[Document], system: Sequence[Document], *, scheme: str) -> OfficialScores:
    """Score as the task's own script does. Raises EvaluationError for another scheme or when documents do not match."""
    if scheme not in SCHEMES:
        raise EvaluationError(f"there is no scheme {scheme!r}; there are: {', '.join(SCHEMES)}")
    return SCHEMES[scheme](gold, system)


def render_official(scores: OfficialScores) -> str:
    """Return one block per row, four significant digits, 0 where a figure is undefined, as the scripts print."""
    block = _i2b2_block if scores.scheme == "i2b2" else _meddocan_block
    return "\n\n".join("\n".join(block(row)) for row in scores.rows) + "\n"


def _i2b2_block(row: OfficialRow) -> list[str]:
    macro = macro_of(row)
    precision, recall, f1 = (f"{value:.4}" for value in row.micro)
    return _lines(
        (25, 15, 15, 20),
        (f"{row.name} ({len(row.counts)})", "Measure", "Macro (SD)", "Micro (Primary)"),
        ("Total", "Precision", f"{macro.precision:.4} ({macro.precision_sd:.2})", precision),
        ("", "Recall", f"{macro.recall:.4} ({macro.recall_sd:.2})", recall),
        ("", "F1", f"{macro.f1:.4}", f1),
    )


def _meddocan_block(row: OfficialRow) -> list[str]:
    precision, recall, f1 = (f"{value:.4}" for value in row.micro)
    return _lines(
        (35, 15, 20),
        (row.name, "Measure", "Micro"),
        (f"Total ({len(row.counts)} docs)", "Precision", precision),
        ("", "Recall", recall),
        ("", "F1", f1),
    )


def _lines(widths: Sequence[int], head: Sequence[str], *rows: Sequence[str]) -> list[str]:
    """Return the cells in columns of these widths, a rule below the head."""
    padded = [[cell.ljust(width) for cell, width in zip(cells, widths, strict=True)] for cells in (head, *rows)]
    first, *rest = ("".join(cells).rstrip() for cells in padded)
    return [first, "-" * sum(widths), *rest]
