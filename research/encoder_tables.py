"""Tables 1 to 5 of Ahmed et al. 2021 for any corpus: which networks, the notes, all PHI, each category, new strings.

Figures are means over seeds, with their standard deviation. Macro figures are those of the paper and of the 2014 i2b2
script: means over notes, 0 where a note has none, and the harmonic mean of the two as F1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.official import OfficialMacro, OfficialRow, macro_of
from ensemble_deid.evaluation.pairs import pair_documents
from ensemble_deid.evaluation.subgroups import seen_key
from ensemble_deid.evaluation.views import count_view, runs_in, tokens_of
from ensemble_deid.note.counts import Counts, ratio
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import category_of
from ensemble_deid.note.tags import TagScheme, spans_to_tags
from ensemble_deid.note.tokens import tokenize

REFERENCE = "BiLSTM-CRF"
"""The network that the others are compared with: the paper's best."""
SEEN, KNOWN_WORDS, NEW_WORDS = "seen", "unseen, of known words", "unseen, with a new word"
Notes = Sequence[Document]


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean of a figure over seeds and its sample standard deviation (None for one seed); None where undefined."""

    mean: float | None
    sd: float | None = None

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Figure":
        """Summarise the values of all seeds; undefined where one of them is."""
        defined = [value for value in values if value is not None]
        if len(defined) < len(values):
            return cls(None)
        return cls(fmean(defined), stdev(defined) if len(defined) > 1 else None)


@dataclass(frozen=True, slots=True)
class Triple:
    """Precision, recall and F1."""

    precision: Figure
    recall: Figure
    f1: Figure


@dataclass(frozen=True, slots=True)
class Size:
    """A split after tokenization; `vocabulary` counts distinct words, `new_words` those that training does not have."""

    notes: int
    sentences: int
    tokens: int
    vocabulary: int
    new_words: int
    phi: int
    phi_tokens: int


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """All figures of one network. `difference` is its micro F1 less that of the reference, seeds pooled."""

    macro: Triple
    micro: Triple
    difference: PairedDifference | None
    by_category: Mapping[str, tuple[Triple, Triple]]
    """Strict entity figures, then token figures."""
    recall: Mapping[str, Figure]
    """Strict recall of annotations by whether training has their string, and their words."""


@dataclass(frozen=True, slots=True)
class EncoderTables:
    """What `compare-encoders` prints."""

    seeds: tuple[int, ...]
    train: Size
    dev: Size
    groups: Mapping[str, int]
    networks: Mapping[str, NetworkFigures] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return asdict(self)


def encoder_tables(
    train: Notes, gold: Notes, answers: Mapping[str, Sequence[Notes]], *, seeds: Sequence[int], resamples: int
) -> EncoderTables:
    """Score the answers of each network, one for each seed, against gold; `train` are the notes of training."""
    group_of = _grouping(train)
    groups = dict.fromkeys((SEEN, KNOWN_WORDS, NEW_WORDS), 0)
    for document in gold:
        for key in {span.key for span in document.spans}:
            groups[group_of(document, key[0], key[1])] += 1
    pooled = {name: _pooled(gold, runs) for name, runs in answers.items()}
    patients = tuple(pair.group for pair in pair_documents(gold, gold))
    networks = {}
    for name, runs in answers.items():
        difference = None
        if REFERENCE in pooled and name != REFERENCE:
            difference = paired_difference(pooled[name], pooled[REFERENCE], patients, resamples=resamples)
        networks[name] = _figures(gold, runs, difference, group_of)
    known = _words(train)
    return EncoderTables(tuple(seeds), _size(train, known), _size(gold, known), groups, networks)


def _pooled(gold: Notes, runs: Sequence[Notes]) -> Int64s:
    """Return strict counts of every note added up over seeds, (notes, 3)."""
    pooled: Int64s = np.stack([count_view(gold, run, "strict").per_document for run in runs]).sum(axis=0)
    return pooled


def _figures(
    gold: Notes,
    runs: Sequence[Notes],
    difference: PairedDifference | None,
    group_of: Callable[[Document, int, int], str],
) -> NetworkFigures:
    strict = [count_view(gold, run, "strict") for run in runs]
    token = [count_view(gold, run, "token") for run in runs]
    macro = [macro_of(OfficialRow("Strict", table.per_document)) for table in strict]
    categories = sorted({_category(span.label) for document in gold for span in document.spans})
    by_category = {
        category: (
            _triple([t.only(label for label in t.labels if _category(label) == category).total for t in strict]),
            _triple([t.only(label for label in t.labels if _category(label) == category).total for t in token]),
        )
        for category in categories
    }
    shares = [_recall_by_group(gold, run, group_of) for run in runs]
    recall = {name: Figure.of([share[name] for share in shares]) for name in (SEEN, KNOWN_WORDS, NEW_WORDS)}
    return NetworkFigures(_triple(macro), _triple([table.total for table in strict]), difference, by_category, recall)


def _triple(runs: Sequence[Counts | OfficialMacro]) -> Triple:
    precision, recall = Figure.of([run.precision for run in runs]), Figure.of([run.recall for run in runs])
    return Triple(precision, recall, Figure.of([run.f1 for run in runs]))


def _category(label: str) -> str:
    return category_of(label) or label


def _grouping(train: Notes) -> Callable[[Document, int, int], str]:
    """Return the function that says whether training annotates an annotation's string, or at least has its words."""
    strings = {seen_key(d.text[span.start : span.end]) for d in train for span in d.spans}
    runs = {document.text[a:b].lower() for document in train for a, b in tokens_of(document.text)}

    def group_of(document: Document, start: int, end: int) -> str:
        if seen_key(document.text[start:end]) in strings:
            return SEEN
        words = (document.text[a:b].lower() for a, b in runs_in(document.text, start, end))
        return KNOWN_WORDS if all(word in runs for word in words) else NEW_WORDS

    return group_of


def _recall_by_group(gold: Notes, run: Notes, group_of: Callable[[Document, int, int], str]) -> dict[str, float | None]:
    found, wanted = dict.fromkeys((SEEN, KNOWN_WORDS, NEW_WORDS), 0), dict.fromkeys((SEEN, KNOWN_WORDS, NEW_WORDS), 0)
    for pair in pair_documents(gold, run):
        answer = {span.key for span in pair.system.spans}
        for key in {span.key for span in pair.gold.spans}:
            group = group_of(pair.gold, key[0], key[1])
            wanted[group] += 1
            found[group] += key in answer
    return {group: ratio(found[group], wanted[group]) for group in wanted}


def _words(documents: Notes) -> frozenset[str]:
    return frozenset(tokenize(documents).words(documents))


def _size(documents: Notes, known: frozenset[str]) -> Size:
    tokens = tokenize(documents, split_lines=True)
    words = frozenset(tokens.words(documents))
    scheme = TagScheme.from_labels(span.label for document in documents for span in document.spans)
    tagged = spans_to_tags([document.spans for document in documents], tokens, scheme).codes
    return Size(
        notes=len(documents),
        sentences=len(tokens.sentence_starts),
        tokens=len(tokens),
        vocabulary=len(words),
        new_words=len(words - known),
        phi=sum(len({span.key for span in document.spans}) for document in documents),
        phi_tokens=int(np.count_nonzero(tagged)),
    )
