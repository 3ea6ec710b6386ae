"""How many annotations a side has, how many of them are repeated and how many overlap."""

from collections.abc import Iterable
from dataclasses import dataclass

from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import distinct_spans, overlapping_pairs


@dataclass(frozen=True, slots=True)
class AnnotationStats:
    """Annotations of one side: all, those that repeat another (same offsets and label), and overlapping neighbours."""

    annotations: int
    repeated: int
    overlapping: int


def count_annotations(documents: Iterable[Document]) -> AnnotationStats:
    """Count the annotations of one side, and those to mention beside the figures: repeated and overlapping ones."""
    annotations = repeated = overlapping = 0
    for document in documents:
        different = distinct_spans(document.spans)
        annotations += len(document.spans)
        repeated += len(document.spans) - len(different)
        overlapping += len(overlapping_pairs(different))
    return AnnotationStats(annotations, repeated, overlapping)
