"""Put each note's gold and system annotations side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import distinct_spans, overlapping_pairs


class EvaluationError(DeidError):
    """Documents, labels or options that cannot be compared or scored.

    >>> from ensemble_deid import Document, evaluate
    >>> evaluate([Document("a", "Anna")], [Document("b", "Anna")])
    Traceback (most recent call last):
    ensemble_deid.evaluation.pairs.EvaluationError: 1 documents of the gold side are not on the system side: a
    """


@dataclass(frozen=True, slots=True)
class Pair:
    gold: Document
    system: Document

    @property
    def id(self) -> str:
        return self.gold.id

    @property
    def group(self) -> str:
        """The patient, as gold names them, or the note itself where gold names none."""
        return self.gold.group


def pair_documents(gold: Sequence[Document], system: Sequence[Document]) -> tuple[Pair, ...]:
    """Match documents by id and return the pairs in the order of their ids, whatever order they came in.

    Raises EvaluationError when there are none, an id comes twice, one side lacks a document, or the texts differ.
    """
    golds, systems = _by_id(gold, "gold"), _by_id(system, "system")
    if not golds and not systems:
        raise EvaluationError("there are no documents to evaluate")
    _refuse_lone(sorted(golds.keys() - systems.keys()), "gold", "system")
    _refuse_lone(sorted(systems.keys() - golds.keys()), "system", "gold")
    for name in sorted(golds):
        if golds[name].text != systems[name].text:
            raise EvaluationError(
                f"document {name}: the gold text ({len(golds[name].text)} characters) and the system's text "
                f"({len(systems[name].text)} characters) are not the same, so their offsets cannot be compared"
            )
    return tuple(Pair(golds[name], systems[name]) for name in sorted(golds))


def select_labels(documents: Iterable[Document], labels: frozenset[str]) -> tuple[Document, ...]:
    return tuple(document.with_spans(s for s in document.spans if s.label in labels) for document in documents)


def keep_labels(pairs: Sequence[Pair], labels: frozenset[str]) -> tuple[Pair, ...]:
    return tuple(Pair(*select_labels((pair.gold, pair.system), labels)) for pair in pairs)


def keep_gold_labels(pairs: Sequence[Pair], labels: frozenset[str]) -> tuple[Pair, ...]:
    """Keep only these labels in gold, and all in the system's notes: what hides gold PHI counts under any label."""
    golds = select_labels((pair.gold for pair in pairs), labels)
    return tuple(Pair(gold, pair.system) for gold, pair in zip(golds, pairs, strict=True))


def labels_of_pairs(pairs: Iterable[Pair]) -> frozenset[str]:
    return frozenset(span.label for pair in pairs for side in (pair.gold, pair.system) for span in side.spans)


def _by_id(documents: Sequence[Document], side: str) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for document in documents:
        if document.id in found:
            raise EvaluationError(f"document {document.id}: it comes twice on the {side} side")
        found[document.id] = document
    return found


def _refuse_lone(ids: Sequence[str], side: str, other: str) -> None:
    if ids:
        named = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
        raise EvaluationError(f"{len(ids)} documents of the {side} side are not on the {other} side: {named}")


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
