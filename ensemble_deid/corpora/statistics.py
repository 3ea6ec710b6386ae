"""What a corpus holds, in figures."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from ensemble_deid.corpora.corpus import Corpus


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """One label: how many spans, and how many different strings they cover."""

    spans: int
    distinct: int

    @property
    def distinct_share(self) -> float:
        """Different strings for each span, in (0, 1]."""
        return self.distinct / self.spans


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """Counts of a corpus; a word is a run without white space.

    `patients` counts a note of no known patient as one; `sites` counts the sites that are known.
    """

    notes: int
    patients: int
    sites: int
    words: int
    characters: int
    words_of_note: tuple[int, float, int]
    """Fewest, median and most words of a note."""
    labels: Mapping[str, LabelStatistics]

    @property
    def spans(self) -> int:
        """PHI spans of all labels."""
        return sum(label.spans for label in self.labels.values())

    @property
    def phi_per_100_words(self) -> float | None:
        """Spans for each 100 words; None where there are no words."""
        return 100 * self.spans / self.words if self.words else None

    def as_dict(self) -> dict[str, object]:
        """Return the figures as plain values, ready for JSON."""
        fewest, middle, most = self.words_of_note
        return {
            "notes": self.notes,
            "patients": self.patients,
            "sites": self.sites,
            "words": self.words,
            "characters": self.characters,
            "words_of_note": {"min": fewest, "median": middle, "max": most},
            "spans": self.spans,
            "phi_per_100_words": self.phi_per_100_words,
            "labels": {
                name: {"spans": label.spans, "distinct": label.distinct, "distinct_share": label.distinct_share}
                for name, label in self.labels.items()
            },
        }


def corpus_statistics(corpus: Corpus) -> CorpusStatistics:
    """Count notes, patients, words, and the PHI of each label (most frequent label first)."""
    surfaces: dict[str, list[str]] = defaultdict(list)
    for document in corpus:
        for span in document.spans:
            surfaces[span.label].append(document.text[span.start : span.end])
    labels = {
        label: LabelStatistics(len(strings), len(set(strings)))
        for label, strings in sorted(surfaces.items(), key=lambda item: (-len(item[1]), item[0]))
    }
    words = [len(document.text.split()) for document in corpus]
    return CorpusStatistics(
        notes=len(corpus),
        patients=len({document.group for document in corpus}),
        sites=len({document.site for document in corpus if document.site is not None}),
        words=sum(words),
        characters=sum(len(document.text) for document in corpus),
        words_of_note=(min(words), median(words), max(words)) if words else (0, 0, 0),
        labels=labels,
    )


def render_statistics(statistics: CorpusStatistics) -> str:
    """Return the figures as a text table for a terminal."""
    fewest, middle, most = statistics.words_of_note
    density = statistics.phi_per_100_words
    lines = [
        f"notes      {statistics.notes:>9,}",
        f"patients   {statistics.patients:>9,}",
        f"words      {statistics.words:>9,}   (a note: {fewest} to {most}, median {middle:g})",
        f"PHI spans  {statistics.spans:>9,}   ({'-' if density is None else f'{density:.1f}'} per 100 words)",
        "",
    ]
    if statistics.labels:
        width = max(5, *(len(name) for name in statistics.labels))
        lines.append(f"{'label':<{width}}  {'spans':>7}  {'distinct':>8}  {'share':>6}")
        lines += [
            f"{name:<{width}}  {label.spans:>7,}  {label.distinct:>8,}  {label.distinct_share:>6.1%}"
            for name, label in statistics.labels.items()
        ]
    return "\n".join(lines).rstrip() + "\n"
