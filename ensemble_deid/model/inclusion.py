"""The sentence inclusion list: sentences that are known to hold no PHI (Murugadoss et al. 2021).

What a model finds wholly inside such a sentence is dropped, unless it overlaps a span that must stay. The sentences
are in clear, so that they can be reviewed one by one. A file is TOML: `name`, `description`, and `sentences`, a list.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import RuleError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.parsing import read_text, strict_toml

# The sentences of a note as ranges of characters, and the form in which two of them are the same sentence.


def sentence_ranges(document: Document) -> list[tuple[int, int]]:
    """Return start and end of every sentence, in text order: the parts of lines that `tokenize` tells apart."""
    tokens = tokenize([document], split_lines=True)
    if not len(tokens):
        return []
    first = tokens.sentence_starts.tolist()
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    return [(starts[low], ends[high - 1]) for low, high in zip(first, [*first[1:], len(starts)], strict=True)]


def plain_sentence(text: str) -> str:
    """Return a sentence with single blanks for its white space."""
    return " ".join(text.split())


_MOST_CHARACTERS = 10_000_000


@dataclass(frozen=True, slots=True)
class InclusionList:
    """The sentences, with single blanks for their white space, and the text of the file."""

    sentences: frozenset[str] = field(repr=False)
    source: str = field(repr=False)

    def apply(self, document: Document, *, must_stay: Iterable[Span] = ()) -> tuple[Document, int]:
        """Return the document without its spans that lie in a listed sentence, and how many these were.

        `must_stay` are spans where PHI is known to be, such as the identifiers of the note's patient: whatever overlaps
        one of them, or an enforced span, is kept.
        """
        if not document.spans:
            return document, 0
        listed = [
            (start, end)
            for start, end in sentence_ranges(document)
            if plain_sentence(document.text[start:end]) in self.sentences
        ]
        if not listed:
            return document, 0
        known = (*must_stay, *(span for span in document.spans if span.is_enforced))

        def stays(span: Span) -> bool:
            inside = any(start <= span.start and span.end <= end for start, end in listed)
            return not inside or any(span.overlaps(other) for other in known)

        kept = [span for span in document.spans if stays(span)]
        return document.with_spans(kept), len(document.spans) - len(kept)


def read_inclusion_list(path: Path) -> InclusionList:
    """Read an inclusion list. Raises RuleError, which names the file and the place and quotes no sentence."""
    source = read_text(path, RuleError, missing="no such inclusion list")
    return parse_inclusion_list(source, path=str(path))


def parse_inclusion_list(source: str, *, path: str = "<inclusion list>") -> InclusionList:
    """Read the text of an inclusion list; `path` is only named in errors. Raises RuleError."""
    if len(source) > _MOST_CHARACTERS:
        raise RuleError(f"{path}: longer than {_MOST_CHARACTERS:,} characters")
    try:
        content = strict_toml(source)
    except tomllib.TOMLDecodeError as error:
        # The message of a decoding error quotes nothing longer than a character.
        raise RuleError(f"{path}: {error}") from None
    if unknown := sorted(set(content) - {"name", "description", "sentences"}):
        raise RuleError(f"{path}: unknown key {unknown[0][:60]!r}; known: name, description, sentences")
    sentences = content.get("sentences")
    if not isinstance(sentences, list) or not sentences:
        raise RuleError(f"{path}: 'sentences' must be a list with at least one sentence")
    for number, sentence in enumerate(sentences, 1):
        if not isinstance(sentence, str):
            raise RuleError(f"{path}: sentence {number} is not text")
        if len(sentence_ranges(Document("", sentence))) != 1:
            raise RuleError(f"{path}: sentence {number} is not one sentence: no note has it as such")
    return InclusionList(frozenset(map(plain_sentence, sentences)), source)
