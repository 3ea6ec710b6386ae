"""The counting and the tables of the shared tasks' own evaluation scripts, by name.

Source of MEDDOCAN's rows: Marimon et al. 2019 (IberLEF), MEDDOCAN-Evaluation-Script: subtrack 1 compares type and
offsets, subtrack 2 offsets alone, strictly or after spans with nothing alphanumeric between them are merged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ensemble_deid.evaluation.official.i2b2 import score_i2b2
from ensemble_deid.evaluation.official.rows import OfficialRow, OfficialScores, count_sets
from ensemble_deid.evaluation.pairs import EvaluationError, Pair, pair_documents
from ensemble_deid.note.document import Document

_Place = tuple[int, int]


def score_meddocan(gold: Sequence[Document], system: Sequence[Document]) -> OfficialScores:
    """Score as the task's script does: NER, strict spans and merged spans.

    Raises EvaluationError when the documents do not match.
    """
    pairs = pair_documents(gold, system)
    named = count_sets([_keys(p.gold) for p in pairs], [_keys(p.system) for p in pairs])
    placed = count_sets([set(_places(p.gold)) for p in pairs], [set(_places(p.system)) for p in pairs])
    merged = np.array([_count_merged(pair) for pair in pairs], dtype=np.int64)
    rows = (
        OfficialRow("Subtrack 1 [NER]", named),
        OfficialRow("Subtrack 2 [strict]", placed),
        OfficialRow("Subtrack 2 [merged]", merged),
    )
    return OfficialScores("meddocan", len(pairs), rows)


def _keys(document: Document) -> set[object]:
    return {span.key for span in document.spans}


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
    """Score exactly as the shared task's own script does; `scheme` is "i2b2" or "meddocan".

    Raises EvaluationError for another scheme or when the documents do not match.
    """
    if scheme not in SCHEMES:
        raise EvaluationError(f"there is no scheme {scheme!r}; there are: {', '.join(SCHEMES)}")
    return SCHEMES[scheme](gold, system)
