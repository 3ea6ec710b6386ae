"""Patterns and sentences that recur in annotated notes (Murugadoss et al. 2021), and their precision on other notes.

A pattern is made of a syntax template that has one PHI template only, in enough patients and often enough; a single
wrong match of its regex anywhere in the notes drops the template. So a pattern's own notes say nothing of its
precision: all get that of patterns harvested from other groups of notes (sites, else patients).

An inclusion list takes sentences seen in enough patients, and in none of them with PHI. It is plain text, because
people must review it; hashes would hide nothing, since common sentences can be guessed. Sentences that contain a string
annotated as PHI anywhere are left out, because annotators may have overlooked it there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.features.pattern_text import patterns_text, toml_string
from ensemble_deid.features.patterns import Pattern, PatternSet, find_all
from ensemble_deid.model.additions import InclusionList, plain_sentence, sentence_ranges
from ensemble_deid.note.document import Document, grouped_by_site
from ensemble_deid.note.reading import as_read
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.training.sentence_templates import Slots, Syntax, has_word, in_words, patterns_of, templates_of

_LONGEST = 60
"""Items of a template: a longer sentence comes again only as a copy."""
_LONGEST_SENTENCE = 400
"""Characters of a sentence in an inclusion list."""
_MARKS = frozenset("«»")


@dataclass(frozen=True, slots=True)
class HarvestLimits:
    """Least patients and occurrences of a template, the most templates that are kept, and the folds to measure on."""

    patients: int = 5
    occurrences: int = 10
    templates: int = 200
    folds: int = 5

    def __post_init__(self) -> None:
        for name in ("patients", "occurrences", "templates"):
            if getattr(self, name) < 1:
                raise ConfigError(f"harvest: the number of {name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class PatternHits:
    """How often patterns matched on annotated notes, and how many of the matches were annotated just so."""

    found: int = 0
    right: int = 0

    @property
    def wrong(self) -> int:
        """Matches that are no annotation, by place or by label."""
        return self.found - self.right

    @property
    def confidence(self) -> float:
        """The precision with Laplace smoothing: one half where nothing was found."""
        return (self.right + 1) / (self.found + 2)

    def __add__(self, other: "PatternHits") -> "PatternHits":
        return PatternHits(self.found + other.found, self.right + other.right)


@dataclass(frozen=True, slots=True)
class HarvestedTemplate:
    """A syntax template with its only PHI template, and how many patients and sentences have it."""

    syntax: Syntax = field(repr=False)
    slots: Slots
    patients: int
    occurrences: int


@dataclass(frozen=True, slots=True)
class Harvest:
    """The templates kept, most patients first; `elsewhere` is what such patterns hit on notes held out.

    `ambiguous` templates had several PHI templates, `refuted` ones a regex that was wrong somewhere.
    """

    templates: tuple[HarvestedTemplate, ...]
    elsewhere: PatternHits
    ambiguous: int
    refuted: int

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        score = round(self.elsewhere.confidence, 4)
        return tuple(p for t in self.templates for p in patterns_of(t.syntax, t.slots, confidence=score))

    def text(self, *, name: str) -> str:
        """Return the pattern file. Raises CorpusError where there is no pattern."""
        if not self.templates:
            raise CorpusError(f"{name}: no sentence comes with PHI at the same places in enough patients")
        remarks = {
            pattern.name: f"{in_words(t.syntax)} ({t.patients} patients, {t.occurrences} times)"
            for t in self.templates
            for pattern in patterns_of(t.syntax, t.slots)
        }
        description = (
            "Harvested from sentences that come with PHI at the same places. On notes held out, such patterns found "
            f"{self.elsewhere.found} spans, {self.elsewhere.right} of them right. Review before use: words outside "
            "the PHI are those of the notes."
        )
        return patterns_text(self.patterns, name="harvested", description=description, remarks=remarks)


def harvest_patterns(documents: Sequence[Document], limits: HarvestLimits | None = None) -> Harvest:
    """Return what an annotated corpus yields; the confidence is measured on folds of sites, else of patients."""
    limits = limits or HarvestLimits()
    templates, ambiguous, refuted = _kept(documents, limits)
    return Harvest(templates, _elsewhere(documents, limits), ambiguous, refuted)


def count_hits(patterns: Iterable[Pattern], documents: Iterable[Document]) -> dict[str, PatternHits]:
    """Return the hits of each pattern by name, each by itself: what others find at the same place does not matter.

    Raises CorpusError for a pattern that takes too long on a note.
    """
    chosen = PatternSet("", tuple(patterns), "")
    hits = {pattern.name: PatternHits() for pattern in chosen.patterns}
    for document in map(as_read, documents):
        gold = {span.key for span in document.spans}
        for span in find_all(chosen, document):
            hits[span.source] += PatternHits(1, int(span.key in gold))
    return hits


def _kept(documents: Sequence[Document], limits: HarvestLimits) -> tuple[tuple[HarvestedTemplate, ...], int, int]:
    """Return the templates that fix their PHI, and how many were ambiguous and refuted."""
    candidates, ambiguous = _candidates(documents, limits)
    patterns = {k: patterns_of(template.syntax, template.slots) for k, template in enumerate(candidates)}
    hits = count_hits([pattern for several in patterns.values() for pattern in several], documents)
    kept = [t for k, t in enumerate(candidates) if not any(hits[pattern.name].wrong for pattern in patterns[k])]
    return tuple(kept[: limits.templates]), ambiguous, len(candidates) - len(kept)


def _candidates(documents: Sequence[Document], limits: HarvestLimits) -> tuple[list[HarvestedTemplate], int]:
    """Return the templates with one PHI template, those of most patients first, and how many had several."""
    seen: dict[Syntax, dict[Slots, list[str]]] = defaultdict(lambda: defaultdict(list))
    # As patterns are matched, and as a file of them is read: with plain apostrophes and the like.
    for document in map(as_read, documents):
        for syntax, slots in templates_of(document):
            if len(syntax) <= _LONGEST:
                seen[syntax][slots].append(document.patient)
    frequent = {syntax: found for syntax, found in seen.items() if _is_frequent(syntax, found, limits)}
    templates = [
        HarvestedTemplate(syntax, slots, len(set(patients)), len(patients))
        for syntax, found in frequent.items()
        if len(found) == 1
        for slots, patients in found.items()
    ]
    templates.sort(key=lambda t: (-t.patients, -t.occurrences, t.syntax, t.slots))
    return templates, len(frequent) - len(templates)


def _is_frequent(syntax: Syntax, found: Mapping[Slots, Sequence[str]], limits: HarvestLimits) -> bool:
    patients = [patient for several in found.values() for patient in several]
    if len(patients) < limits.occurrences or len(set(patients)) < limits.patients:
        return False
    return has_word(syntax) and not any(_MARKS & set(item.text) for item in syntax)


def _elsewhere(documents: Sequence[Document], limits: HarvestLimits) -> PatternHits:
    """Harvest from some folds, count on the other one, each in turn; no hits where there are too few groups."""
    groups = [document.group for document in grouped_by_site(documents)]
    n_folds = min(limits.folds, len(set(groups)))
    if n_folds < 2:
        return PatternHits()
    fold = group_folds(groups, n_folds, generator(0, "harvest")).tolist()
    total = PatternHits()
    for number in range(n_folds):
        inside = [document for document, k in zip(documents, fold, strict=True) if k != number]
        held_out = [document for document, k in zip(documents, fold, strict=True) if k == number]
        templates, _, _ = _kept(inside, limits)
        patterns = [p for t in templates for p in patterns_of(t.syntax, t.slots)]
        total = sum(count_hits(patterns, held_out).values(), total)
    return total


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
    frequent = {
        sentence: len(having)
        for sentence, having in patients.items()
        if len(having) >= min_patients
        and len(sentence) <= _LONGEST_SENTENCE
        and sentence.isprintable()
        and any(map(str.isalpha, sentence))
    }
    clean = [sentence for sentence in frequent if sentence not in with_phi]
    annotated = {document.text[span.start : span.end] for document in documents for span in document.spans}
    phi_strings = frozenset(map(_words, annotated))
    safe = [sentence for sentence in clean if not _holds(sentence, phi_strings)]
    safe.sort(key=lambda sentence: (-frequent[sentence], sentence))
    chosen = tuple((sentence, frequent[sentence]) for sentence in safe[:most])
    return FrequentSentences(chosen, len(frequent) - len(clean), len(clean) - len(safe))


def _words(text: str) -> tuple[str, ...]:
    return tuple(tokenize([document := Document("", text)]).words([document]))


def _holds(sentence: str, strings: frozenset[tuple[str, ...]]) -> bool:
    """Whether a sentence contains the consecutive words of one of the strings."""
    words = _words(sentence)
    n = len(words)
    return any(words[low:high] in strings for low in range(n) for high in range(low + 1, n + 1))


@dataclass(frozen=True, slots=True)
class InclusionEffect:
    """Sentences on the list, out of all; spans dropped, and how many of these overlap an annotation and so are PHI."""

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
