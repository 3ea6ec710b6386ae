"""Frequent sentences without PHI, for an inclusion list (Murugadoss et al. 2021).

A sentence enters that was seen in enough patients, and in none of them with PHI. It is written in clear: a list that
decides what is not PHI must be read by people, and a hash of a common sentence hides nothing, since whoever guesses the
sentence has it. What a list could give away is PHI that was overlooked in the annotation. So a sentence that holds a
string annotated as PHI anywhere in the corpus is left out. Each word of a sentence was seen in at least as many
patients as the sentence, so none of them points to one patient.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.features.pattern_text import toml_string
from ensemble_deid.model.inclusion import InclusionList, plain_sentence, sentence_ranges
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import tokenize

_LONGEST = 400
"""Characters of a sentence."""


@dataclass(frozen=True, slots=True)
class FrequentSentences:
    """Sentences with the number of their patients, most patients first; how many were left out, and why."""

    patients: tuple[tuple[str, int], ...] = field(repr=False)
    with_phi: int
    with_phi_string: int

    def text(self, *, name: str, least: int) -> str:
        """Return the inclusion list as a file. Raises CorpusError where there is no sentence."""
        if not self.patients:
            raise CorpusError(f"{name}: no sentence without PHI was seen in {least} patients")
        lines = [f"    {toml_string(sentence)},  # {n} patients" for sentence, n in self.patients]
        description = (
            f"Sentences seen in {least} patients or more, never with PHI. Review before use: what a model finds inside "
            "them is not removed."
        )
        head = [f"name = {toml_string('harvested')}", f"description = {toml_string(description)}", "sentences = ["]
        return "\n".join([*head, *lines, "]"]) + "\n"


def frequent_sentences(documents: Sequence[Document], *, min_patients: int = 10, most: int = 1600) -> FrequentSentences:
    """Return the sentences of an annotated corpus that an inclusion list may hold, at most `most` of them."""
    if min_patients < 2 or most < 1:
        raise ConfigError(
            f"harvest: an inclusion list needs 2 patients and 1 sentence or more, not {min_patients}, {most}"
        )
    patients: dict[str, set[str]] = defaultdict(set)
    with_phi: set[str] = set()
    for document in documents:
        spans = sorted(document.spans)
        for start, end in sentence_ranges(document):
            sentence = plain_sentence(document.text[start:end])
            patients[sentence].add(document.patient)
            if any(span.start < end and start < span.end for span in spans):
                with_phi.add(sentence)
    frequent = {s: len(p) for s, p in patients.items() if len(p) >= min_patients and _is_plain(s)}
    clean = [sentence for sentence in frequent if sentence not in with_phi]
    phi_strings = _phi_strings(documents)
    safe = [sentence for sentence in clean if not _holds(sentence, phi_strings)]
    safe.sort(key=lambda sentence: (-frequent[sentence], sentence))
    chosen = tuple((sentence, frequent[sentence]) for sentence in safe[:most])
    return FrequentSentences(chosen, len(frequent) - len(clean), len(clean) - len(safe))


def _is_plain(sentence: str) -> bool:
    """Whether a sentence has a letter, is not endless, and holds nothing but what can be seen."""
    return len(sentence) <= _LONGEST and sentence.isprintable() and any(map(str.isalpha, sentence))


def _words(text: str) -> tuple[str, ...]:
    return tuple(tokenize([document := Document("", text)]).words([document]))


def _phi_strings(documents: Sequence[Document]) -> frozenset[tuple[str, ...]]:
    """Return the words of every annotated string, as they are written."""
    strings = {document.text[span.start : span.end] for document in documents for span in document.spans}
    return frozenset(map(_words, strings))


def _holds(sentence: str, strings: frozenset[tuple[str, ...]]) -> bool:
    """Whether the words of one of the strings stand in a sentence, one after the other."""
    words = _words(sentence)
    n = len(words)
    return any(words[low:high] in strings for low in range(n) for high in range(low + 1, n + 1))


# What an inclusion list drops of a system's answer, counted on annotated notes before the list is used.


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
