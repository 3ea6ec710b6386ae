"""What is unusual in a side's annotations, so that it can be said beside the figures."""

from collections.abc import Iterable
from dataclasses import dataclass

from ensemble_deid.text.document import Document
from ensemble_deid.text.span import overlapping_pairs


@dataclass(frozen=True, slots=True)
class SideFacts:
    """Annotations of one side: all, those that repeat another (same place and label), and overlapping neighbours."""

    annotations: int
    repeated: int
    overlapping: int


def side_facts(documents: Iterable[Document]) -> SideFacts:
    """Count the annotations of a side and what is unusual among them."""
    annotations = repeated = overlapping = 0
    for document in documents:
        distinct = {span.key: span for span in document.spans}
        annotations += len(document.spans)
        repeated += len(document.spans) - len(distinct)
        overlapping += len(overlapping_pairs(list(distinct.values())))
    return SideFacts(annotations, repeated, overlapping)
