"""Marked notes, and the build of the demo corpus."""

import hashlib
import re
from pathlib import Path

import pytest

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.resources import data_directory
from tools.build import BuiltSplit, build_corpus, read_splits
from tools.markup import read_marked_note


def note(folder: Path, body: str, *, name: str = "101-01", head: str = "kind: letter\nsite: S01") -> Path:
    path = folder / f"{name}.note"
    path.write_bytes(f"{head}\n---\n{body}".encode())
    return path


def test_marks_become_spans(tmp_path: Path) -> None:
    path = note(tmp_path, "Seen by Dr.[[DOCTOR:Ng]] [[DATE:5/4]]-[[DATE:5/9]]\n[[CITY:São\nPaulo]].\n")
    document = read_marked_note(path)
    assert (document.id, document.patient_id, document.site) == ("101-01", "101", "S01")
    assert dict(document.metadata) == {"kind": "letter"}
    assert document.text == "Seen by Dr.Ng 5/4-5/9\nSão\nPaulo.\n"
    found = [(document.text[span.start : span.end], span.label) for span in document.spans]
    assert found == [("Ng", "DOCTOR"), ("5/4", "DATE"), ("5/9", "DATE"), ("São\nPaulo", "CITY")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a\nb [[PATIENT:Quill", ":5:3: [[ without ]]"),
        ("b [[PATIENT:Quill [[DATE:May]] x]]", ":4:19: a mark inside the mark that opens at {}:4:3"),
        ("ab ]] c", ":4:4: ]] without [["),
        ("[[PATIENT:]]", ":4:1: an empty mark"),
        ("[[PATIENT:Quill ]]", ":4:1: white space at an edge of the mark"),
        ("[[PATEINT:Quill]]", ":4:1: its type is none of i2b2; the nearest known is 'PATIENT'"),
        ("[[Quill]]", ":4:1: expected [[TYPE:text]]"),
        ("[[DATE:May\n3]]", ":4:1: a line break inside a mark of type DATE"),
        ("x\n[[CITY:Quill]] and\n  Quill", ":6:3: 5 characters that are marked CITY at {}:5:8 are unmarked here"),
        ("[[DOCTOR:Ada Quill]]. Quill's", ":4:23: 5 characters that are marked DOCTOR at {}:4:10 are unmarked here"),
    ],
)
def test_what_the_build_refuses(tmp_path: Path, body: str, message: str) -> None:
    path = note(tmp_path, body)
    with pytest.raises(CorpusError, match=f"^{re.escape(str(path) + message.format(path))}") as caught:
        read_marked_note(path)
    assert "Quill" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("kind: a\nsite: S01\nkind: b", ":3:1: expected 'kind: ...'"),
        ("kind: a\nexcuses: May", ":2:1: expected 'kind: ...'"),
        ("site: S01\nexcuse: May", ":1:1: the head has no kind"),
        ("kind: a\nexcuse: May", ":1:1: the head has no site"),
        ("kind: a\nsite: 1", ":2:1: a site is a capital letter and two or three digits"),
        ("kind: a\r", ":1:8: a CR"),
    ],
)
def test_a_broken_head(tmp_path: Path, head: str, message: str) -> None:
    with pytest.raises(CorpusError, match=re.escape(message)):
        read_marked_note(note(tmp_path, "x", head=head))


def test_a_note_without_a_head(tmp_path: Path) -> None:
    path = tmp_path / "101-01.note"
    path.write_text("kind: a\n")
    with pytest.raises(CorpusError, match="there is no line '---'"):
        read_marked_note(path)


def test_excused_parts_of_words_and_short_strings_may_repeat(tmp_path: Path) -> None:
    body = "[[PATIENT:Ada May]] may eat. May walk. Adam. [[STATE:NY]] NY [[AGE:70]] 70"
    document = read_marked_note(note(tmp_path, body, head="kind: a\nsite: S01\nexcuse: May, none"))
    assert len(document.spans) == 3


def sources(tmp_path: Path) -> tuple[Path, Path]:
    src = tmp_path / "src"
    src.mkdir()
    note(src, "[[PATIENT:Ada]]", name="101-01")
    note(src, "[[PATIENT:Ada]] again", name="101-02", head="kind: progress note\nsite: S01")
    note(src, "[[PATIENT:Bo]]", name="102-01", head="kind: letter\nsite: E29")
    note(src, "well", name="103-01")
    splits = tmp_path / "splits.toml"
    splits.write_text('train = ["101"]\ndev = ["103"]\ntest = ["102"]\n')
    return src, splits


def test_the_build_splits_by_patient(tmp_path: Path) -> None:
    src, splits = sources(tmp_path)
    built = build_corpus(src, tmp_path / "out", splits=splits)
    assert built == (BuiltSplit("train", 1, 2, 2), BuiltSplit("dev", 1, 1, 0), BuiltSplit("test", 1, 1, 1))
    train = read_corpus(tmp_path / "out" / "train")
    assert train.format == "i2b2"
    assert [note.site for note in read_corpus(tmp_path / "out" / "test")] == ["E29"]
    assert [(note.id, note.patient_id, note.metadata["kind"]) for note in train] == [
        ("101-01", "101", "letter"),
        ("101-02", "101", "progress note"),
    ]
    assert train.documents[1] == read_marked_note(src / "101-02.note")
    first = (tmp_path / "out" / "train" / "101-01.xml").read_bytes()
    sums = (tmp_path / "out" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert sums[0] == f"{hashlib.sha256(first).hexdigest()}  train/101-01.xml"
    assert [line.split("  ")[1] for line in sums[1:]] == ["train/101-02.xml", "dev/103-01.xml", "test/102-01.xml"]
    (src / "101-02.note").unlink()
    (tmp_path / "out" / "train" / "mine.xml").write_text("kept")
    build_corpus(src, tmp_path / "out", splits=splits)
    assert sorted(path.name for path in (tmp_path / "out" / "train").iterdir()) == ["101-01.xml", "mine.xml"]
    assert (tmp_path / "out" / "train" / "101-01.xml").read_bytes() == first


def test_the_build_splits_by_site_unless_a_patient_is_named(tmp_path: Path) -> None:
    src, splits = sources(tmp_path)
    splits.write_text('train = ["S01"]\ndev = ["103"]\ntest = ["E29"]\n')
    built = build_corpus(src, tmp_path / "out", splits=splits)
    assert [(split.name, split.patients, split.notes) for split in built] == [
        ("train", 1, 2),
        ("dev", 1, 1),
        ("test", 1, 1),
    ]
    splits.write_text('train = ["S01"]\ndev = ["S02"]\ntest = ["E29"]\n')
    with pytest.raises(CorpusError, match="S02 has no notes"):
        build_corpus(src, tmp_path / "out", splits=splits)


def test_all_problems_of_all_notes_are_told_before_anything_is_written(tmp_path: Path) -> None:
    src, splits = sources(tmp_path)
    note(src, "[[PATIENT:]] ]]", name="101-01")
    note(src, "[[", name="102-01")
    with pytest.raises(CorpusError) as caught:
        build_corpus(src, tmp_path / "out", splits=splits)
    assert len(str(caught.value).split("\n")) == 3
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('train = ["101", "102"]\ndev = ["103"]\ntest = ["101"]', "101 is in train and again in test"),
        ('train = ["101", "102"]\ndev = []\ntest = []', "the patient 103 is in no split"),
        ('train = ["101", "102", "104"]\ndev = ["103"]\ntest = []', "104 has no notes"),
        ("train = [101]\ndev = []\ntest = []", "train must be a list of strings"),
        ("train = []", "expected the keys train, dev, test, site, later, not train"),
        ("train = [", "cannot be read as TOML"),
    ],
)
def test_splits_must_name_every_patient_once(tmp_path: Path, content: str, message: str) -> None:
    src, splits = sources(tmp_path)
    splits.write_text(content)
    with pytest.raises(CorpusError, match=message):
        build_corpus(src, tmp_path / "out", splits=splits)


def test_a_patient_has_one_site(tmp_path: Path) -> None:
    src, splits = sources(tmp_path)
    note(src, "well", name="101-02", head="kind: letter\nsite: S02")
    with pytest.raises(CorpusError, match=r"101-02\.note:1:1: the site is S02, but S01 in .*101-01\.note"):
        build_corpus(src, tmp_path / "out", splits=splits)


def test_no_sources(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"there are no \.note files"):
        build_corpus(tmp_path, tmp_path / "out", splits=tmp_path / "splits.toml")


def test_the_demo_corpus_is_what_its_sources_build(tmp_path: Path) -> None:
    demo = data_directory() / "demo"
    build_corpus(demo / "src", tmp_path, splits=demo / "splits.toml")
    for split in sorted(set(read_splits(demo / "splits.toml").values())):
        built = {path.name: path.read_bytes() for path in (tmp_path / split).iterdir()}
        assert built == {path.name: path.read_bytes() for path in (demo / split).glob("*.xml")}
    assert (tmp_path / "SHA256SUMS").read_bytes() == (demo / "SHA256SUMS").read_bytes()
