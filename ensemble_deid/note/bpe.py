"""Byte-pair encoding of tokens (Sennrich et al. 2016), off by default; pieces only split tokens, offsets are kept."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import TokenTable

# The unknown piece and the two sentence boundaries, which sentencepiece counts as part of the vocabulary.
_META_PIECES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Bpe:
    """Learned pieces: `data` is sentencepiece's model file, a protocol buffer; reading it runs no code."""

    data: bytes = field(repr=False)
    _processor: Any = field(repr=False)

    @classmethod
    def learn(cls, documents: Sequence[Document], tokens: TokenTable, *, vocabulary: int) -> Self:
        """Learn at most `vocabulary` pieces from the words of two or more characters.

        Raises ConfigError when the vocabulary cannot hold every character, or when there are no such words.
        """
        # Imported here because the import takes a second and few configurations need it.
        from sentencepiece import SentencePieceTrainer

        words = [word for word in tokens.words(documents) if len(word) > 1]
        least = len(set(itertools.chain.from_iterable(words))) + _META_PIECES
        if not words or vocabulary < least:
            needed = f"the training text needs at least {least}" if words else "the training text has no words"
            raise ConfigError(f"text.bpe_vocabulary is {vocabulary}: {needed}")
        out = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=iter(words),
                model_writer=out,
                model_type="bpe",
                vocab_size=vocabulary,
                # A text too small for the vocabulary gets as many pieces as it supports.
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="identity",
                add_dummy_prefix=False,
                remove_extra_whitespaces=False,
                num_threads=1,
                minloglevel=3,
            )
        except RuntimeError:
            # The message may quote the text.
            raise ConfigError(f"sentencepiece cannot learn {vocabulary} pieces from the training text") from None
        return cls.from_bytes(out.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read sentencepiece's file. Raises ModelError."""
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(data)
        except RuntimeError:
            raise ModelError("the model of the BPE is damaged") from None
        return cls(data, processor)

    def piece_ends(self, word: str) -> list[int]:
        """Return where each piece of a word ends, in characters; the last is the word's length."""
        if len(word) < 2:
            return [len(word)]
        pieces = self._processor.encode(word, out_type=str)
        # A piece that differs from the text would shift the following offsets, so such a word is not split.
        return list(itertools.accumulate(map(len, pieces))) if "".join(pieces) == word else [len(word)]

    def refine(self, documents: Sequence[Document], tokens: TokenTable) -> TokenTable:
        """Return the tokens cut into pieces; lines, sentences and documents stay as they are."""
        words = tokens.words(documents)
        known = {word: self.piece_ends(word) for word in dict.fromkeys(words)}
        counts = np.array([len(known[word]) for word in words], dtype=np.int64)
        row = np.repeat(np.arange(len(words)), counts)
        ends = np.array([end for word in words for end in known[word]], dtype=np.int32) + tokens.start[row]
        bounds = np.append(0, np.cumsum(counts))
        starts = np.append(np.zeros(1, np.int32), ends[:-1])[: len(ends)]
        starts[bounds[:-1]] = tokens.start
        return TokenTable(
            start=starts.astype(np.int32),
            end=ends.astype(np.int32),
            document=tokens.document[row],
            line=tokens.line[row],
            sentence=tokens.sentence[row],
            document_starts=bounds[tokens.document_starts].astype(np.int32),
        )
