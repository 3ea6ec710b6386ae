"""The formats of older gold corpora, on files made by hand after their descriptions: i2b2 2006, PhysioNet deid."""

from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.formats import ANNOTATED, FORMATS, WRITABLE
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

I2B2_2006 = """<?xml version="1.0" encoding="UTF-8" ?>
<ROOT>
<RECORD ID="1">
<TEXT>
Seen by <PHI TYPE="DOCTOR">A. Moss</PHI> &amp; <PHI TYPE="DOCTOR">Lee</PHI> on <PHI TYPE="DATE">4/2</PHI>.
</TEXT>
</RECORD>
<RECORD ID="27">
<TEXT>Nothing here.</TEXT>
</RECORD>
</ROOT>
"""
ID_TEXT = """
START_OF_RECORD=1||||1||||
Seen by Moss.
Son Bo called.

||||END_OF_RECORD

START_OF_RECORD=12||||3||||
Nothing here.
||||END_OF_RECORD
"""
ID_PHI = "Patient 1\tNote 1\n8\t8\t12\n18\t18\t20\n\nPatient 12\tNote 3\n"


def test_records_of_2006_are_notes_and_elements_are_spans(tmp_path: Path) -> None:
    (tmp_path / "train.xml").write_text(I2B2_2006, encoding="utf-8")
    corpus = read_corpus(tmp_path)
    assert corpus.format == "i2b2-2006"
    first, second = corpus.documents
    assert (first.id, second.id) == ("1", "27")
    assert first.text == "\nSeen by A. Moss & Lee on 4/2.\n"
    assert [(first.text[s.start : s.end], s.label) for s in first.spans] == [
        ("A. Moss", "DOCTOR"),
        ("Lee", "DOCTOR"),
        ("4/2", "DATE"),
    ]
    assert second.spans == ()
    assert first.group != second.group
    assert not any(note.spans for note in read_corpus(tmp_path / "train.xml", gold=False))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('TYPE="DATE"', 'TYPE="DAT"', "train.xml:5: its type is none of i2b2-2006; the nearest known is 'DATE'"),
        (">Lee<", "><", "train.xml:5: an empty <PHI> element"),
        (">Lee<", "><b>Lee</b><", "train.xml:5: an element in <PHI> that the 2006 format does not have there"),
        ("<TEXT>Nothing here.</TEXT>", "", "train.xml:8: a record has one <TEXT>, this one 0"),
        ("</TEXT>\n</RECORD>\n<RECORD", "</TEXT>left\n</RECORD>\n<RECORD", "train.xml:3: text outside of <TEXT>"),
        ("<ROOT>", "<!DOCTYPE ROOT>\n<ROOT>", "train.xml:2: a document type declaration is refused"),
        ("</ROOT>", "", "train.xml:12: broken XML"),
        ('ID="27"', 'ID="1"', "the id '1' occurs twice"),
        ('ID="27"', "", "train.xml:8: the id has 0 characters"),
    ],
)
def test_what_the_2006_format_does_not_have_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in I2B2_2006
    (tmp_path / "train.xml").write_text(I2B2_2006.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CorpusError, match=message) as raised:
        read_corpus(tmp_path)
    assert "Moss" not in str(raised.value)


def test_physionet_notes_and_places(tmp_path: Path) -> None:
    (tmp_path / "id.text").write_text(ID_TEXT, encoding="utf-8")
    (tmp_path / "id.phi").write_text(ID_PHI, encoding="utf-8")
    (tmp_path / "id.deid").write_text("another file", encoding="utf-8")
    corpus = read_corpus(tmp_path)
    assert corpus.format == "physionet"
    assert [(note.id, note.patient_id, note.text) for note in corpus] == [
        ("1-1", "1", "Seen by Moss.\nSon Bo called.\n"),
        ("12-3", "12", "Nothing here."),
    ]
    first = corpus.documents[0]
    assert [(first.text[s.start : s.end], s.label) for s in first.spans] == [("Moss", "PHI"), ("Bo", "PHI")]
    assert any("id.deid" in warning for warning in corpus.warnings)
    (tmp_path / "id.phi").unlink()
    assert not any(note.spans for note in read_corpus(tmp_path, gold=False))
    with pytest.raises(CorpusError, match=r"id\.phi: there is no such file with the annotations"):
        read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("id.phi", "8\t8\t12", "8\t9\t12", r"id\.phi:2: expected 'Patient N Note N', or below"),
        ("id.phi", "Patient 1\tNote 1\n", "", r"id\.phi:1: expected 'Patient N Note N'"),
        ("id.phi", "18\t18\t20", "18\t18\t99", r"id\.phi:3: the span 18-99 does not lie inside the text"),
        ("id.phi", "Patient 12\tNote 3", "Patient 12\tNote 4", "annotates patient 12, note 4, which id.text"),
        ("id.text", "\n||||END_OF_RECORD\n\nSTART", "\nSTART", r"id\.text:6: a record begins inside another one"),
        ("id.text", "Nothing here.\n||||END_OF_RECORD\n", "Nothing", r"id\.text:8: the record does not end"),
        ("id.text", "\nSTART_OF_RECORD=1||||1||||", "", r"id\.text:2: text outside of a record"),
        ("id.text", "START_OF_RECORD=12||||3||||", "START_OF_RECORD=1||||1||||", "annotates patient 12, note 3"),
    ],
)
def test_broken_physionet_files_are_refused(file: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    contents = {"id.text": ID_TEXT, "id.phi": ID_PHI}
    assert old in contents[file]
    contents[file] = contents[file].replace(old, new, 1)
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=message) as raised:
        read_corpus(tmp_path)
    assert "Moss" not in str(raised.value)


def test_they_can_be_converted_but_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "train.xml"
    source.write_text(I2B2_2006, encoding="utf-8")
    out = tmp_path / "out.jsonl"
    assert (
        main(["corpus", "convert", str(source), "--out", str(out), "--format", "jsonl", "--label-map", "category"]) == 0
    )
    assert {span.label for note in read_corpus(out) for span in note.spans} == {"NAME", "DATE"}
    capsys.readouterr()
    with pytest.raises(CorpusError, match="the format i2b2-2006 is read, not written"):
        write_corpus(read_corpus(source).documents, tmp_path / "again", "i2b2-2006")


@pytest.mark.parametrize("name", ["i2b2-2006", "physionet"])
@pytest.mark.parametrize(
    "command", [("predict", "model", "in"), ("corpus", "convert", "in"), ("corpus", "resample", "in")]
)
def test_no_command_is_asked_to_write_them(
    command: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong option, before any work, not notes that are withheld after it."""
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--out", "out", "--format", name])
    assert stopped.value.code == 2
    assert f"invalid choice: '{name}'" in capsys.readouterr().err


def test_all_that_can_be_written_can_be_chosen() -> None:
    document = Document("1", "Seen.")
    for name, format in FORMATS.items():
        if name in WRITABLE:
            assert set(format.render_note(document)) == set(format.suffixes)
        else:
            with pytest.raises(CorpusError, match="is read, not written"):
                format.render_note(document)
    assert set(WRITABLE) - set(ANNOTATED) == {"plain"}
