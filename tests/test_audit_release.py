"""What a run released, as an audit reads it again: with withheld notes, in folders, of unknown patients."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import Columns, CorpusError, InputOptions, deidentify_files, deidentify_table
from ensemble_deid.audit.release import read_release
from ensemble_deid.audit.residual import Residual, residual_risk
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.manifest import verify_run
from ensemble_deid.note.document import Document

NOTES = tiny_stack.notes(600, patients=4)
WITHOUT_PHI = "Cough and fever are better. " * 20
YEARS = {"DATE": "year"}


def residual(run: Path) -> Residual:
    found = residual_risk(run, verify_run(run))
    assert found is not None
    return found


def write_folder(folder: Path, notes: Mapping[str, str | bytes]) -> Path:
    for name, content in notes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def line(note: Document) -> str:
    return json.dumps({"id": note.id, "patient_id": note.patient_id, "text": note.text}) + "\n"


@pytest.mark.parametrize("broken", ['{"id": "2", "text": "cut off\n', '{"id": "2", "text": "a\\u0000b"}\n'])
@pytest.mark.parametrize("several", [False, True])
def test_lines_below_a_withheld_one_keep_what_they_show(
    tiny_model: Path, tmp_path: Path, broken: str, several: bool
) -> None:
    """The years of lines 1 and 3 are one group; line 4, the third of the output, has none."""
    content = line(NOTES[0]) + broken + line(NOTES[2]) + line(Document("x", WITHOUT_PHI, patient_id="9"))
    source = write_folder(tmp_path / "in", {"a.jsonl": content, "b.jsonl": line(NOTES[4])} if several else {})
    if not several:
        source = tmp_path / "a.jsonl"
        source.write_text(content, encoding="utf-8")
    out = tmp_path / ("out" if several else "out.jsonl")
    made = deidentify_table(source, out, tiny_model, styles=YEARS, accept_unfit=True)
    assert len(made.withheld) == 1
    assert len(read_release(made.folder, str(source)).documents) == made.written
    found = residual(made.folder)
    assert (found.patients, found.notes) == (3 + several, 3 + several)
    assert [(r.kind, r.patients, r.groups) for r in found.rows[:-1]] == [("dates", 2 + several, 1)]


def test_notes_of_unknown_patients_with_one_text_are_of_as_many_patients(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("ward", "text"), *(("A", NOTES[0].text) for _ in range(6))]
    source = write_rows(tmp_path / "in.csv", rows)
    made = deidentify_table(
        source, tmp_path / "out.csv", tiny_model, columns=Columns(keep=("ward",)), accept_unfit=True
    )
    found = residual(made.folder)
    assert (found.patients, found.notes) == (6, 6)
    assert found.smallest == ((6, tuple(f"row {n}" for n in range(1, 7))),)
    plan = ["audit", "plan", str(made.folder), str(source), str(tiny_model), "--size", "9"]
    for number, more in enumerate(([], ["--strata", "ward"])):
        assert main([*plan, *more, "--out", str(tmp_path / f"audit {number}")]) == 0
        assert "drawn: 6 patients of 6, 6 notes" in capsys.readouterr().out


@pytest.mark.parametrize("recursive", [True, False])
def test_folders_and_files_that_were_withheld_are_audited(
    tiny_model: Path, tmp_path: Path, recursive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(
        tmp_path / "notes",
        {"a.txt": NOTES[0].text, "bad.txt": b"caf\xe9", "sub/a.txt": NOTES[2].text, "sub/b.txt": "a\0b"},
    )
    made = deidentify_files(
        source, tmp_path / "out", tiny_model, input=InputOptions(recursive=recursive), styles=YEARS, accept_unfit=True
    )
    assert (made.written, len(made.withheld)) == ((2, 2) if recursive else (1, 2))
    plan = ["audit", "plan", str(made.folder), str(source), str(tiny_model), "--out", str(tmp_path / "audit")]
    assert main([*plan, "--strata", "length"]) == 0
    assert f"of {made.written}, {'2 notes' if recursive else '1 note'}" in capsys.readouterr().out
    assert {note.id for note in read_release(made.folder, str(source)).documents} == {"a", "sub/a"} - (
        set() if recursive else {"sub/a"}
    )
    assert (residual(made.folder).notes, residual(made.folder).rows[0].patients) == (made.written, made.written)
    # A folder that was made since is no note of the run.
    write_folder(source, {"later/c.csv": ""})
    assert len(read_release(made.folder, str(source)).documents) == made.written
    (source / "bad.txt").unlink()
    with pytest.raises(CorpusError, match="are not the notes of"):
        read_release(made.folder, str(source))


@pytest.mark.parametrize("names", [("a.csv", "sub/a.csv"), ("sub/a.csv", "sub/b.csv"), ("sub/a.csv",)])
def test_tables_in_subfolders_are_audited(tiny_model: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    for name, note in zip(names, NOTES, strict=False):
        write_rows(tmp_path / "in" / name, [("text",), (note.text,)])
    given = InputOptions(recursive=True)
    made = deidentify_table(tmp_path / "in", tmp_path / "out", tiny_model, input=given, styles=YEARS, accept_unfit=True)
    assert len(read_release(made.folder, str(tmp_path / "in")).documents) == len(names)
    assert len(read_release(made.folder, str(tmp_path / "out"), side="released").documents) == len(names)
    assert (residual(made.folder).notes, residual(made.folder).rows[0].patients) == (len(names), len(names))


@pytest.mark.parametrize("more", [[], ["--strata", "length"]])
def test_a_run_that_released_nothing_has_no_audit(
    tiny_model: Path, tmp_path: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(tmp_path / "notes", {"bad.txt": b"caf\xe9"})
    made = deidentify_files(source, tmp_path / "out", tiny_model, accept_unfit=True)
    plan = ["audit", "plan", str(made.folder), str(source), str(tiny_model), "--out", str(tmp_path / "audit")]
    assert main([*plan, *more]) == 2
    assert "released no notes" in capsys.readouterr().err


@pytest.mark.parametrize("withheld", [False, True])
def test_only_the_originals_of_the_run_are_audited(tiny_model: Path, tmp_path: Path, withheld: bool) -> None:
    texts = [note.text + f"Visit {number}.\n" for number, note in enumerate(NOTES)]
    bad = ["a\0b"] if withheld else []

    def written(name: str, texts: Iterable[str]) -> str:
        return str(write_rows(tmp_path / name, [("ward", "text"), *(("A", text) for text in (*bad, *texts))]))

    source = written("in.csv", texts)
    given = InputOptions(columns=Columns(keep=("ward",)))
    made = deidentify_table(source, tmp_path / "out.csv", tiny_model, input=given, style="mask", accept_unfit=True)
    assert len(made.withheld) == len(bad)
    assert len(read_release(made.folder, source).documents) == len(texts)
    others = {"one text": ["q" * len(text) for text in texts], "swapped": [texts[1], texts[0], *texts[2:]]}
    for name, changed in others.items():
        with pytest.raises(CorpusError, match="is not as the run read it"):
            read_release(made.folder, written(f"{name}.csv", changed))
    with pytest.raises(CorpusError, match="are not the notes of" if withheld else "and not what it wrote"):
        read_release(made.folder, str(tmp_path / "out.csv"))
