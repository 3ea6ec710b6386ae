"""What an inclusion list drops of a system's answer, counted on annotated notes before the list is used."""

from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.pipeline.inclusion import InclusionList
from ensemble_deid.text.document import Document
from ensemble_deid.text.sentence_ranges import plain_sentence, sentence_ranges


@dataclass(frozen=True, slots=True)
class InclusionEffect:
    """Sentences on the list, of all; spans dropped, and how many of these overlap an annotation and so are PHI."""

    sentences: int
    all_sentences: int
    dropped: int
    annotated: int


def inclusion_effect(listed: InclusionList, gold: Sequence[Document], system: Sequence[Document]) -> InclusionEffect:
    """Count on notes: `system` has the same notes as `gold`, in any order, with the spans that were found."""
    answers = {document.id: document.spans for document in system}
    sentences = every = dropped = annotated = 0
    for document in gold:
        ranges = sentence_ranges(document)
        every += len(ranges)
        sentences += sum(plain_sentence(document.text[start:end]) in listed.sentences for start, end in ranges)
        found = document.with_spans(answers.get(document.id, ()))
        kept, number = listed.apply(found)
        dropped += number
        lost = set(found.spans) - set(kept.spans)
        annotated += sum(any(span.overlaps(other) for other in document.spans) for span in lost)
    return InclusionEffect(sentences, every, dropped, annotated)
