"""All formats in one table: the files they read, how they read them, and what they write for one note."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ensemble_deid.corpora import bioc
from ensemble_deid.corpora.brat import read_brat_note, render_brat_note
from ensemble_deid.corpora.cas import read_cas_note, render_cas_note
from ensemble_deid.corpora.checks import ReadNote, note_with_spans, read_utf8
from ensemble_deid.corpora.conll import read_conll_notes, render_conll_note
from ensemble_deid.corpora.dernoncourt_lee import read_dernoncourt_lee_note
from ensemble_deid.corpora.doccano import read_doccano_notes, render_doccano_note
from ensemble_deid.corpora.i2b2_2006 import read_i2b2_2006_notes
from ensemble_deid.corpora.jsonl import read_jsonl_notes, render_jsonl_note
from ensemble_deid.corpora.label_studio import read_label_studio_notes, render_label_studio_note
from ensemble_deid.corpora.physionet import read_physionet_notes
from ensemble_deid.corpora.tagged_xml import read_i2b2_note, read_meddocan_note, render_i2b2_note, render_meddocan_note
from ensemble_deid.corpora.text_of_files import read_pdf_note, read_rtf_note
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

# A folder of .txt files without annotations. The text is the decoded bytes unchanged, so offsets count every CR.


def read_plain_note(path: Path) -> ReadNote:
    """Read one note; it has no spans. CorpusError on bytes that are not UTF-8, or NUL."""
    return note_with_spans(Document(path.name[: -len(path.suffix)], read_utf8(path)), ())


def render_plain_note(document: Document) -> str:
    """Return the note's text; spans are not written."""
    return document.text


ReadOutcome = tuple[str, ReadNote | CorpusError]


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands before, between and after the notes in a file that holds many."""

    start: str = ""
    between: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """`read_file(path, gold)` yields (name, note or error) and never raises for one bad note.

    `render_note(document)` returns the contents of the note's files by suffix, which are `suffixes`; the last of them
    is that of the file that holds the text. Where notes are written to one file, `frame` is what holds them together.
    """

    name: str
    suffixes: tuple[str, ...]
    read_file: Callable[[Path, bool], Iterator[ReadOutcome]]
    render_note: Callable[[Document], Mapping[str, str]]
    frame: Frame | None = None

    @property
    def suffix(self) -> str:
        """The suffix of the files that hold the notes' texts."""
        return self.suffixes[-1]

    @property
    def writable(self) -> bool:
        """Whether notes can be written in it, or only read."""
        return not isinstance(self.render_note, _Unwritable)


def _one_note_a_file(read: Callable[[Path, bool], ReadNote]) -> Callable[[Path, bool], Iterator[ReadOutcome]]:
    def read_file(path: Path, gold: bool) -> Iterator[ReadOutcome]:
        outcome: ReadNote | CorpusError
        try:
            outcome = read(path, gold)
        except CorpusError as error:
            outcome = error
        yield path.name[: -len(path.suffix)], outcome

    return read_file


class _ManyNotesReader(Protocol):
    def __call__(self, path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]: ...


def _many_notes_a_file(
    name: str,
    suffix: str,
    read: _ManyNotesReader,
    render: Callable[[Document], str],
    *,
    frame: Frame,
) -> Format:
    def read_file(path: Path, gold: bool) -> Iterator[ReadOutcome]:
        try:
            yield from read(path, gold=gold)
        except CorpusError as error:
            yield path.name, error

    return Format(name, (suffix,), read_file, lambda document: {suffix: render(document)}, frame)


def _all_of_a_file(read: Callable[[Path, bool], Iterator[ReadNote]]) -> Callable[[Path, bool], Iterator[ReadOutcome]]:
    def read_file(path: Path, gold: bool) -> Iterator[ReadOutcome]:
        try:
            for note in read(path, gold):
                yield note.document.id, note
        except CorpusError as error:
            yield path.name, error

    return read_file


@dataclass(frozen=True, slots=True)
class _Unwritable:
    """Stands where a format that is only read would render notes."""

    name: str

    def __call__(self, document: Document) -> Mapping[str, str]:
        raise CorpusError(f"note {document.id}: the format {self.name} is read, not written; choose jsonl or brat")


FORMATS: Mapping[str, Format] = {
    "i2b2": Format(
        "i2b2",
        (".xml",),
        _one_note_a_file(lambda path, gold: read_i2b2_note(path, gold=gold)),
        lambda document: {".xml": render_i2b2_note(document)},
    ),
    "meddocan": Format(
        "meddocan",
        (".xml",),
        _one_note_a_file(lambda path, gold: read_meddocan_note(path, gold=gold)),
        lambda document: {".xml": render_meddocan_note(document)},
    ),
    "brat": Format(
        "brat",
        (".ann", ".txt"),
        _one_note_a_file(lambda path, gold: read_brat_note(path, gold=gold)),
        lambda document: dict(zip((".ann", ".txt"), reversed(render_brat_note(document)), strict=True)),
    ),
    "jsonl": _many_notes_a_file("jsonl", ".jsonl", read_jsonl_notes, render_jsonl_note, frame=Frame()),
    "doccano": _many_notes_a_file("doccano", ".jsonl", read_doccano_notes, render_doccano_note, frame=Frame()),
    "labelstudio": _many_notes_a_file(
        "labelstudio",
        ".json",
        read_label_studio_notes,
        render_label_studio_note,
        frame=Frame("[\n", ",\n", "\n]\n"),
    ),
    "conll": _many_notes_a_file("conll", ".conll", read_conll_notes, render_conll_note, frame=Frame()),
    "bioc": _many_notes_a_file(
        "bioc", ".xml", bioc.read_bioc_notes, bioc.render_bioc_note, frame=Frame(bioc.XML_START, "", bioc.XML_END)
    ),
    "bioc-json": _many_notes_a_file(
        "bioc-json",
        ".json",
        bioc.read_bioc_json_notes,
        bioc.render_bioc_json_note,
        frame=Frame(bioc.JSON_START, ",\n", bioc.JSON_END),
    ),
    "cas": Format(
        "cas",
        (".xmi",),
        _one_note_a_file(lambda path, gold: read_cas_note(path, gold=gold)),
        lambda document: {".xmi": render_cas_note(document)},
    ),
    "i2b2-2006": Format(
        "i2b2-2006",
        (".xml",),
        _all_of_a_file(lambda path, gold: read_i2b2_2006_notes(path, gold=gold)),
        _Unwritable("i2b2-2006"),
    ),
    "physionet": Format(
        "physionet",
        (".phi", ".text"),
        _all_of_a_file(lambda path, gold: read_physionet_notes(path, gold=gold)),
        _Unwritable("physionet"),
    ),
    "dernoncourt-lee": Format(
        "dernoncourt-lee",
        (".gs",),
        _one_note_a_file(lambda path, gold: read_dernoncourt_lee_note(path, gold=gold)),
        _Unwritable("dernoncourt-lee"),
    ),
    "rtf": Format("rtf", (".rtf",), _one_note_a_file(lambda path, gold: read_rtf_note(path)), _Unwritable("rtf")),
    "pdf": Format("pdf", (".pdf",), _one_note_a_file(lambda path, gold: read_pdf_note(path)), _Unwritable("pdf")),
    "plain": Format(
        "plain",
        (".txt",),
        _one_note_a_file(lambda path, gold: read_plain_note(path)),
        lambda document: {".txt": render_plain_note(document)},
    ),
}


def format_named(name: str) -> Format:
    """Return the format with that name; CorpusError if there is none."""
    if name not in FORMATS:
        raise CorpusError(f"'{name[:60]}' is not a corpus format; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]


WRITABLE = tuple(name for name, format in FORMATS.items() if format.writable)
"""The formats that notes can be written in."""
ANNOTATED = tuple(name for name in WRITABLE if name != "plain")
"""The formats that annotations can be written in."""
FILE_SUFFIXES = frozenset(known.suffix for known in FORMATS.values() if known.frame is not None)
"""The suffixes of files that hold many notes."""
