"""What `deidentify` reads in a folder or from a stream: nothing is left out in silence, or called by a wrong name."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY
from project_notes import model_of

from ensemble_deid import CorpusError, deidentify_files, deidentify_table
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.deidentify.project.night import Project
from ensemble_deid.deidentify.project.store import Store
from ensemble_deid.deidentify.run import Run

NOTE = "Seen on 03/04/2019."
NESTED = InputOptions(recursive=True)


def write(path: Path, text: str = NOTE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def deidentify(source: Path, out: Path, **choices: Any) -> Any:
    return deidentify_files(source, out, model_of([]), accept_unfit=True, **choices)


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def places(run: Path) -> list[str]:
    return [json.loads(line)["place"] for line in (run / "failed.jsonl").read_text("utf-8").splitlines()]


def test_what_lies_in_a_folder_without_notes_is_told(tmp_path: Path) -> None:
    write(tmp_path / "in" / "ward1" / "a.txt")
    write(tmp_path / "in" / "docs" / "letter.docx")
    write(tmp_path / "elsewhere" / "b.txt")
    (tmp_path / "in" / "ward2").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path / "out")
    os.mkfifo(tmp_path / "in" / "docs" / "pipe")
    for _ in range(2):
        summary = deidentify(tmp_path / "in", tmp_path / "out", input=NESTED)
        assert contents(tmp_path / "out") == ["ward1/a.txt"]
        assert [text.removeprefix(f"{tmp_path / 'in'}/") for text in summary.withheld] == [
            "ward2: is a folder, whose notes were not read",
            "gone: is a link to nothing",
            "docs/pipe: is a pipe, socket or device, which no note is read from",
        ]
        assert places(tmp_path / "out.run") == ["ward2", "gone", "docs/pipe"]
        assert summary.warnings == (f"{tmp_path / 'in' / 'docs'}: files of other kinds were not read (1): letter.docx",)


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("kind", ["a linked folder", "a link to nothing", "a pipe"])
def test_tables_that_cannot_be_read_are_refused(tmp_path: Path, kind: str, recursive: bool) -> None:
    folder, other = write(tmp_path / "in" / "a.csv", f"text\n{NOTE}\n").parent, write(tmp_path / "x" / "b.csv").parent
    if kind == "a pipe":
        os.mkfifo(folder / "x.csv")
    else:
        (folder / "x.csv").symlink_to(other if kind == "a linked folder" else tmp_path / "nowhere")
    with pytest.raises(CorpusError, match=rf"in/x\.csv: is {kind}"):
        deidentify_table(folder, tmp_path / "out", model_of([]), input=InputOptions(recursive=recursive))
    (folder / "x.csv").rename(folder / ".x.csv")
    (folder / "sub").mkdir()
    made = deidentify_table(folder, folder / "out", model_of([]), input=NESTED, accept_unfit=True)
    assert made.written == 1
    (folder / "more").symlink_to(folder / "out")
    assert deidentify_table(folder, folder / "out", model_of([]), input=NESTED, accept_unfit=True).written == 1


def test_a_run_within_its_input_is_resumed_and_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in"
    for name in ("a", "b", "w/c", "w/d"):
        write(folder / f"{name}.txt")
    with monkeypatch.context() as broken:
        broken.setattr(Run, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            deidentify(folder, folder / "clean", input=NESTED, key=KEY)
    assert deidentify(folder, folder / "clean", input=NESTED, key=KEY, resume=True).written == 4
    assert deidentify(folder, folder / "clean", input=NESTED, key=KEY, resume=True).finished_before
    assert deidentify(folder, folder / "clean", input=NESTED, key=KEY).written == 4


@pytest.mark.parametrize("name", [".meta.json", ".vscode/settings.json"])
@pytest.mark.parametrize("recursive", [False, True])
def test_what_is_hidden_is_no_other_kind(tmp_path: Path, name: str, recursive: bool) -> None:
    write(tmp_path / "in" / "a.txt")
    write(tmp_path / "in" / name, "{}")
    summary = deidentify(tmp_path / "in", tmp_path / "out", input=InputOptions(recursive=recursive))
    assert (summary.written, summary.withheld) == (1, ())


def test_a_named_format_passes_by_folders_of_another(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.txt")
    write(tmp_path / "in" / "labs" / "l.json", "{}")
    with pytest.raises(CorpusError, match="name the one that is meant with --input-format"):
        deidentify(tmp_path / "in", tmp_path / "out", input=NESTED)
    summary = deidentify(tmp_path / "in", tmp_path / "out", input=InputOptions(format="plain", recursive=True))
    assert contents(tmp_path / "out") == ["a.txt"]
    assert summary.warnings == (f"{tmp_path / 'in' / 'labs'}: files of other kinds were not read (1): l.json",)


@pytest.mark.parametrize("names", [(), ("docs/a.docx",)])
def test_a_tree_without_notes_is_empty(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "in").mkdir()
    for name in names:
        write(tmp_path / "in" / name)
    with pytest.raises(CorpusError, match="in: the corpus is empty"):
        deidentify(tmp_path / "in", tmp_path / "out", input=NESTED)


def test_notes_whose_names_cannot_be_written_are_told_by_them(tmp_path: Path) -> None:
    names = ["n" * 241, "a\\b"]
    for name in ("good", *names):
        write(tmp_path / "in" / f"{name}.txt")
    within = Project(store=Store.create(tmp_path / "project", KEY))
    summary = deidentify(tmp_path / "in", tmp_path / "out", within=within, key=KEY)
    assert (summary.written, len(summary.withheld)) == (1, 2)
    assert sorted(places(tmp_path / "out.run")) == sorted(names)


def test_a_blank_line_of_one_column_stays_blank(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", f'text\n{NOTE}\n\n""\n{NOTE}\n')
    assert deidentify_table(source, tmp_path / "out.csv", model_of([]), accept_unfit=True).written == 2
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == source.read_text(encoding="utf-8")


def test_the_private_folder_of_a_stream_is_in_no_message(tmp_path: Path) -> None:
    reason = "standard-input.txt: byte 7 is not UTF-8 (unexpected end of data); convert the file first"
    for name in ("1", "2"):
        stream, out = io.BytesIO(b"Mr. Jos\xe9"), io.BytesIO()
        summary = deidentify_files(stream, out, model_of([]), run=tmp_path / name, accept_unfit=True)
        assert summary.withheld == (reason,)
    assert (tmp_path / "1" / "failed.jsonl").read_bytes() == (tmp_path / "2" / "failed.jsonl").read_bytes()
    with pytest.raises(CorpusError, match=r"^standard-input\.csv:1: "):
        deidentify_table(io.BytesIO(b"Mr. Jos\xe9"), io.BytesIO(), model_of([]), input=InputOptions(format="csv"))
