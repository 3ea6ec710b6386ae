"""The stand-off form of the Dernoncourt-Lee corpus, on files made by hand after the description of BERT-deid."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import CorpusError

TEXT = "Seen by Moss, MD\nat Elm\nClinic on 4/2.\n"
GS = """document_id,annotation_id,start,stop,entity,entity_type,comment
500,1,8,12,Moss,DOCTOR,
500,2,20,30,"Elm
Clinic",Hospital,a remark
500,3,34,37,4/2,DATE,
"""


def write(folder: Path, *, text: str = TEXT, gs: str = GS) -> Path:
    for name in ("ann", "txt"):
        (folder / name).mkdir(parents=True)
    (folder / "txt" / "500.txt").write_bytes(text.encode())
    (folder / "ann" / "500.gs").write_bytes(gs.encode())
    return folder / "ann"


def test_annotations_are_read_with_the_text_beside_their_folder(tmp_path: Path) -> None:
    corpus = read_corpus(write(tmp_path))
    assert corpus.format == "dernoncourt-lee"
    (note,) = corpus.documents
    assert (note.id, note.text, note.patient_id) == ("500", TEXT, None)
    assert [(TEXT[s.start : s.end], s.label) for s in note.spans] == [
        ("Moss", "DOCTOR"),
        ("Elm\nClinic", "HOSPITAL"),
        ("4/2", "DATE"),
    ]
    assert read_corpus(tmp_path / "ann" / "500.gs").documents == corpus.documents
    assert read_corpus(tmp_path / "ann", gold=False).documents[0].spans == ()
    assert read_corpus(tmp_path / "txt").documents[0].text == TEXT


def test_the_text_may_stand_in_the_same_folder(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "txt" / "500.txt").rename(folder / "500.txt")
    assert len(read_corpus(folder, format="dernoncourt-lee").documents[0].spans) == 3


def test_a_note_without_annotations_has_the_heads_alone(tmp_path: Path) -> None:
    assert read_corpus(write(tmp_path, gs=GS.partition("\n")[0] + "\n")).documents[0].spans == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("8,12,Moss", "8,13,Moss", r"500\.gs:2: the span 8-13 covers 5 characters .* its own text of 4 characters"),
        ("34,37,4/2", "34,99,", r"500\.gs:5: the span 34-99 does not lie inside the text"),
        ("34,37,4/2", "-3,37,", r"500\.gs:5: start and stop are whole numbers"),
        ("34,37,4/2", "3.0,37,", r"500\.gs:5: start and stop are whole numbers"),
        ("4/2,DATE", "4/2,DAY", r"500\.gs:5: its type is none of i2b2; the nearest known is"),
        ("500,1,8", "501,1,8", r"500\.gs:2: an annotation of another note"),
        ("entity_type", "kind", r"500\.gs:1: there is no column entity_type"),
        ("4/2,DATE,", "4/2,DATE,,x", r"500\.gs:5: the line and the header have different"),
        ("4/2,DATE,", "4/2,DATE", r"500\.gs:5: the line and the header have different"),
        ('Clinic"', 'Clinic"x', r"500\.gs:\d: broken CSV"),
    ],
)
def test_what_is_not_as_described_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in GS
    with pytest.raises(CorpusError, match=message) as raised:
        read_corpus(write(tmp_path, gs=GS.replace(old, new, 1)))
    assert "Moss" not in str(raised.value)


def test_an_empty_file_and_a_lone_one_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, gs="")
    with pytest.raises(CorpusError, match=r"500\.gs:1: there is no column start"):
        read_corpus(folder)
    (tmp_path / "txt" / "500.txt").unlink()
    with pytest.raises(CorpusError, match=r"500\.gs: the note's text is neither "):
        read_corpus(folder)


def test_it_is_converted_to_categories(tmp_path: Path) -> None:
    folder, out = write(tmp_path), tmp_path / "out.jsonl"
    assert (
        main(["corpus", "convert", str(folder), "--label-map", "category", "--format", "jsonl", "--out", str(out)]) == 0
    )
    assert [span.label for span in read_corpus(out).documents[0].spans] == ["NAME", "LOCATION", "DATE"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), min_size=1), st.data())
def test_any_text_and_place_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(
        [["document_id", "start", "stop", "entity", "entity_type"], ["500", start, end, text[start:end], "CITY"]]
    )
    folder = write(tmp_path_factory.mktemp("gs"), text=text, gs=stream.getvalue())
    (note,) = read_corpus(folder).documents
    assert note.text == text
    assert [s.key for s in note.spans] == [(start, end, "CITY")]
