"""All formats in one table: the files they read, how they read them, and what they write for one note."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from ensemble_deid.corpora import bioc
from ensemble_deid.corpora.annotation_tools import (
    read_doccano_notes,
    read_label_studio_notes,
    render_doccano_note,
    render_label_studio_note,
)
from ensemble_deid.corpora.cas import read_cas_note, render_cas_note
from ensemble_deid.corpora.checks import (
    ReadNote,
    ReadOutcome,
    check_text,
    decode_utf8,
    note_with_spans,
    outcomes,
    reading,
)
from ensemble_deid.corpora.conll import read_conll_notes, render_conll_note
from ensemble_deid.corpora.edits import Edit, edited
from ensemble_deid.corpora.jsonl import read_jsonl_notes, render_jsonl_note
from ensemble_deid.corpora.standoff import (
    read_brat_note,
    read_dernoncourt_lee_note,
    read_physionet_notes,
    render_brat_note,
)
from ensemble_deid.corpora.tagged_xml import (
    I2B2,
    MEDDOCAN,
    XmlScheme,
    read_i2b2_2006_notes,
    read_xml_note,
    render_xml_note,
)
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra
from ensemble_deid.note.document import Document
from ensemble_deid.note.rtf import rtf, rtf_objects

# The text of RTF and PDF, which is written as plain text.

_MOST_PAGES = 2000
_OTHER_CODE_PAGE = re.compile(r"\\ansicpg(?!1252\b)[0-9]|\\fcharset(?![012]\b)[0-9]|\\(?:mac|pc|pca)\b")
_LEFT = re.compile(r"\\'[0-9a-fA-F]{2}|\\(?:bin|pict|objdata)\b")


def text_of_rtf(data: bytes, place: str) -> str:
    """Return what a word processor shows. CorpusError on pictures and objects, in which text may be."""
    written = decode_utf8(data, place).removeprefix("\ufeff")
    if not written.lstrip().startswith("{\\rtf"):
        raise CorpusError(f"{place}: not RTF")
    if rtf_objects(written):
        raise CorpusError(f"{place}: holds a picture or an object, which is not read")
    if _OTHER_CODE_PAGE.search(written):
        raise CorpusError(f"{place}: is written in another code page than 1252, which is not read")
    text = edited(written, (Edit(start, end, plain) for start, end, plain in rtf(written)))
    if _LEFT.search(text):
        raise CorpusError(f"{place}: holds escapes or pictures that are not read")
    check_text(text, place)
    return text


def text_of_pdf(data: bytes, place: str) -> str:
    """Return the text layer of a PDF. CorpusError where a page has none, such as one that was scanned."""
    # Its messages may quote the note.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        pages = [page.extract_text() for page in _pages(data, place)]
    except (CorpusError, ConfigError):
        raise
    except Exception as error:  # noqa: BLE001 (whatever a broken PDF leads to, its note is withheld)
        raise CorpusError(f"{place}: cannot be read as PDF ({type(error).__name__})") from None
    for number, page in enumerate(pages, start=1):
        if not page.strip():
            raise CorpusError(f"{place}: page {number} has no text layer; recognise its characters (OCR) first")
    text = "\n".join(pages) + "\n"
    check_text(text, place)
    return text


def _pages(data: bytes, place: str) -> Any:
    with needs_extra("pdf", "PDF"):
        import pypdf
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted:
        raise CorpusError(f"{place}: is encrypted")
    if not 0 < len(reader.pages) <= _MOST_PAGES:
        raise CorpusError(f"{place}: has no page, or more than {_MOST_PAGES}")
    return reader.pages


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands before, between and after the notes in a file that holds many."""

    start: str = ""
    between: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """`read_file(path, gold)` yields (name, note or error) and never raises for one bad note.

    `render(document)` returns the contents of the note's files by suffix, which are `suffixes`; the last of them is
    that of the file that holds the text. It is None where the format is only read. Where notes are written to one
    file, `frame` encloses them.
    """

    name: str
    suffixes: tuple[str, ...]
    read_file: Callable[[Path, bool], Iterator[ReadOutcome]]
    render: Callable[[Document], Mapping[str, str]] | None = None
    frame: Frame | None = None

    @property
    def suffix(self) -> str:
        """The suffix of the files that hold the notes' texts."""
        return self.suffixes[-1]

    def render_note(self, document: Document) -> Mapping[str, str]:
        """Return the contents of the note's files by suffix; CorpusError where the format is only read."""
        if self.render is None:
            raise CorpusError(f"note {document.id}: the format {self.name} is read, not written; choose jsonl or brat")
        return self.render(document)


# How a file is read: as one note without annotations, as one note, or as many. The text of .txt is the decoded bytes
# unchanged, so offsets count every CR.


def _text(text_of: Callable[[bytes, str], str]) -> Callable[[Path, bool], Iterator[ReadOutcome]]:
    def read(path: Path, *, gold: bool) -> ReadNote:
        with reading(path) as stream:
            text = text_of(stream.read(), str(path))
        check_text(text, str(path))
        return note_with_spans(Document(path.stem, text), ())

    return _one(read)


def _one(read: Callable[..., ReadNote]) -> Callable[[Path, bool], Iterator[ReadOutcome]]:
    return lambda path, gold: outcomes([(path.stem, partial(read, path, gold=gold))])


def _many(read: Callable[..., Iterator[ReadOutcome]]) -> Callable[[Path, bool], Iterator[ReadOutcome]]:
    def read_file(path: Path, gold: bool) -> Iterator[ReadOutcome]:
        try:
            yield from read(path, gold=gold)
        except CorpusError as error:
            yield path.name, error

    return read_file


def _as(suffix: str, render: Callable[[Document], str]) -> Callable[[Document], Mapping[str, str]]:
    return lambda document: {suffix: render(document)}


def _of_scheme(scheme: XmlScheme) -> Format:
    read, render = partial(read_xml_note, scheme=scheme), partial(render_xml_note, scheme=scheme)
    return Format(scheme.name, (".xml",), _one(read), _as(".xml", render))


_TASKS = Frame("[\n", ",\n", "\n]\n")
_BIOC = Frame(bioc.XML_START, "", bioc.XML_END)
_BIOC_JSON = Frame(bioc.JSON_START, ",\n", bioc.JSON_END)

FORMATS: Mapping[str, Format] = {
    format.name: format
    for format in (
        _of_scheme(I2B2),
        _of_scheme(MEDDOCAN),
        Format("brat", (".ann", ".txt"), _one(read_brat_note), render_brat_note),
        Format("jsonl", (".jsonl",), _many(read_jsonl_notes), _as(".jsonl", render_jsonl_note), Frame()),
        Format("doccano", (".jsonl",), _many(read_doccano_notes), _as(".jsonl", render_doccano_note), Frame()),
        Format(
            "labelstudio", (".json",), _many(read_label_studio_notes), _as(".json", render_label_studio_note), _TASKS
        ),
        Format("conll", (".conll",), _many(read_conll_notes), _as(".conll", render_conll_note), Frame()),
        Format("bioc", (".xml",), _many(bioc.read_bioc_notes), _as(".xml", bioc.render_bioc_note), _BIOC),
        Format(
            "bioc-json",
            (".json",),
            _many(bioc.read_bioc_json_notes),
            _as(".json", bioc.render_bioc_json_note),
            _BIOC_JSON,
        ),
        Format("cas", (".xmi",), _one(read_cas_note), _as(".xmi", render_cas_note)),
        Format("i2b2-2006", (".xml",), _many(read_i2b2_2006_notes)),
        Format("physionet", (".phi", ".text"), _many(read_physionet_notes)),
        Format("dernoncourt-lee", (".gs",), _one(read_dernoncourt_lee_note)),
        Format("rtf", (".rtf",), _text(text_of_rtf)),
        Format("pdf", (".pdf",), _text(text_of_pdf)),
        Format("plain", (".txt",), _text(decode_utf8), _as(".txt", lambda document: document.text)),
    )
}


def format_named(name: str) -> Format:
    """Return the format with that name; CorpusError if there is none."""
    if name not in FORMATS:
        raise CorpusError(f"'{name[:60]}' is not a corpus format; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]


WRITABLE = tuple(name for name, format in FORMATS.items() if format.render is not None)
"""The formats that notes can be written in."""
ANNOTATED = tuple(name for name in WRITABLE if name != "plain")
"""The formats that annotations can be written in."""
FILE_SUFFIXES = frozenset(known.suffix for known in FORMATS.values() if known.frame is not None)
"""The suffixes of files that hold many notes."""
