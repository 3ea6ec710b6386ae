"""Input that was made, or has come about, to stop the readers: none of it blocks, takes long, or is quoted."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from bounded_work import calls, no_hang

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.checks import read_utf8
from ensemble_deid.corpora.read import iterate_notes, locate_corpus, read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from tools.markup import read_marked_note

SECRET = "Quillfeather"


def make_socket(path: Path) -> None:
    # The path of a socket must be short: it is made from within its folder.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "link.txt": (lambda path: path.symlink_to("nowhere"), "is a link to nothing"),
    "loop.txt": (lambda path: path.symlink_to(path.name), "is a link that leads to itself"),
    "pipe.txt": (lambda path: os.mkfifo(path), "is a pipe, socket or device"),
    "device.txt": (lambda path: path.symlink_to("/dev/zero"), "is a pipe, socket or device"),
    "socket.txt": (make_socket, "is a pipe, socket or device"),
    "pipe": (lambda path: os.mkfifo(path), "is a pipe, socket or device"),
    "turned\u202etxt": (lambda path: path.write_text("x"), "turned\\u202etxt: is something whose name has char"),
    "line\u2028end.txt": (lambda path: path.write_text("x"), "line\\u2028end.txt: is something whose name has char"),
    "bell\x07.txt": (lambda path: path.write_text("x"), "bell\\u0007.txt: is something whose name has characters"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_no_readable_file_is_reported(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    make, expected = STRANGE[name]
    notes, out = tmp_path / "notes", tmp_path / "out"
    write_corpus([Document("a", "Seen.")], notes, "plain")
    make(notes / name)
    assert main(["deidentify", str(tiny_model), str(notes), "--out", str(out)]) == 3
    said = capsys.readouterr()
    assert said.out.startswith(f"1 note written to {out}, 1 withheld\n")
    assert expected in said.err
    assert said.err.replace("\n", "").isprintable()
    assert [path.name for path in out.iterdir()] == ["a.txt"]
    with pytest.raises(CorpusError, match=r": is (a|something) "):
        read_corpus(notes)


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_thing_by_itself_is_an_error(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    make, expected = STRANGE[name]
    notes = tmp_path / "notes"
    notes.mkdir()
    make(notes / name)
    for source in (notes, notes / name):
        assert main(["deidentify", str(tiny_model), str(source), "--out", str(tmp_path / "out")]) in (2, 3)
        assert expected in capsys.readouterr().err


def test_folders_are_named_but_for_the_output(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus([Document("a", "Seen.")], tmp_path, "plain")
    (tmp_path / "more").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "more")
    for _ in range(2):
        assert main(["deidentify", str(tiny_model), str(tmp_path), "--out", str(tmp_path / "out")]) == 3
        assert capsys.readouterr().err.splitlines() == [
            f"ensemble-deid: withheld: {tmp_path / name}: is a folder, whose notes were not read"
            for name in ("linked", "more")
        ]
    assert read_corpus(tmp_path).warnings[:3] == tuple(
        f"{tmp_path / name}: is a folder, whose notes were not read" for name in ("linked", "more", "out")
    )


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Seen.")
    location = locate_corpus(tmp_path)
    path.unlink()
    os.mkfifo(path)
    (outcome,) = iterate_notes(location)
    assert "not a regular file" in str(outcome)
    with pytest.raises(CorpusError, match="not a regular file"):
        read_utf8(tmp_path / "a.txt")


def test_deep_nesting_is_refused_at_once(tmp_path: Path) -> None:
    depth = 200_000
    for text in ("<d>" * depth + "</d>" * depth, "<d><TAGS>" + "<d>" * depth, "<d>" * 101 + "<TEXT>x</TEXT>"):
        (tmp_path / "a.xml").write_text(text, encoding="utf-8")
        said = r"a\.xml:1: elements are nested more than 100 deep"
        with no_hang(), pytest.raises(CorpusError, match=said):
            read_corpus(tmp_path)


def read_all(folder: Path) -> None:
    for _ in iterate_notes(locate_corpus(folder), gold=True):
        pass


def refuse_note(folder: Path) -> None:
    with pytest.raises(CorpusError):
        read_marked_note(folder / "1-01.note")


def check_work(folder: Path, write: Callable[[Path, int], object], work: Callable[[Path], object]) -> None:
    """Four times as long a file makes four times as many calls, sixteen times if every part met every other."""
    counts = []
    for size in (1_500, 6_000, 40_000):
        place = folder / str(size)
        place.mkdir()
        write(place, size)
        if size < 40_000:
            counts.append(calls(lambda place=place: work(place)))
        else:
            with no_hang():
                work(place)
    assert counts[1] < 6 * counts[0]


def xml_tags(folder: Path, size: int) -> None:
    tags = "".join(f'<NAME id="P{k}" start="0" end="{size}" text="" TYPE="X{SECRET}" />\n' for k in range(size))
    (folder / "a.xml").write_text(f"<d><TEXT>{'x' * size}</TEXT><TAGS>{tags}</TAGS></d>", encoding="utf-8")


def xml_siblings(folder: Path, size: int) -> None:
    (folder / "a.xml").write_text(f"<d>{'<a><b/></a>' * size}<TEXT>{'&amp;' * size}</TEXT></d>", encoding="utf-8")


def xml_attributes(folder: Path, size: int) -> None:
    attributes = " ".join(f'a{k}="x"' for k in range(size))
    (folder / "a.xml").write_text(f"<d {attributes}><TEXT>x</TEXT><TAGS/></d>", encoding="utf-8")


def xml_label(folder: Path, size: int) -> None:
    tag = f'<NAME id="P1" start="0" end="1" text="" TYPE="{"PATIENT" * size}" />'
    (folder / "a.xml").write_text(f"<d><TEXT>x</TEXT><TAGS>{tag}</TAGS></d>", encoding="utf-8")


def brat_nested(folder: Path, size: int) -> None:
    (folder / "a.txt").write_text("x" * (2 * size), encoding="utf-8")
    lines = "".join(f"T{k}\tA {k} {2 * size - k}\n" for k in range(size))
    (folder / "a.ann").write_text(lines, encoding="utf-8")


def brat_fragments(folder: Path, size: int) -> None:
    (folder / "a.txt").write_text("x" * (2 * size), encoding="utf-8")
    (folder / "a.ann").write_text("T1\tA " + ";".join(f"{k} {k + 2}" for k in range(size)), encoding="utf-8")


def brat_blanks(folder: Path, size: int) -> None:
    (folder / "a.txt").write_text("x", encoding="utf-8")
    (folder / "a.ann").write_text(f"T1\tA{' ' * size}0 1\t" + ";" * size, encoding="utf-8")


def jsonl_line(folder: Path, size: int) -> None:
    spans = [{"start": 0, "end": k + 1, "label": "A"} for k in range(size)]
    line = json.dumps(
        {"id": "a", "text": "x" * size, "spans": spans, "metadata": dict.fromkeys(map(str, range(size)), "")}
    )
    (folder / "a.jsonl").write_text(line, encoding="utf-8")


def jsonl_nested(folder: Path, size: int) -> None:
    (folder / "a.jsonl").write_text("[" * size + '{"a":' * size + "\n" + "9" * size, encoding="utf-8")


def jsonl_blank(folder: Path, size: int) -> None:
    (folder / "a.jsonl").write_text(" \n" * size + '{"id": "a", "text": ""}', encoding="utf-8")


@pytest.mark.parametrize(
    "write",
    [
        xml_tags,
        xml_siblings,
        xml_attributes,
        xml_label,
        brat_nested,
        brat_fragments,
        brat_blanks,
        jsonl_line,
        jsonl_nested,
        jsonl_blank,
    ],
)
def test_reading_is_work_in_proportion_to_length(tmp_path: Path, write: Callable[[Path, int], object]) -> None:
    check_work(tmp_path, write, read_all)


def note_brackets(folder: Path, size: int) -> None:
    (folder / "1-01.note").write_text(f"kind: x\nsite: S01\n---\n{']] [[ ' * size}\n{'x' * size}", encoding="utf-8")


def note_repeats(folder: Path, size: int) -> None:
    text = f"kind: x\nsite: S01\n---\n[[CITY:Lyndale]]\n{'Lyndale ' * size}"
    (folder / "1-01.note").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("write", [note_brackets, note_repeats])
def test_checking_a_note_is_work_in_proportion_to_length(tmp_path: Path, write: Callable[[Path, int], object]) -> None:
    check_work(tmp_path, write, refuse_note)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xml", f"<d><TEXT>x<{SECRET}>y</{SECRET}></TEXT></d>"),
        ("a.xml", f'<d><TEXT>x</TEXT><TAGS><{SECRET} id="P1" start="0" end="1"/></TAGS></d>'),
        ("a.xml", f'<d><TEXT>x</TEXT><TAGS><NAME id="{SECRET}" start="0" end="1" TYPE="CITTY"/></TAGS></d>'),
        ("a.xml", f'<d><TEXT>x</TEXT><TAGS><NAME id="P1" start="0" end="1" TYPE="{SECRET}"/></TAGS></d>'),
        ("a.xml", f'<d><TEXT>x</TEXT><TAGS><NAME id="{SECRET}" start="0" end="{SECRET}" TYPE="CITY"/></TAGS></d>'),
        ("a.xml", f'<d><TEXT>x</TEXT><TAGS><NAME id="{SECRET}" end="1" TYPE="CITY"/></TAGS></d>'),
        ("a.xml", f'<d><TEXT>x</TEXT><TAGS><NAME id="{SECRET}" start="0" end="9" TYPE="CITY"/></TAGS></d>'),
        (
            "a.xml",
            f'<d><TEXT>x</TEXT><TAGS><NAME id="{SECRET}" start="0" end="1" text="{SECRET}" TYPE="CITY"/></TAGS></d>',
        ),
        ("a.xml", f'<?xml version="1.0" encoding="{SECRET}"?><d><TEXT>x</TEXT></d>'),
        ("a.xml", f"<d><TEXT>x</TEXT></{SECRET}>"),
        ("a.xml", f"<d><TEXT>&{SECRET};</TEXT></d>"),
        ("a.jsonl", json.dumps({"id": "a", "text": "x", "metadata": {SECRET: 3}})),
        ("a.jsonl", json.dumps({"id": "a", "text": "x", "metadata": {"a": [SECRET]}})),
        ("a.jsonl", json.dumps({"id": "a", "text": "x", "metadata": {f"{SECRET}\0": ""}})),
        ("a.jsonl", json.dumps({"id": f"{SECRET}\n", "text": "x"})),
        ("a.jsonl", json.dumps({"id": SECRET * 30, "text": "x"})),
        ("a.jsonl", json.dumps({"id": "a", SECRET: "x"})),
        ("a.jsonl", json.dumps({"id": "a", "text": "x", "spans": [{"start": 0, "end": SECRET, "label": "A"}]})),
        ("a.jsonl", json.dumps({"id": "a", "text": "x", "spans": [{"start": 0, "end": 9, "label": SECRET}]})),
        ("a.jsonl", f'{{"id": "a", "text": "\\{SECRET}"}}'),
        ("a.ann", f"T{SECRET}\tNAME 0 5\t{SECRET}"),
        ("a.ann", f"T1\t{SECRET} 0 5\tx"),
        ("a.ann", f"T1\tNAME {SECRET}"),
        ("a.ann", f"T1\tNAME 0 1\t{SECRET}"),
    ],
)
def test_no_message_quotes_what_is_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / name).write_text(content, encoding="utf-8")
    if name == "a.ann":
        (notes / "a.txt").write_text("x", encoding="utf-8")
    with pytest.raises(CorpusError) as caught:
        read_corpus(notes)
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert name in str(caught.value)
    assert main(["evaluate", str(notes), str(notes)]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err


def test_no_repr_shows_a_note(tmp_path: Path) -> None:
    text = f"<d title='{SECRET}' site='a'><TEXT>{SECRET}</TEXT><TAGS/></d>"
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")
    corpus = read_corpus(tmp_path, format="i2b2")
    assert corpus.documents[0].metadata["title"] == SECRET
    assert SECRET not in repr(corpus) + repr(list(iterate_notes(locate_corpus(tmp_path))))


def test_ids_that_cannot_be_file_names_are_told_with_file_and_line(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "notes.jsonl"
    bad = ["\u202egnp.a", "a\u2028b", "a/b", "..", ".a", "a\\b", "a\0b", "a\x1b[2J", "", "é" * 130]
    lines = [json.dumps({"id": identity, "text": "x"}) for identity in ("good", *bad)]
    source.write_text("\n".join(lines), encoding="utf-8")
    command = ["predict", str(tiny_model), str(source), "--format", "brat", "--out", str(tmp_path / "out")]
    assert main([*command, "--submodel", "regex"]) == 3
    said = capsys.readouterr().err
    for number in range(2, 2 + len(bad)):
        assert f"withheld: {source}:{number}: " in said
    assert said.count("\n") == len(bad)
    assert said.replace("\n", "").isprintable()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"good.ann", "good.txt"}
