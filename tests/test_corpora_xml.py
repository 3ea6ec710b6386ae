"""The i2b2 and MEDDOCAN readers against files written by hand."""

from pathlib import Path

import pytest

from ensemble_deid.corpora.read import iterate_notes, locate_corpus, read_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

SECRET = "Quillfeather"


def write(path: Path, text: str, tags: str = "", root: str = "deIdi2b2", head: str = "") -> Path:
    path.write_text(
        f'<?xml version="1.0" encoding="UTF-8" ?>\n{head}<{root}>\n<TEXT><![CDATA[{text}]]></TEXT>\n'
        f"<TAGS>\n{tags}\n</TAGS>\n</{root}>\n",
        encoding="utf-8",
    )
    return path


def tag(start: object, end: object, text: str, kind: str = "PATIENT", element: str = "NAME") -> str:
    return f'<{element} id="P3" start="{start}" end="{end}" text="{text}" TYPE="{kind}" comment="" />'


def test_a_note_of_the_2014_task(tmp_path: Path) -> None:
    tags = tag(4, 8, "Añas") + tag(9, 11, "NY", "STATE", "LOCATION") + tag(12, 15, "Fen", "OTHER", "LOCATION")
    write(tmp_path / "214-03.xml", "Mr. Añas NY Fen", tags)
    corpus = read_corpus(tmp_path)
    (note,) = corpus
    assert (corpus.format, note.id, note.patient_id, note.text) == ("i2b2", "214-03", "214", "Mr. Añas NY Fen")
    assert note.spans == (Span(4, 8, "PATIENT"), Span(9, 11, "STATE"), Span(12, 15, "LOCATION-OTHER"))
    assert corpus.warnings == ()


def test_notes_of_one_article_are_one_patient(tmp_path: Path) -> None:
    spanish = tag(0, 3, "Eva", "NOMBRE_SUJETO_ASISTENCIA")
    for name in ("S0004-0614-1", "S0004-0614-2", "S0004-0615-1"):
        write(tmp_path / f"{name}.xml", "Eva", spanish, root="MEDDOCAN")
    corpus = read_corpus(tmp_path)
    assert corpus.format == "meddocan"
    assert [note.patient_id for note in corpus] == ["S0004-0614", "S0004-0614", "S0004-0615"]


def test_newlines_are_those_of_the_parser(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"<d><TEXT>a\r\nb\rc\nd&#13;e</TEXT><TAGS/></d>")
    assert read_corpus(path).documents[0].text == "a\nb\nc\nd\re"


def test_a_newline_in_the_text_attribute_counts_as_a_blank(tmp_path: Path) -> None:
    write(tmp_path / "a.xml", "Ada\nLee Ada\nLee", tag(0, 7, "Ada\nLee") + tag(8, 15, "Ada&#10;Lee"))
    assert len(read_corpus(tmp_path).documents[0].spans) == 2


def test_a_tag_without_a_type_takes_its_element(tmp_path: Path) -> None:
    write(tmp_path / "a.xml", "1999", '<DATE id="D" start="0" end="4"/>')
    assert read_corpus(tmp_path).documents[0].spans == (Span(0, 4, "DATE"),)


def test_overlaps_are_kept_and_repeats_dropped_and_both_counted(tmp_path: Path) -> None:
    tags = tag(0, 7, "Ada Lee") + tag(0, 3, "Ada") + tag(0, 3, "Ada") + tag(4, 7, "Lee", "CITY", "NAME")
    write(tmp_path / "a.xml", "Ada Lee", tags)
    corpus = read_corpus(tmp_path)
    assert corpus.documents[0].spans == (Span(0, 3, "PATIENT"), Span(0, 7, "PATIENT"), Span(4, 7, "CITY"))
    said = "\n".join(corpus.warnings)
    assert "2 overlapping pairs of gold spans were kept" in said
    assert "1 repeated gold spans" in said
    assert "1 tags are in an element of another category" in said


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (tag(0, 99, SECRET), r"a\.xml:5: tag P3: its place 0-99 does not lie inside the text of 12 characters"),
        (tag(-1, 3, SECRET), r"a\.xml:5: tag P3: its place -1-3 does not lie"),
        (tag(5, 5, ""), r"a\.xml:5: tag P3: its place 5-5 does not lie"),
        (tag(0, 5, "Quilt"), r"covers 5 characters of the text, but its own text of 5 characters differs .* 4"),
        (tag(0, 5, "Quil"), r"covers 5 characters of the text, but its own text of 4 characters differs .* 4"),
        (tag("x", 5, ""), r"a\.xml:5: tag P3: the attribute 'start' is not an integer"),
        ('<NAME id="P3" start="0" TYPE="PATIENT"/>', r"a\.xml:5: tag P3: the attribute 'end' is missing"),
        (tag(0, 5, "", "PATEINT"), r"tag P3: its type is none of i2b2; the nearest known is 'PATIENT'"),
        ("\n<NAME id='P3' start='0' end='5' TYPE='CALLE'/>", r"a\.xml:6: tag P3: its type is none of i2b2"),
    ],
)
def test_a_bad_tag_is_named_with_file_line_and_id(tmp_path: Path, tags: str, message: str) -> None:
    write(tmp_path / "a.xml", SECRET, tags)
    with pytest.raises(CorpusError, match=message) as caught:
        read_corpus(tmp_path)
    assert "Quil" not in str(caught.value)
    assert read_corpus(tmp_path, gold=False).documents[0].spans == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<d>\n<TEXT>Quill & feather</TEXT></d>", r"a\.xml:2: broken XML at column \d+: not well-formed"),
        (b"<d>\n<TEXT>Quill", r"a\.xml:2: broken XML at column \d+: "),
        (b"", r"a\.xml:1: broken XML at column 1: no element found"),
        (b"<d><TEXT>a\0b</TEXT></d>", r"a\.xml: byte 10 is NUL"),
        (b"<d><TEXT>a\xe9b</TEXT></d>", r"a\.xml: byte 10 is not UTF-8"),
        (b"<d><TAGS/></d>", r"a\.xml: one <TEXT> element is needed, the file has 0"),
        (b"<d><TEXT/><TEXT/></d>", r"a\.xml: one <TEXT> element is needed, the file has 2"),
        (b"<d><TEXT>\n<PHI>Quill</PHI></TEXT></d>", r"a\.xml:2: an element occurs inside <TEXT>"),
        (b'<?xml version="1.0" encoding="latin-1"?><d/>', r"a\.xml:1: the file declares the encoding latin-1"),
        (
            b'<?xml version="1.0"?>\n<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<d><TEXT>&x;</TEXT></d>',
            r"a\.xml:2: a document type declaration is refused",
        ),
        (b"<!DOCTYPE d [<!ENTITY a 'x'><!ENTITY b '&a;&a;'>]><d><TEXT>&b;</TEXT></d>", "declaration is refused"),
    ],
)
def test_a_broken_file_is_named_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.xml").write_bytes(content)
    with pytest.raises(CorpusError, match=message) as caught:
        read_corpus(tmp_path)
    assert "Quill" not in str(caught.value)


def test_a_bad_note_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "1.xml", "one")
    (tmp_path / "2.xml").write_bytes(b"<d><TEXT>")
    write(tmp_path / "3.xml", "three", tag(0, 99, "broken"))
    location = locate_corpus(tmp_path)
    one, two, three = iterate_notes(location)
    assert isinstance(one, Document)
    assert "2.xml" in str(two)
    assert isinstance(three, Document)
    assert [isinstance(note, CorpusError) for note in iterate_notes(location, gold=True)] == [False, True, True]


@pytest.mark.parametrize("text", ["x", " \n\t ", ""])
def test_very_short_notes_are_notes(tmp_path: Path, text: str) -> None:
    write(tmp_path / "a.xml", text)
    assert read_corpus(tmp_path).documents[0].text == text


def test_a_note_of_20_mb_is_read(tmp_path: Path) -> None:
    text = "Seen by Dr. Lee on 1/2.\n" * (20_000_000 // 24)
    tags = "\n".join(tag(24 * i + 12, 24 * i + 15, "Lee", "DOCTOR") for i in range(0, 800_000, 400))
    write(tmp_path / "a.xml", text, tags)
    (note,) = read_corpus(tmp_path)
    assert len(note.text) == len(text)
    assert len(note.spans) == 2000
