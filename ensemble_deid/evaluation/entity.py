"""Strict entity counts in one call: the figure that the papers compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ensemble_deid.evaluation.counts import Counts
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.text.document import Document


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """Counts over everything, and for each label that either side uses."""

    total: Counts
    by_label: Mapping[str, Counts]


def strict_counts(gold: Sequence[Document], system: Sequence[Document]) -> EntityCounts:
    """Count exact matches of start, end and label (Zhao et al. 2020, "strict entity matching").

    An annotation that a side gives twice counts once. Raises EvaluationError when the documents do not match.
    """
    table = count_view(gold, system, "strict")
    return EntityCounts(table.total, MappingProxyType(table.by_label))
