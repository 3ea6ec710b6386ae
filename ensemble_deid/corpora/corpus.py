"""A corpus as it was read: the notes, and what the reader has to say about them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.text.document import Document


@dataclass(frozen=True, slots=True)
class Corpus:
    """Notes in the order of their file names (JSONL: of their lines), with unique ids.

    `format` is the name of the format they were read from, `source` the file or folder. `warnings` says in one line
    each what a person should know and what was done about it: overlapping gold spans (kept), repeated ones
    (dropped), files of other kinds (not read).
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
        """The labels that occur, sorted."""
        return tuple(sorted({span.label for document in self.documents for span in document.spans}))
