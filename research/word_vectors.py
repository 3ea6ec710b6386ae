"""Word vectors of unlabelled notes (Mikolov et al. 2013, by gensim), as Hartman et al. 2020 train theirs on MIMIC.

The file holds words of the notes. Words of fewer than `min_patients` patients are left out before training, so that the
name of one patient is neither in the file nor has it moved another word's vector; what remains is still to be kept as
the notes are.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.atomic import open_atomically
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.taggers.neural.encoding import with_zeros

Sentences = list[list[str]]


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """How vectors are trained: 200 numbers, words seen ten times as in the paper; the rest is gensim's usual.

    Raises ConfigError for a number that is out of range.
    """

    dimension: int = 200
    window: int = 5
    epochs: int = 5
    min_count: int = 10
    min_patients: int = 5
    digits_to_zero: bool = True
    seed: int = 13

    def __post_init__(self) -> None:
        least = {"dimension": 2, "window": 1, "epochs": 1, "min_count": 1, "min_patients": 1, "seed": 0}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ConfigError(f"{name.replace('_', ' ')} is {value} or more, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class WordVectors:
    """Words, most frequent first, and their vectors, float32 (words, dimension); `left_out` words were too rare."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]
    left_out: int

    def write(self, path: Path) -> None:
        """Write the text format of word2vec, which `neural.word_vectors` reads, whole or not at all."""
        with open_atomically(path) as stream:
            stream.write(f"{len(self.words)} {self.vectors.shape[1]}\n".encode())
            for word, vector in zip(self.words, self.vectors.tolist(), strict=True):
                stream.write(f"{word} {' '.join(f'{value:.6g}' for value in vector)}\n".encode())


def train_vectors(documents: Sequence[Document], options: EmbeddingOptions) -> WordVectors:
    """Train skip-gram vectors of the words of notes in lower case; annotations are not looked at.

    Words must occur `min_count` times, in notes of `min_patients` patients; a note without a patient counts as one of
    its own. One thread and the seed make the result the same on every run. Raises ConfigError without gensim,
    CorpusError where no word is frequent enough.
    """
    word2vec = _gensim()
    sentences, left_out = _frequent_words(documents, options)
    if not any(sentences):
        raise CorpusError(
            f"no word occurs {options.min_count} times in notes of {options.min_patients} patients: "
            "more notes are needed, or lower bounds"
        )
    model = word2vec(
        sentences=sentences,
        vector_size=options.dimension,
        window=options.window,
        epochs=options.epochs,
        min_count=1,
        sg=1,
        seed=options.seed,
        workers=1,
        # Python's own hash of strings differs from run to run.
        hashfxn=lambda text: zlib.crc32(text.encode("utf-8")),
    )
    vectors = np.asarray(model.wv.vectors, dtype=np.float32)
    return WordVectors(tuple(model.wv.index_to_key), vectors, left_out)


def _frequent_words(documents: Sequence[Document], options: EmbeddingOptions) -> tuple[Sentences, int]:
    """Return the sentences with their frequent words alone, and how many distinct words were left out."""
    tokens = tokenize(documents, split_lines=True)
    words = [_normal(word, options) for word in tokens.words(documents)]
    number_of: dict[str, int] = {}
    codes = np.array([number_of.setdefault(word, len(number_of)) for word in words], dtype=np.int64)
    patient_number: dict[str, int] = {}
    groups = [patient_number.setdefault(document.group, len(patient_number)) for document in documents]
    patients = np.array(groups, dtype=np.int64)[tokens.document] if len(codes) else codes
    pairs = np.unique(np.stack([codes, patients]), axis=1)
    in_patients = np.bincount(pairs[0], minlength=len(number_of))
    counts = np.bincount(codes, minlength=len(number_of))
    kept = (counts >= options.min_count) & (in_patients >= options.min_patients)
    sentences: Sentences = [[] for _ in tokens.sentence_starts]
    for word, sentence, good in zip(words, tokens.sentence.tolist(), kept[codes].tolist(), strict=True):
        if good:
            sentences[sentence].append(word)
    return sentences, int(np.count_nonzero(~kept))


def _normal(word: str, options: EmbeddingOptions) -> str:
    return with_zeros(word.lower()) if options.digits_to_zero else word.lower()


def _gensim() -> Any:
    try:
        # Imported here: it is an extra.
        from gensim.models import Word2Vec
    except ImportError:
        raise ConfigError("embeddings needs gensim, which comes with the extra ensemble_deid[embeddings]") from None
    return Word2Vec
