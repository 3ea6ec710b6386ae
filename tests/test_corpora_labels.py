"""Label maps, and `corpus convert --label-map`."""

from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.label_map import load_label_map
from ensemble_deid.note.span import Span

NOTE = Document("n", "Ada Lee 5/4 Rome", (Span(0, 7, "Person"), Span(0, 3, "Given"), Span(8, 11, "Time")))


def map_file(folder: Path, content: str) -> str:
    path = folder / "map.toml"
    path.write_text(content, encoding="utf-8")
    return str(path)


def labels_of(document: Document) -> list[tuple[int, int, str]]:
    return [span.key for span in document.spans]


@pytest.mark.parametrize(
    ("unlisted", "expected"),
    [("keep", [(0, 3, "Given"), (0, 7, "PATIENT"), (8, 11, "DATE")]), ("drop", [(0, 7, "PATIENT"), (8, 11, "DATE")])],
)
def test_labels_of_a_file(tmp_path: Path, unlisted: str, expected: list[tuple[int, int, str]]) -> None:
    content = f'unlisted = "{unlisted}"\n[labels]\nPerson = "PATIENT"\nTime = "DATE"\n'
    assert labels_of(load_label_map(map_file(tmp_path, content)).apply(NOTE)) == expected


def test_dropped_labels_and_spans_that_become_one(tmp_path: Path) -> None:
    twice = Document("n", "Ada", (Span(0, 3, "A", 0.5), Span(0, 3, "B", 0.7), Span(0, 1, "C")))
    found = load_label_map(map_file(tmp_path, '[labels]\nA = "X"\nB = "X"\nC = false\n')).apply(twice)
    assert found.spans == (Span(0, 3, "X", 0.5),)


def test_a_label_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    label_map = load_label_map(map_file(tmp_path, '[labels]\nPerson = "PATIENT"\nTime = "DATE"\n'))
    with pytest.raises(ConfigError, match=r"map\.toml: the corpus's label 'Given' is not listed"):
        label_map.apply(NOTE)


def test_built_in_maps() -> None:
    spans = (Span(0, 7, "PATIENT"), Span(0, 3, "HOSPITAL"), Span(8, 11, "FECHAS"), Span(12, 16, "COUNTRY"))
    note = NOTE.with_spans(spans)
    assert [key[2] for key in labels_of(load_label_map("category").apply(note))] == [
        "LOCATION", "NAME", "DATE", "LOCATION",
    ]  # fmt: skip
    assert {key[2] for key in labels_of(load_label_map("binary").apply(note))} == {"PHI"}
    assert [key[2] for key in labels_of(load_label_map("hipaa").apply(note))] == ["PATIENT", "FECHAS"]
    with pytest.raises(ConfigError, match="the label 'Person' has no category"):
        load_label_map("category").apply(NOTE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[labels", "cannot be read as TOML"),
        ("", r"a table \[labels\] is needed"),
        ("[labels]\nA = true", "labels.A: expected the name of a label, or false"),
        ('[labels]\nA = ""', "labels.A: expected the name of a label, or false"),
        ('unlisted = "x"\n[labels]\nA = "B"', "unlisted must be one of refuse, keep, drop"),
        ('other = 1\n[labels]\nA = "B"', "unknown key 'other'"),
    ],
)
def test_a_broken_map_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_label_map(map_file(tmp_path, content))


@pytest.mark.parametrize(("name", "message"), [("hippa", "is not a label map"), ("gone.toml", "cannot be read")])
def test_a_map_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_label_map(name)


def test_convert_with_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus([NOTE], tmp_path / "in", "brat")
    path = map_file(tmp_path, 'unlisted = "drop"\n[labels]\nPerson = "PATIENT"\nTime = "DATE"\n')
    out = tmp_path / "out"
    assert (
        main(["corpus", "convert", str(tmp_path / "in"), "--label-map", path, "--format", "i2b2", "--out", str(out)])
        == 0
    )
    assert "3 spans, 2 after the map" in capsys.readouterr().out
    assert labels_of(read_corpus(out).documents[0]) == [(0, 7, "PATIENT"), (8, 11, "DATE")]
    again = [
        "corpus",
        "convert",
        str(tmp_path / "in"),
        "--label-map",
        "category",
        "--format",
        "jsonl",
        "--out",
        str(out),
    ]
    assert main(again) == 2
    assert "has no category" in capsys.readouterr().err
