"""Recognising formats, and the readers of brat, JSON Lines and plain text."""

import json
from pathlib import Path

import pytest

from ensemble_deid.corpora.read import iterate_notes, locate_corpus, read_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.resources import data_directory, rules_directory

SHARED = Path(__file__).parents[1].parent / "shared"
SECRET = "Quillfeather"


def brat(folder: Path, name: str, text: str, annotations: str) -> None:
    (folder / f"{name}.txt").write_bytes(text.encode())
    (folder / f"{name}.ann").write_bytes(annotations.encode())


def jsonl(folder: Path, *entries: object) -> Path:
    path = folder / "c.jsonl"
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_brat_offsets_count_every_character_of_the_file(tmp_path: Path) -> None:
    annotations = "T1\tNAME 2 5\tAda\r\nT2\tNAME 7 13\tLee Xu\n#1\tNote T1\tx\nR1\tOf Arg1:T1 Arg2:T2\t\n"
    brat(tmp_path, "a", "\ufeff\rAda\r\nLee\nXu", annotations)
    corpus = read_corpus(tmp_path)
    assert (corpus.format, corpus.documents[0].text) == ("brat", "\ufeff\rAda\r\nLee\nXu")
    assert corpus.documents[0].spans == (Span(2, 5, "NAME"), Span(7, 13, "NAME"))


def test_brat_annotations_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    brat(tmp_path, "a", "Ada Lee", "\ufeffT1\tNAME 0 3\tAda\r\nT2\tNAME 4 7\tLee\r\n")
    assert read_corpus(tmp_path).documents[0].spans == (Span(0, 3, "NAME"), Span(4, 7, "NAME"))


def test_brat_fragments_become_spans(tmp_path: Path) -> None:
    brat(tmp_path, "a", "Ada of Lee", "T1\tNAME 0 3;7 10\tAda Lee\n")
    corpus = read_corpus(tmp_path / "a.txt")
    assert corpus.documents[0].spans == (Span(0, 3, "NAME"), Span(7, 10, "NAME"))
    assert "1 discontinuous spans" in corpus.warnings[0]


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ("\nT1\tNAME 0 99\tx", r"a\.ann:2: tag T1: its place 0-99 does not lie inside the text of 12 characters"),
        ("T1\tNAME 0 5\tQuilt", r"a\.ann:1: tag T1: its place 0-5 covers 5 characters .* differs"),
        ("T1\tNAME zero 5\tQuill", r"a\.ann:1: expected 'T<number>"),
        ("T1 NAME 0 5 Quill", r"a\.ann:1: expected 'T<number>"),
    ],
)
def test_bad_brat_lines(tmp_path: Path, annotations: str, message: str) -> None:
    brat(tmp_path, "a", SECRET, annotations)
    with pytest.raises(CorpusError, match=message) as caught:
        read_corpus(tmp_path)
    assert "Quil" not in str(caught.value)
    assert read_corpus(tmp_path, gold=False).documents[0].text == SECRET


def test_a_missing_annotation_file_is_an_error(tmp_path: Path) -> None:
    brat(tmp_path, "a", "x", "")
    (tmp_path / "b.txt").write_text("y")
    with pytest.raises(CorpusError, match=r"b\.txt: there is no b\.ann beside it"):
        read_corpus(tmp_path)


def test_jsonl_keeps_what_it_says(tmp_path: Path) -> None:
    entry = {"id": "n", "patient_id": "p", "text": "Ada\u2028é", "spans": [{"start": 0, "end": 3, "label": "NAME"}]}
    raw = json.dumps({"id": "m", "text": "a\u2028b\x85c"}, ensure_ascii=False)
    corpus = read_corpus(jsonl(tmp_path, entry, "", "  ", raw))
    assert corpus.documents == (
        Document("n", "Ada\u2028é", (Span(0, 3, "NAME"),), "p"),
        Document("m", "a\u2028b\x85c"),
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"id": "n", "text": "Quill', r"c\.jsonl:2: broken JSON at column \d+"),
        ("[" * 100_000, r"c\.jsonl:2: broken JSON"),
        ("[]", r"c\.jsonl:2: expected an object, not a list"),
        ({"text": SECRET}, r"c\.jsonl:2: 'id' must be a string, not missing"),
        ({"id": 3, "text": SECRET}, "'id' must be a string, not a number"),
        ({"id": "n"}, "'text' must be a string, not missing"),
        ({"id": "n", "text": "a\0"}, "'text': character 1 of the text is NUL"),
        ({"id": "n", "text": "a\ud800"}, "'text': character 1 of the text is half of a surrogate pair"),
        ({"id": "n", "text": SECRET, "spans": {}}, "'spans' must be a list, not an object"),
        ({"id": "n", "text": SECRET, "spans": ["x"]}, "span 0: expected an object, not a string"),
        ({"id": "n", "text": SECRET, "spans": [{"start": True, "end": 2}]}, "'start' must be an integer, not a boo"),
        ({"id": "n", "text": SECRET, "spans": [{"start": 1, "end": 2}]}, "'label' must be a string, not missing"),
        ({"id": "n", "text": SECRET, "spans": [{"start": 1, "end": 2, "label": ""}]}, "'label' is empty"),
        ({"id": "n", "text": SECRET, "spans": [{"start": 1, "end": 99, "label": "A"}]}, "span 0: its place 1-99"),
        ({"id": "n", "text": SECRET, "spans": [{"start": 0, "end": 2, "label": "A", "text": "Qa"}]}, "differs"),
        ({"id": "n", "text": SECRET, "spans": [{"start": 0, "end": 2, "label": "A", "score": 2}]}, "'score' must"),
        ({"id": "n", "text": SECRET, "metadata": {"kind": 1}}, "value 1 of 'metadata' must be a string, not a number"),
        ({"id": "ok", "text": SECRET}, "the id 'ok' occurs twice"),
    ],
)
def test_bad_json_lines(tmp_path: Path, entry: object, message: str) -> None:
    path = jsonl(tmp_path, {"id": "ok", "text": "fine"}, entry, {"id": "last", "text": "fine"})
    with pytest.raises(CorpusError, match=message) as caught:
        read_corpus(path)
    assert "Quil" not in str(caught.value)
    outcomes = iterate_notes(locate_corpus(path), gold=True)
    assert [isinstance(outcome, CorpusError) for outcome in outcomes] == [False, True, False]


def test_an_id_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"id": "n", "text": "x"}\n')
    with pytest.raises(CorpusError, match=r"b\.jsonl:1: the id 'n' occurs twice \(first in .*a\.jsonl:1\)"):
        read_corpus(tmp_path)


def test_plain_text_has_patients_only_where_every_name_tells_one(tmp_path: Path) -> None:
    (tmp_path / "101-01.txt").write_bytes(b"a\r\nb\rc\n")
    (tmp_path / "102-01.txt").write_bytes(b" \n ")
    corpus = read_corpus(tmp_path)
    assert [note.text for note in corpus] == ["a\r\nb\rc\n", " \n "]
    assert [note.patient_id for note in corpus] == ["101", "102"]
    (tmp_path / "letter.txt").write_bytes(b"x")
    assert [note.patient_id for note in read_corpus(tmp_path)] == [None, None, None]
    assert "plain text carries no annotations" in read_corpus(tmp_path).warnings[0]


@pytest.mark.parametrize(("content", "message"), [(b"ab\xff", "byte 2 is not UTF-8"), (b"a\0", "byte 1 is NUL")])
def test_bytes_that_are_no_text(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "b.txt").write_bytes(b"fine")
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path)
    notes = iterate_notes(locate_corpus(tmp_path))
    assert [note.id for note in notes if isinstance(note, Document)] == ["b"]


def test_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    for call in (read_corpus, locate_corpus):
        with pytest.raises(CorpusError, match=r"nowhere: there is no such file or folder"):
            call(tmp_path / "nowhere")
        with pytest.raises(CorpusError, match="the corpus is empty"):
            call(tmp_path)
    (tmp_path / "c.jsonl").write_text("\n")
    with pytest.raises(CorpusError, match="the corpus is empty: it has no notes"):
        read_corpus(tmp_path)


def test_notes_in_subfolders_are_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.txt").write_text("x")
    with pytest.raises(CorpusError, match=r"its folders train have some"):
        read_corpus(tmp_path)


def test_mixed_folders_need_a_format(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.jsonl").write_text('{"id": "n", "text": "y"}')
    (tmp_path / "c.pdf").write_bytes(b"\xff")
    (tmp_path / ".hidden.txt").write_bytes(b"\xff")
    with pytest.raises(CorpusError, match=r"several kinds \(\.jsonl, \.txt\)"):
        read_corpus(tmp_path)
    corpus = read_corpus(tmp_path, format="jsonl")
    assert [note.text for note in corpus] == ["y"]
    assert corpus.warnings == (f"{tmp_path}: files of other kinds were not read (2): a.txt, c.pdf",)
    with pytest.raises(CorpusError, match="'docx' is not a corpus format; the formats are i2b2, meddocan, brat"):
        read_corpus(tmp_path, format="docx")


def test_the_word_demo_names_a_split() -> None:
    with pytest.raises(CorpusError, match="the demo corpus has no split 'all'; it has train, dev, test"):
        read_corpus("demo:all")


def test_rules_and_data_are_found() -> None:
    assert rules_directory().is_dir()
    assert (data_directory() / "LICENSE").is_file()


def test_a_missing_resource_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ensemble_deid.resources._PACKAGE", tmp_path / "package")
    with pytest.raises(ConfigError, match="the folder 'data' was not installed"):
        data_directory()
    (tmp_path / "package" / "_data").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    assert data_directory() == tmp_path / "package" / "_data"


@pytest.mark.parametrize(
    ("folder", "notes", "phi"), [("corpora/meddocan/train", 500, 11_333), ("corpora/meddocan/dev", 250, 5_801)]
)
def test_meddocan_is_read_whole(folder: str, notes: int, phi: int) -> None:
    if not (SHARED / folder).is_dir():
        pytest.skip("the MEDDOCAN corpus is not beside this checkout")
    corpus = read_corpus(SHARED / folder)
    assert (len(corpus), sum(len(note.spans) for note in corpus)) == (notes, phi)
    assert corpus.warnings == ()


@pytest.mark.parametrize("batch", ["a", "b", "c"])
@pytest.mark.parametrize("side", ["gold", "system"])
def test_made_up_i2b2_folders_are_read_whole(batch: str, side: str) -> None:
    folder = SHARED / "parity" / "i2b2" / batch / side
    if not folder.is_dir():
        pytest.skip("the official scorers' folders are not beside this checkout")
    assert len(read_corpus(folder)) == len(list(folder.glob("*.xml")))
