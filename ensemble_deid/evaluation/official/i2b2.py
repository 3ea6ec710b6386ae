"""The rows of the 2014 i2b2/UTHealth de-identification script, count for count.

Source: Kotfila, i2b2_evaluation_scripts (2014), which Stubbs, Kotfila and Uzuner 2015 and Zhao et al. 2020 report.
"HIPPA" is spelled as the script spells it, so that its rows can be looked up by name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.alphanumeric_runs import runs_in
from ensemble_deid.evaluation.count_table import RELAXED_END
from ensemble_deid.evaluation.official.rows import OfficialRow, OfficialScores, count_sets
from ensemble_deid.evaluation.pairs import pair_documents
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_CATEGORIES, category_of, is_hipaa


@dataclass(frozen=True, slots=True)
class Tag:
    """What the script compares of an annotation: category (the XML element), TYPE and offsets, ignoring case."""

    category: str
    type: str
    start: int
    end: int

    @property
    def place(self) -> tuple[int, int]:
        """All that the Binary rows compare."""
        return (self.start, self.end)


_Tags = tuple[Tag, ...]
Side = tuple[_Tags, ...]


def score_i2b2(gold: Sequence[Document], system: Sequence[Document]) -> OfficialScores:
    """Score as the 2014 script does: ten totals, then per category its Token and Strict rows.

    Raises EvaluationError when the documents do not match.
    """
    pairs = pair_documents(gold, system)
    golds, systems = tuple(_tags(p.gold) for p in pairs), tuple(_tags(p.system) for p in pairs)
    sides = {
        "Strict": (golds, systems),
        "Token": (
            tuple(_tokens(p.gold.text, tags) for p, tags in zip(pairs, golds, strict=True)),
            tuple(_tokens(p.system.text, tags) for p, tags in zip(pairs, systems, strict=True)),
        ),
    }
    rows = [
        OfficialRow(name, _COUNTERS[counter](_keep(sides[unit][0], keep), _keep(sides[unit][1], keep)))
        for name, unit, counter, keep in _ROWS
    ]
    return OfficialScores("i2b2", len(pairs), tuple(rows))


def _tags(document: Document) -> _Tags:
    return tuple(
        Tag(category_of(span.label) or "", span.label.upper(), span.start, span.end) for span in document.spans
    )


def _tokens(text: str, tags: _Tags) -> _Tags:
    return tuple(
        Tag(tag.category, tag.type, start, end) for tag in tags for start, end in runs_in(text, tag.start, tag.end)
    )


def _keep(side: Side, keep: Callable[[Tag], bool]) -> Side:
    return tuple(tuple(tag for tag in tags if keep(tag)) for tags in side)


def _count_same(golds: Side, systems: Side) -> Int64s:
    return count_sets([set(tags) for tags in golds], [set(tags) for tags in systems])


def _count_places(golds: Side, systems: Side) -> Int64s:
    return count_sets([{t.place for t in tags} for tags in golds], [{t.place for t in tags} for tags in systems])


def _count_relaxed(golds: Side, systems: Side) -> Int64s:
    counts = [_relaxed(_distinct(g), _distinct(s)) for g, s in zip(golds, systems, strict=True)]
    return np.array(counts, dtype=np.int64).reshape(-1, 3)


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


def _any(tag: Tag) -> bool:
    return True


def _hipaa(tag: Tag) -> bool:
    return is_hipaa(tag.type)


def _in(category: str, *, hipaa: bool) -> Callable[[Tag], bool]:
    return lambda tag: tag.category == category and (not hipaa or is_hipaa(tag.type))


_COUNTERS: Mapping[str, Callable[[Side, Side], Int64s]] = MappingProxyType(
    {"same": _count_same, "relaxed": _count_relaxed, "place": _count_places}
)
# Row name, unit (tags or their tokens), what counts as equal, and which tags are kept.
_ROWS: tuple[tuple[str, str, str, Callable[[Tag], bool]], ...] = (
    ("Token", "Token", "same", _any),
    ("Strict", "Strict", "same", _any),
    ("Relaxed", "Strict", "relaxed", _any),
    ("HIPPA Token", "Token", "same", _hipaa),
    ("HIPAA Strict", "Strict", "same", _hipaa),
    ("HIPAA Relaxed", "Strict", "relaxed", _hipaa),
    ("Binary Token", "Token", "place", _any),
    ("Binary Strict", "Strict", "place", _any),
    ("Binary HIPPA Token", "Token", "place", _hipaa),
    ("Binary HIPAA Strict", "Strict", "place", _hipaa),
    *(
        row
        for category in I2B2_CATEGORIES
        for row in (
            (f"{category} Token", "Token", "same", _in(category, hipaa=False)),
            (f"{category} Strict", "Strict", "same", _in(category, hipaa=False)),
            (f"{category} HIPPA Token", "Token", "same", _in(category, hipaa=True)),
            # Named Binary by the script, which has set its equality back to types and places by then.
            (f"{category} Binary HIPAA Strict", "Strict", "same", _in(category, hipaa=True)),
        )
    ),
)
