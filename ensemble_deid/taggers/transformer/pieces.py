"""From tokens to word pieces, and windows of whole tokens over a document.

Vocabularies that mark blanks (byte-level BPE, SentencePiece) have other pieces for a word after a blank than for one
after a bracket, so the running text is cut, and tokens find their pieces by offsets. WordPiece drops blanks, so
every distinct word is cut once.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.tokens import TokenTable

CASES = ("lower", "upper", "title", "mixed", "other")
"""Casing of a token, which an uncased vocabulary does not show."""

GAPS = ("none", "space", "spaces", "line", "blank line")
"""What stands before a token, which no word-piece vocabulary shows."""

Cut = Literal["words", "running text"]
"""What a tokenizer is given: each token alone, or a document's text."""

CUTS: tuple[Cut, ...] = get_args(Cut)

_LONGEST_WORD = 8
"""Pieces of one token that are read: only the first piece is classified, the others are its context."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """A batch of documents as word pieces, one row a piece in text order.

    `ids` int64 (n_pieces,) are vocabulary ids; `case` and `gap` int64 (n_pieces,) index `CASES` and `GAPS` (later
    pieces of a token have the gap `none`); `features` int64 (n_pieces, features) are codes of columns, 0 for a value
    that training did not see; `first` int64 (n_tokens + 1,): token t has the pieces `first[t]` to `first[t + 1]`.
    """

    ids: Int64s
    case: Int64s
    gap: Int64s
    features: Int64s
    first: Int64s


PieceVocabulary = Mapping[str, Mapping[str, int]]
"""Column -> value -> code, from 1 on."""


def learn_pieces(batch: Batch, columns: Sequence[str]) -> PieceVocabulary:
    """Return the codes of the values that the columns have in a training batch; columns that it lacks are left out."""
    table = batch.table
    present = [name for name in columns if name in table.names]
    return {name: {value: k for k, value in enumerate(sorted(set(table[name].values)), 1)} for name in present}


def cut_of(tokenizer: Tokenizer) -> Cut:
    """Return what a new model gives this tokenizer."""
    return "words" if isinstance(tokenizer.model, WordPiece) else "running text"


def cut_into_pieces(
    batch: Batch, tokenizer: Tokenizer, vocabulary: PieceVocabulary, *, unknown: int, cut: Cut
) -> Pieces:
    """Cut the tokens of a batch into word pieces. Raises ModelError when a column of the vocabulary is not there."""
    missing = [name for name in vocabulary if name not in batch.table.names]
    if missing:
        raise ModelError(f"the transformer asks for the column {missing[0]!r}, which is not there")
    ids, first = (_of_words if cut == "words" else _of_running_text)(batch, tokenizer, unknown)
    word = batch.table["word"]
    token_of_piece = np.repeat(np.arange(len(word.codes)), np.diff(first))
    case_of_word = np.array([_case(value) for value in word.values] or [0], dtype=np.int64)
    gap = np.where(np.arange(len(token_of_piece)) == first[:-1][token_of_piece], _gaps(batch)[token_of_piece], 0)
    codes = [batch.table[name].lookup(values, unknown=0) for name, values in vocabulary.items()]
    features = np.stack(codes, axis=1).astype(np.int64) if codes else np.zeros((len(word.codes), 0), np.int64)
    return Pieces(ids, case_of_word[word.codes[token_of_piece]], gap, features[token_of_piece], first)


def _of_words(batch: Batch, tokenizer: Tokenizer, unknown: int) -> tuple[Int64s, Int64s]:
    """Return the pieces of every token, cut alone, and where each token's begin."""
    word = batch.table["word"]
    encodings = tokenizer.encode_batch(list(word.values), add_special_tokens=False) if word.values else []
    by_word = [encoding.ids[:_LONGEST_WORD] or [unknown] for encoding in encodings]
    sizes = np.array([len(ids) for ids in by_word], dtype=np.int64)[word.codes] if by_word else np.zeros(0, np.int64)
    table = np.zeros((max(1, len(by_word)), _LONGEST_WORD), dtype=np.int64)
    for row, ids in enumerate(by_word):
        table[row, : len(ids)] = ids
    first, within = _places(sizes)
    return table[np.repeat(word.codes, sizes), within], first


def _of_running_text(batch: Batch, tokenizer: Tokenizer, unknown: int) -> tuple[Int64s, Int64s]:
    """Return the pieces of every token in the text as it is cut whole, and where each token's begin.

    Each token of those that share a piece has its own copy. Pieces of blanks follow the token before them.
    """
    tokens = batch.tokens
    encodings = tokenizer.encode_batch([document.text for document in batch.documents], add_special_tokens=False)
    found: list[Int64s] = []
    sizes = np.zeros(len(tokens), dtype=np.int64)
    for (low, high), encoding in zip(_documents(tokens.document_starts), encodings, strict=True):
        ids = np.array([*encoding.ids, unknown], dtype=np.int64)
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        # The token's pieces are those from the first that ends in it or later to the last that begins before its end.
        begin = np.searchsorted(offsets[:, 1], tokens.start[low:high], side="right")
        after = np.searchsorted(offsets[:, 0], tokens.end[low:high], side="left")
        after = np.maximum(after, np.append(begin[1:], len(offsets))[: high - low])
        lost = after <= begin
        begin, after = np.where(lost, len(ids) - 1, begin), np.where(lost, len(ids), after)
        sizes[low:high] = np.minimum(after - begin, _LONGEST_WORD)
        _, within = _places(sizes[low:high])
        found.append(ids[np.repeat(begin, sizes[low:high]) + within])
    return np.concatenate([np.zeros(0, np.int64), *found]), _places(sizes)[0]


def _places(sizes: Int64s) -> tuple[Int64s, Int64s]:
    """Return where each token's pieces begin, (n_tokens + 1,), and each piece's number in its token, (n_pieces,)."""
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return first, np.arange(first[-1]) - np.repeat(first[:-1], sizes)


def _case(word: str) -> int:
    if not any(character.isalpha() for character in word):
        return CASES.index("other")
    if word.islower():
        return CASES.index("lower")
    if word.isupper() and len(word) > 1:
        return CASES.index("upper")
    return CASES.index("title" if word[:1].isupper() and not any(map(str.isupper, word[1:])) else "mixed")


def _gaps(batch: Batch) -> Int64s:
    """Return for every token what stands between it and the token before, (n_tokens,)."""
    tokens = batch.tokens
    gaps = np.full(len(tokens), GAPS.index("blank line"), dtype=np.int64)
    for d, document in enumerate(batch.documents):
        low, high = int(tokens.document_starts[d]), int(tokens.document_starts[d + 1])
        if high - low < 2:
            continue
        size = tokens.start[low + 1 : high] - tokens.end[low : high - 1]
        found = np.minimum(size, 2).astype(np.int64)
        breaks = np.flatnonzero(tokens.line[low + 1 : high] != tokens.line[low : high - 1])
        for place in breaks.tolist():
            between = document.text[int(tokens.end[low + place]) : int(tokens.start[low + place + 1])]
            found[place] = GAPS.index("blank line" if between.count("\n") > 1 else "line")
        gaps[low + 1 : high] = found
    return gaps


def windows(tokens: TokenTable, pieces: Pieces, *, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return windows [first, after) of token rows with at most `size` pieces each, which together cover every token.

    Consecutive windows of a document share tokens worth at least `overlap` pieces, where that many fit.
    """
    first = pieces.first
    found: list[tuple[int, int]] = []
    for low, high in _documents(tokens.document_starts):
        start = low
        while start < high:
            after = max(start + 1, min(high, int(np.searchsorted(first, first[start] + size, side="right")) - 1))
            found.append((start, after))
            if after == high:
                break
            back = int(np.searchsorted(first, first[after] - overlap, side="right")) - 1
            start = max(start + 1, min(after, back))
    return found


def _documents(bounds: Int32s) -> Iterator[tuple[int, int]]:
    yield from itertools.pairwise(bounds.tolist())
