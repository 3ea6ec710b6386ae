"""CoNLL columns: a word and its BIO tag in each row, an empty row after each line of the text.

What is written has the text itself in comments, as CoNLL-U does: `# newdoc id = ` and, before the rows of each line of
the note, `# text = ` with the line. So words are found in their line, and the text and offsets are exact. Spans must
not overlap, begin or end with white space. A span that goes on in the next line goes on with `I-` there.

Other people's files without `# text` are read by the conventions of the shared tasks: columns are separated by tabs or
blanks, the first is the word and the last the tag, words are joined by blanks, sentences by line ends, and `-DOCSTART-`
begins another note. Their text is then a reconstruction, and spans refer to it.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ensemble_deid.corpora.checks import (
    ReadNote,
    ReadOutcome,
    check_id,
    check_text,
    note_with_spans,
    outcomes,
    read_utf8,
)
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

_COMMENT = re.compile(r"# ?(newdoc id|patient_id|site|text|[A-Za-z_][\w ]{0,30}) =(?: (.*))?", re.DOTALL)
_TAG = re.compile(r"(?:([BIES])-(\S+)|O)")
_WORD = re.compile(r"\w+|[^\w\s]")
_LABEL = re.compile(r"\S+")
_DOCSTART = "-DOCSTART-"


@dataclass(slots=True)
class _Draft:
    """One note while its rows are read."""

    place: str
    fields: dict[str, str] = field(default_factory=dict, repr=False)
    pieces: list[str] = field(default_factory=list, repr=False)
    spans: list[Span] = field(default_factory=list)
    length: int = 0
    exact: bool = False
    """Whether `# text` gives the note's text."""
    line: str | None = field(default=None, repr=False)
    line_start: int = 0
    cursor: int = 0
    in_sentence: bool = False
    ended: bool = True
    """Whether the span of the last word cannot go on."""
    error: CorpusError | None = None

    @property
    def started(self) -> bool:
        return bool(self.pieces or self.fields or self.error)

    def begin_line(self, text: str) -> None:
        self._append(("\n" if self.pieces else "") + text)
        self.line, self.line_start, self.cursor = text, self.length - len(text), 0
        self.in_sentence = True

    def end_line(self) -> None:
        """End the line or sentence; where the text is reconstructed, so does the span."""
        if self.line is None:
            self.ended = True
        self.line, self.in_sentence = None, False

    def add(self, word: str, place_of_span: str | None, label: str, where: str) -> None:
        """Add a row; `place_of_span` is B, I, E or S, None outside spans."""
        if self.line is None:
            if self.exact:
                raise CorpusError(f"{where}: a word stands outside the lines that '# text' gives")
            between = "" if not self.pieces else " " if self.in_sentence else "\n"
            self._append(between + word)
            start = self.length - len(word)
            self.in_sentence = True
        else:
            at = self.line.find(word, self.cursor)
            if at < 0 or self.line[self.cursor : at].strip():
                raise CorpusError(f"{where}: the word is not the next one of the '# text' above it")
            start, self.cursor = self.line_start + at, at + len(word)
        end = start + len(word)
        if place_of_span is not None:
            if place_of_span in "IE" and not self.ended and self.spans[-1].label == label:
                start = self.spans.pop().start
            self.spans.append(Span(start, end, label))
        self.ended = place_of_span in (None, "E", "S")

    def _append(self, piece: str) -> None:
        self.pieces.append(piece)
        self.length += len(piece)


def read_conll_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id or file:line, note or error) for each note of the file."""
    drafts = list(_drafts(path, gold))
    names = [path.stem] if len(drafts) == 1 else [f"{path.stem}-{number}" for number in range(1, len(drafts) + 1)]
    return outcomes((draft.place, partial(_note, draft, name, gold)) for draft, name in zip(drafts, names, strict=True))


def _note(draft: _Draft, fallback: str, gold: bool) -> ReadNote:
    if draft.error is not None:
        raise draft.error
    identity = draft.fields.get("newdoc id", fallback)
    check_id(identity, draft.place)
    patient, site = draft.fields.get("patient_id"), draft.fields.get("site")
    document = Document(identity, "".join(draft.pieces), patient_id=patient, site=site)
    return note_with_spans(document, draft.spans if gold else (), place=draft.place)


def _drafts(path: Path, gold: bool) -> Iterator[_Draft]:
    draft: _Draft | None = None
    for number, row in enumerate(read_utf8(path).removeprefix("\ufeff").split("\n"), start=1):
        row, where = row.removesuffix("\r"), f"{path}:{number}"
        comment = None if "\t" in row.partition(" = ")[0] else _COMMENT.fullmatch(row)
        if (comment and comment.group(1) == "newdoc id") or row.split(maxsplit=1)[:1] == [_DOCSTART]:
            if draft is not None and draft.started:
                yield draft
            draft = _Draft(where)
        draft = draft or _Draft(where)
        if draft.error is None:
            try:
                _read_row(draft, row, comment, where, gold)
            except CorpusError as error:
                draft.error = error
    if draft is not None and draft.started:
        yield draft


def _read_row(draft: _Draft, row: str, comment: re.Match[str] | None, where: str, gold: bool) -> None:
    if comment:
        name, value = comment.group(1), comment.group(2) or ""
        if name == "text":
            draft.exact = True
            draft.begin_line(value)
        elif name in ("newdoc id", "patient_id", "site"):
            draft.fields[name] = value
        return
    if not row.strip():
        draft.end_line()
        return
    columns = row.split("\t") if "\t" in row else row.split()
    if columns[0] == _DOCSTART:
        return
    if len(columns) < 2:
        raise CorpusError(f"{where}: expected a word and its tag, separated by a tab or blanks")
    tag = _TAG.fullmatch(columns[-1])
    if tag is None and gold:
        raise CorpusError(f"{where}: the last column is no BIO tag (O, B-LABEL, I-LABEL)")
    if not columns[0] or columns[0].split() != [columns[0]]:
        raise CorpusError(f"{where}: the word is empty, or has white space in it")
    place, label = (tag.group(1), tag.group(2)) if tag is not None else (None, "")
    draft.add(columns[0], place, label or "", where)


def render_conll_note(document: Document) -> str:
    """Return the note's rows; CorpusError on a span or a character that the columns cannot represent."""
    name = document.id
    check_text(document.text, f"note {name}")
    if "\r" in document.text:
        raise CorpusError(
            f"note {name}: character {document.text.index(chr(13))} is a CR, which CoNLL cannot represent"
        )
    spans = sorted(document.spans)
    _check_spans(document, spans)
    rows = [f"# newdoc id = {name}"]
    for key, value in (("patient_id", document.patient_id), ("site", document.site)):
        if value is not None:
            if "\n" in value or "\r" in value:
                raise CorpusError(f"note {name}: its {key} has a line end, which CoNLL cannot represent")
            rows.append(f"# {key} = {value}")
    cuts = {cut for span in spans for cut in (span.start, span.end)}
    at, next_span = 0, 0
    for line in document.text.split("\n"):
        rows.append(f"# text = {line}")
        for start, end in _words(line, at, cuts):
            while next_span < len(spans) and spans[next_span].end <= start:
                next_span += 1
            span = spans[next_span] if next_span < len(spans) and spans[next_span].start <= start else None
            tag = "O" if span is None else f"{'B' if span.start == start else 'I'}-{span.label}"
            rows.append(f"{document.text[start:end]}\t{tag}")
        rows.append("")
        at += len(line) + 1
    return "\n".join(rows) + "\n"


def _words(line: str, offset: int, cuts: Collection[int]) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(line):
        start = offset + match.start()
        for end in range(start + 1, offset + match.end() + 1):
            if end == offset + match.end() or end in cuts:
                yield start, end
                start = end


def _check_spans(document: Document, spans: Sequence[Span]) -> None:
    reach = 0
    for span in spans:
        place = f"note {document.id}: the span {span.start}-{span.end}"
        surface = document.text[span.start : span.end]
        if span.start < reach:
            raise CorpusError(f"{place} overlaps another, which CoNLL cannot represent")
        if surface[0].isspace() or surface[-1].isspace():
            raise CorpusError(f"{place} begins or ends with white space, which CoNLL cannot represent")
        if not _LABEL.fullmatch(span.label):
            raise CorpusError(f"{place}: its label cannot be written in CoNLL (white space)")
        reach = span.end
