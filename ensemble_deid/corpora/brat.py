"""brat stand-off: `name.txt` with the text, `name.ann` with lines `T1<tab>LABEL start end<tab>text`.

Offsets count characters of the decoded .txt file, including CRs and a byte order mark. Relations, attributes, events
and notes in the .ann file are ignored. A discontinuous span (`0 5;8 12`) becomes one span per fragment.
"""

import re
from collections import Counter
from pathlib import Path

from ensemble_deid.corpora.checks import Notice, ReadNote, check_span, note_with_spans, read_utf8, shown_tag
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

_PLACE = re.compile(r"(\S+) (-?[0-9]{1,12} -?[0-9]{1,12}(?:;-?[0-9]{1,12} -?[0-9]{1,12})*)")
_LABEL = re.compile(r"[^\s;]+")
_BLANKS = str.maketrans("\t\n\r", "   ")


def read_brat_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read the .txt file `path` and the .ann file beside it (`gold=False`: the text alone).

    Raises CorpusError with file and line; a missing .ann file is an error, since "no PHI" is
    expressed by an empty one.
    """
    document = Document(path.name[: -len(path.suffix)], read_utf8(path))
    if not gold:
        return note_with_spans(document, ())
    annotations = path.with_suffix(".ann")
    if not annotations.exists() and not annotations.is_symlink():
        raise CorpusError(f"{path}: there is no {annotations.name} beside it (an empty one says that it has no PHI)")
    spans: list[Span] = []
    notices: Counter[Notice] = Counter()
    for number, line in enumerate(read_utf8(annotations).split("\n"), start=1):
        if line.startswith("T"):
            found = _read_line(line.removesuffix("\r"), document.text, f"{annotations}:{number}")
            notices[Notice.FRAGMENTS] += len(found) > 1
            spans.extend(found)
    return note_with_spans(document, spans, notices=notices)


def _read_line(line: str, text: str, place: str) -> list[Span]:
    identity, _, rest = line.partition("\t")
    described, tab, surface = rest.partition("\t")
    match = _PLACE.fullmatch(described)
    if match is None:
        raise CorpusError(f"{place}: expected 'T<number><tab>LABEL start end<tab>text'")
    label = match.group(1)
    spans: list[Span] = []
    fragments = [tuple(map(int, pair.split())) for pair in match.group(2).split(";")]
    for start, end in fragments:
        own = surface if tab and len(fragments) == 1 else None
        check_span(start, end, text, f"{place}: {shown_tag(identity)}", surface=own, tag="its place")
        spans.append(Span(start, end, label))
    return spans


def render_brat_note(document: Document) -> tuple[str, str]:
    """Return the contents of the .txt and the .ann file; CorpusError on a label that brat cannot hold."""
    lines: list[str] = []
    for number, span in enumerate(sorted(document.spans), start=1):
        if not _LABEL.fullmatch(span.label):
            raise CorpusError(
                f"note {document.id}: the label '{span.label}' cannot be written in brat (white space or ;)"
            )
        surface = document.text[span.start : span.end].translate(_BLANKS)
        lines.append(f"T{number}\t{span.label} {span.start} {span.end}\t{surface}\n")
    return document.text, "".join(lines)
