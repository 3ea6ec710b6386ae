"""A corpus as it was read: the notes, and the warnings of the reader."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.text.document import Document


@dataclass(frozen=True, slots=True)
class Corpus:
    """Notes sorted by file name (JSONL: in the order of the lines), with unique ids.

    `format` is the name of the format they were read from, `source` the file or folder. `warnings` has one line for
    each thing that a person should know, and how it was handled: overlapping gold spans (kept), repeated ones
    (dropped), files of other types (not read).

    >>> from ensemble_deid import read_corpus
    >>> corpus = read_corpus("demo:dev")
    >>> len(corpus) == len(corpus.documents), corpus.format, "PATIENT" in corpus.labels
    (True, 'i2b2', True)
    """

    documents: tuple[Document, ...]
    format: str
    source: Path
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur in the notes, sorted."""
        return tuple(sorted({span.label for document in self.documents for span in document.spans}))
