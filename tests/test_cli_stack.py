"""The whole way through the command line: train, predict, de-identify, score, ablate, read the rules."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_stack

import ensemble_deid
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.submodels import DEFAULT

ROOT = Path(__file__).parents[1]


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def run(*arguments: object, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "ensemble_deid", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_model_says_what_it_is(tiny_model: Path) -> None:
    manifest = json.loads((tiny_model / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format_version"] == 6
    assert manifest["labels"] == ["CITY", "DATE", "DOCTOR", "PATIENT"]
    counts = {"notes": 8, "patients": 4, "sites": 0, "groups": 4, "spans": 40, "spans_cut": 0, "spans_lost": 0}
    assert manifest["training"] == counts
    assert manifest["config"]["submodels"] == ["regex", "tbed", "crf", "neural"]
    assert set(manifest["figures"]["dev_strict_f1"]) == {"regex", "tbed", "crf", "neural", "ensemble"}
    assert manifest["packages"]["torch"]
    public = {name for name in files(tiny_model) if not name.startswith("private/")}
    assert set(manifest["files"]) == public - {"manifest.json"}


def test_same_seed_same_files_whatever_the_jobs_and_the_hash_seed(
    tiny_model: Path, tiny_train: Path, tiny_dev: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    # The same folder of patterns: its path is part of the configuration.
    arguments = [a for a in tiny_stack.settings(tiny_model.parent) if not a.startswith("--jobs")]
    done = run("train", tiny_train, "--dev", tiny_dev, "--out", again, "--jobs=2", *arguments, hash_seed="1")
    assert done.returncode == 0, done.stderr
    assert files(again) == files(tiny_model)


@pytest.mark.parametrize("format", ["i2b2", "brat", "jsonl"])
def test_predictions_can_be_read_and_scored(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    out, figures = tmp_path / "out", tmp_path / "figures.json"
    assert main(["predict", str(tiny_model), str(tiny_dev), "--out", str(out), "--format", format]) == 0
    assert capsys.readouterr().out == f"4 notes written to {out}, 0 withheld\n"
    gold, found = read_corpus(tiny_dev), read_corpus(out)
    assert found.format == format
    assert [note.text for note in found] == [note.text for note in gold]
    assert main(["evaluate", str(tiny_dev), str(out), "--out", str(figures), "--resamples", "0"]) == 0
    from_folder = figures.read_bytes()
    assert main(["evaluate", str(tiny_dev), str(tiny_model), "--out", str(figures), "--resamples", "0"]) == 0
    assert figures.read_bytes() == from_folder
    assert "100.00" in capsys.readouterr().out


def test_jsonl_predictions_are_one_file(tiny_model: Path, tiny_train: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["predict", str(tiny_model), str(tiny_train), "--out", str(out), "--format", "jsonl"]) == 0
    assert list(files(out)) == ["corpus.jsonl"]
    assert [note.id for note in read_corpus(out)] == [note.id for note in read_corpus(tiny_train)]


def test_labels_of_one_task_are_refused_by_the_format_of_another(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["predict", str(tiny_model), str(tiny_dev), "--out", str(out), "--format", "meddocan"]) == 3
    said = capsys.readouterr()
    assert said.err.count("ensemble-deid: withheld: ") == 4
    assert "no place in the meddocan format" in said.err
    assert said.out == f"0 notes written to {out}, 4 withheld\n"
    assert not list(out.iterdir())


@pytest.mark.parametrize("command", [("predict", "--submodel", "tbed"), ("predict",), ("deidentify",)])
def test_jobs_never_change_the_output(tiny_model: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    notes, one, two = tmp_path / "notes", tmp_path / "one", tmp_path / "two"
    write_corpus(tiny_stack.notes(500, patients=10), notes, "brat")
    (notes / "bad.txt").write_bytes(b"\xff")
    name, *options = command
    for out, jobs in ((one, "1"), (two, "2")):
        assert main([name, str(tiny_model), str(notes), "--out", str(out), "--jobs", jobs, *options]) == 3
    assert files(one) == files(two)
    assert len(files(one)) == (40 if name == "predict" else 20)


@pytest.mark.parametrize("style", ["tag", "mask", "remove"])
def test_deidentified_notes_hold_no_phi(tiny_model: Path, tmp_path: Path, style: str) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out"
    documents = tiny_stack.notes(600, patients=2)
    write_corpus(documents, notes, "plain")
    assert main(["deidentify", str(tiny_model), str(notes), "--out", str(out), "--style", style]) == 0
    assert set(files(out)) == {f"{document.id}.txt" for document in documents}
    for document in documents:
        text = (out / f"{document.id}.txt").read_text(encoding="utf-8")
        assert not [span for span in document.spans if document.text[span.start : span.end] in text]
        assert "for chest pain. BP 120/80.\nBack on " in text
        assert (len(text) == len(document.text)) == (style == "mask")


def test_crlf_and_mixed_newlines_keep_their_places(tiny_model: Path, tmp_path: Path) -> None:
    """Plain text is the bytes as decoded: each CR counts, and every newline comes out as it went in."""
    plain = tiny_stack.note("a", "Patient: Anna Bell\r\n\rDate: ", ("03/04/2019", "DATE"), "\r\nSeen.\nBack \u2028on\r")
    notes, found, clean = tmp_path / "notes", tmp_path / "found", tmp_path / "clean"
    notes.mkdir()
    (notes / "a.txt").write_bytes(plain.text.encode())
    assert main(["predict", str(tiny_model), str(notes), "--out", str(found), "--format", "brat"]) == 0
    assert (found / "a.txt").read_bytes() == plain.text.encode()
    (note,) = read_corpus(found)
    dates = [span.key for span in note.spans if span.label == "DATE"]
    assert dates == [span.key for span in plain.spans]
    assert main(["deidentify", str(tiny_model), str(notes), "--out", str(clean), "--style", "mask"]) == 0
    masked = (clean / "a.txt").read_bytes().decode()
    kept = [(a, b) for a, b in zip(plain.text, masked, strict=True) if a.isspace() or b != "X"]
    assert all(a == b for a, b in kept)
    assert "XX" in masked


def test_ablation_has_every_system(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_json, as_text = tmp_path / "report.json", tmp_path / "report.md"
    assert main(["research", "ablate", str(tiny_model), str(tiny_dev), "--out", str(as_json), "--jobs", "1"]) == 0
    rows = {row["system"]: row for row in json.loads(as_json.read_text(encoding="utf-8"))}
    without = {f"without {names}" for names in (*DEFAULT, "regex and tbed")}
    assert set(rows) >= {"ensemble", *without, *(f"{name} alone" for name in DEFAULT)}
    assert {row["threshold_rule"] for row in rows.values()} == {"cross-validation"}
    assert {row["members"] for row in rows.values()} == {"as trained"}
    assert rows["regex alone"]["f1_difference_to_ensemble"] < 0
    assert rows["ensemble"]["tp"] + rows["ensemble"]["fn"] == 20
    printed = capsys.readouterr().out
    assert "Every threshold was chosen by cross-validation on the training notes." in printed
    assert main(["research", "ablate", str(tiny_model), str(tiny_dev), "--out", str(as_text), "--jobs", "1"]) == 0
    assert capsys.readouterr().out == printed
    cells = [[part.strip() for part in row.split("|")[1:4]] for row in as_text.read_text(encoding="utf-8").splitlines()]
    assert {row[0] for row in cells if len(row) == 3} >= set(rows)


def test_rules_are_shown_as_they_are_kept(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "show", str(tiny_model)]) == 0
    assert capsys.readouterr().out == (tiny_model / "tbed.rules").read_text(encoding="utf-8")


def test_the_module_is_the_command() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"ensemble-deid {ensemble_deid.__version__}\n")
