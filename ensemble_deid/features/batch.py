"""A batch: documents, their tokens and their feature table, computed once and shared by all taggers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.features.columns import Stem, note_columns, position_columns, word_columns
from ensemble_deid.features.knowledge import Knowledge, as_training_sees, knowledge_columns, training_columns
from ensemble_deid.features.lexicon import Lexicon, lexicon_columns
from ensemble_deid.features.patterns import PatternSet, find_all
from ensemble_deid.features.stanza_tags import Annotate, stanza_columns
from ensemble_deid.features.table import Column, FeatureTable
from ensemble_deid.note.bpe import Bpe
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import keep_first
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme, spans_to_tags
from ensemble_deid.note.tokens import TokenTable, tokenize


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Documents as columns. `initial` holds the matches of the regex patterns, which any learner may use.

    `same_word` int32 (n_tokens,) is equal where the lower-cased words are, also where the table's vocabulary is closed.
    `added` holds, for each document, the matches of patterns that were added after training, overlapping ones too,
    scored with the patterns' confidence; it is empty where there are no such patterns. No column depends on it.
    """

    documents: tuple[Document, ...] = field(repr=False)
    tokens: TokenTable = field(repr=False)
    table: FeatureTable = field(repr=False)
    initial: tuple[tuple[Span, ...], ...] = field(repr=False)
    same_word: Int32s = field(repr=False)
    added: tuple[tuple[Span, ...], ...] = field(default=(), repr=False)

    def gold(self, scheme: TagScheme) -> Int32s:
        """Return the annotated tags as codes, int32 (n_tokens,)."""
        return spans_to_tags([document.spans for document in self.documents], self.tokens, scheme).codes


def select_documents(batch: Batch, indexes: Sequence[int]) -> Batch:
    """Return the batch of some of the documents, in the given order; no feature is computed again.

    Only right for features that a document decides alone, which all but the lexicon's are.
    """
    bounds = batch.tokens.document_starts.tolist()
    ranges = [np.arange(bounds[d], bounds[d + 1], dtype=np.int64) for d in indexes]
    rows = np.concatenate(ranges) if ranges else np.zeros(0, np.int64)
    sizes = [len(part) for part in ranges]
    owners = np.repeat(np.arange(len(indexes), dtype=np.int32), sizes)
    tokens = TokenTable(
        start=batch.tokens.start[rows],
        end=batch.tokens.end[rows],
        document=owners,
        line=_renumbered(batch.tokens.line[rows], owners),
        sentence=_renumbered(batch.tokens.sentence[rows], owners),
        document_starts=np.cumsum([0, *sizes]).astype(np.int32),
    )
    columns = {name: Column(column.codes[rows], column.values) for name, column in batch.table.columns.items()}
    documents = tuple(batch.documents[d] for d in indexes)
    initial = tuple(batch.initial[d] for d in indexes)
    added = tuple(batch.added[d] for d in indexes) if batch.added else ()
    return Batch(
        documents, tokens, table=FeatureTable(columns), initial=initial, same_word=batch.same_word[rows], added=added
    )


def _renumbered(column: Int32s, owners: Int32s) -> Int32s:
    """Return runs of equal values counted from 0; a new document begins a new run."""
    steps = np.ones(len(column), dtype=np.int32)
    if len(column):
        steps[0] = 0
        steps[1:] = (column[1:] != column[:-1]) | (owners[1:] != owners[:-1])
    return np.cumsum(steps).astype(np.int32)


def plain_batch(
    documents: Sequence[Document],
    *,
    patterns: PatternSet,
    split_lines: bool,
    bpe: Bpe | None = None,
    annotate: Annotate | None = None,
    stem: Stem | None = None,
    knowledge: Knowledge | None = None,
    added: PatternSet | None = None,
    for_training: bool = False,
) -> Batch:
    """Make a batch without the columns that are learned from annotations (see `with_lexicon`).

    `bpe` splits the tokens into pieces; `annotate`, a stanza pipeline, adds the columns `pos` and `ner`.
    `stem` and `knowledge` add their columns, and with `for_training` there is a second version of the latter,
    which `training_view` takes. `added` are patterns whose matches become `Batch.added`, and no columns.
    """
    documents = tuple(documents)
    tokens = tokenize(documents, split_lines=split_lines)
    if bpe is not None:
        tokens = bpe.refine(documents, tokens)
    word = word_column(documents, tokens)
    found = [_matches(patterns, document) for document in documents]
    initial = tuple(keep_first(spans) for spans in found)
    scheme = TagScheme.from_labels(patterns.labels)
    tags = scheme.tags
    columns = word_columns(word)
    if stem is not None:
        columns["stem"] = word.map_values(stem)
    columns.update(position_columns(documents, tokens))
    initial_codes = spans_to_tags(initial, tokens, scheme).codes
    columns["initial"] = Column(initial_codes, tags)
    columns["pattern"] = Column.from_strings(_pattern_names(found, tokens))
    columns.update(note_columns(columns["lower"], columns["case"], columns["initial"], tokens))
    if annotate is not None:
        columns.update(stanza_columns(documents, tokens, annotate))
    if knowledge is not None:
        known = knowledge_columns(knowledge, word, tokens, hidden=False)
        if for_training:
            known = training_columns(known, knowledge_columns(knowledge, word, tokens, hidden=True))
        columns.update(known)
    later = () if added is None else tuple(_added_matches(added, document) for document in documents)
    return Batch(
        documents, tokens, table=FeatureTable(columns), initial=initial, same_word=columns["lower"].codes, added=later
    )


def word_column(documents: Sequence[Document], tokens: TokenTable) -> Column:
    """Return the words of the tokens."""
    return Column.from_strings(tokens.words(documents))


def with_lexicon(batch: Batch, lexicon: Lexicon, *, leave_own_patient_out: bool) -> Batch:
    """Return the batch with the lexicon's columns, and its vocabulary closed if the lexicon has one.

    See `lexicon_columns` for `leave_own_patient_out`.
    """
    batch = with_vocabulary(batch, lexicon)
    lower = batch.table["lower"].strings()
    columns = lexicon_columns(
        lexicon, batch.documents, batch.tokens, lower, leave_own_patient_out=leave_own_patient_out
    )
    return replace(batch, table=batch.table.with_columns(columns))


def with_vocabulary(batch: Batch, lexicon: Lexicon) -> Batch:
    """Return the batch with words outside the lexicon's vocabulary replaced by their class, if it has a vocabulary."""
    return batch if lexicon.vocabulary is None else replace(batch, table=lexicon.vocabulary.close(batch.table))


def training_view(batch: Batch) -> Batch:
    """Return the batch for training: part of what the public lists say about words is hidden from the submodels."""
    return replace(batch, table=as_training_sees(batch.table))


def _matches(patterns: PatternSet, document: Document) -> list[Span]:
    """Return all matches except those of white space only, which contain no token."""
    return [span for span in find_all(patterns, document) if not document.text[span.start : span.end].isspace()]


def _added_matches(added: PatternSet, document: Document) -> tuple[Span, ...]:
    """Return the matches of added patterns with their confidence, one half for a pattern that was never measured."""
    scores = {pattern.name: pattern.confidence for pattern in added.patterns}
    found = ((span, scores[span.source]) for span in _matches(added, document))
    return tuple(replace(span, score=0.5 if score is None else score) for span, score in found)


def _pattern_names(found: Sequence[Sequence[Span]], tokens: TokenTable) -> list[str]:
    """Return for every token the first pattern that matches it, even if overruled by another; `-` if none does."""
    names = ["-"] * len(tokens)
    for d, spans in enumerate(found):
        first, after = tokens.rows_in(d, [span.start for span in spans], [span.end for span in spans])
        for span, low, high in zip(spans, first.tolist(), after.tolist(), strict=True):
            for row in range(low, high):
                if names[row] == "-":
                    names[row] = span.source
    return names
