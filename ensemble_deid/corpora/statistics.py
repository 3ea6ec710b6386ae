"""Figures that describe a corpus."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from ensemble_deid.corpora.corpus import Corpus
from ensemble_deid.phi.groups import category_of
from ensemble_deid.text.document import Document
from ensemble_deid.text.tags import TagLoss, tag_loss
from ensemble_deid.text.tokens import tokenize

NO_CATEGORY = "(none)"


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """One label or category: the number of spans, and the distinct strings that they cover.

    Strings are compared with white space normalised, so that a name broken over two lines is the same name.
    """

    spans: int
    strings: frozenset[str] = field(repr=False)

    @property
    def distinct(self) -> int:
        """Number of distinct strings."""
        return len(self.strings)

    def unseen_share(self, known: "LabelStatistics | None") -> float | None:
        """Return the share of the distinct strings that `known` does not have; None if there are no strings."""
        new = self.strings - known.strings if known else self.strings
        return len(new) / len(self.strings) if self.strings else None


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Counts of a corpus. Words are separated by white space, tokens are those of `text.tokens`.

    `patients` counts each note of an unknown patient as a patient; `sites` counts the known sites.
    """

    notes: int
    patients: int
    sites: int
    words: int
    tokens: int
    characters: int
    words_of_note: tuple[int, float, int]
    """Fewest, median and most words of a note."""
    labels: Mapping[str, LabelStatistics]
    tokenization: TagLoss

    @property
    def spans(self) -> int:
        """PHI spans of all labels."""
        return sum(label.spans for label in self.labels.values())

    @property
    def phi_per_100_words(self) -> float | None:
        """Spans per 100 words; None if there are no words."""
        return 100 * self.spans / self.words if self.words else None

    @property
    def categories(self) -> dict[str, LabelStatistics]:
        """Totals by category (NAME, DATE, ...), most frequent first."""
        members: dict[str, list[LabelStatistics]] = defaultdict(list)
        for name, label in self.labels.items():
            members[category_of(name) or NO_CATEGORY].append(label)
        summed = {category: sum_up(labels) for category, labels in members.items()}
        return dict(sorted(summed.items(), key=lambda item: (-item[1].spans, item[0])))

    def as_dict(self, *, known: "CorpusStatistics | None" = None) -> dict[str, object]:
        """Return the figures as plain values for JSON; with `known` (train), also the share of strings unseen there."""
        fewest, middle, most = self.words_of_note
        loss = self.tokenization
        labels: dict[str, dict[str, object]] = {}
        for name, label in self.labels.items():
            labels[name] = {"category": category_of(name), "spans": label.spans, "distinct": label.distinct}
            if known:
                labels[name]["unseen_share"] = label.unseen_share(known.labels.get(name))
        return {
            "notes": self.notes,
            "patients": self.patients,
            "sites": self.sites,
            "words": self.words,
            "tokens": self.tokens,
            "characters": self.characters,
            "words_of_note": {"min": fewest, "median": middle, "max": most},
            "spans": self.spans,
            "phi_per_100_words": self.phi_per_100_words,
            "tokenization": {"spans_cut": loss.cut, "spans_lost": loss.lost},
            "labels": labels,
        }


def sum_up(labels: Iterable[LabelStatistics]) -> LabelStatistics:
    """Return the totals of several labels."""
    parts = list(labels)
    return LabelStatistics(sum(part.spans for part in parts), frozenset().union(*(part.strings for part in parts)))


def corpus_statistics(corpus: Corpus | Iterable[Document]) -> CorpusStatistics:
    """Count notes, patients, sites, words, tokens, and the PHI of each label (most frequent label first)."""
    documents = tuple(corpus)
    surfaces: dict[str, list[str]] = defaultdict(list)
    for document in documents:
        for span in document.spans:
            surfaces[span.label].append(" ".join(document.text[span.start : span.end].split()))
    labels = {
        label: LabelStatistics(len(strings), frozenset(strings))
        for label, strings in sorted(surfaces.items(), key=lambda item: (-len(item[1]), item[0]))
    }
    words = [len(document.text.split()) for document in documents]
    tokens = tokenize(documents)
    return CorpusStatistics(
        notes=len(documents),
        patients=len({document.group for document in documents}),
        sites=len({document.site for document in documents if document.site is not None}),
        words=sum(words),
        tokens=len(tokens),
        characters=sum(len(document.text) for document in documents),
        words_of_note=(min(words), median(words), max(words)) if words else (0, 0, 0),
        labels=labels,
        tokenization=tag_loss(documents, tokens),
    )
