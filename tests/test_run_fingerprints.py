"""What a run's files say of the input is told to nobody without the key."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_keys import KEY, made_key

from ensemble_deid.cli.main import main
from ensemble_deid.deidentify import run as batch
from ensemble_deid.deidentify.manifest import TextsDigest, verify_run

NOTE = "Seen by Dr. Kemp on 03/04/2019."


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text(NOTE, encoding="utf-8")
    (tmp_path / "notes.csv").write_text(f"text\n{NOTE}\n", encoding="utf-8")
    (tmp_path / "deny.csv").write_text("label,value\nDOCTOR,Kemp\n", encoding="utf-8")
    return tmp_path


def run(model: Path, source: Path, out: Path, *more: object) -> int:
    arguments = ("deidentify", model, source, "--out", out, "--deny", out.parent / "deny.csv", "--quiet", *more)
    return main([str(argument) for argument in arguments])


def guesses(folder: Path) -> Iterator[str]:
    """Yield every digest that somebody who guesses the note, and where it was, can compute without a key."""
    texts = TextsDigest()
    texts.add(NOTE)
    yield texts.take()
    yield hashlib.sha256(NOTE.encode()).hexdigest()
    for file in (folder / "notes" / "a.txt", folder / "notes.csv", folder / "deny.csv"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        yield digest
        yield hashlib.sha256(f"{digest}  {file}\n".encode()).hexdigest()


def interrupted(model: Path, source: Path, out: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch.Run, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(model, source, out) == 130


def written(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())


@pytest.mark.parametrize("source", ["notes", "notes.csv"])
@pytest.mark.parametrize("keyed", [True, False])
def test_no_guess_of_a_short_note_can_be_tested(
    tiny_model: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, source: str, keyed: bool
) -> None:
    if keyed:
        monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    out, folder = notes / f"out{Path(source).suffix}", notes / f"out{Path(source).suffix}.run"
    interrupted(tiny_model, notes / source, out)
    unfinished = written(folder)
    assert run(tiny_model, notes / source, out) == 0
    for guess in guesses(notes):
        # Also a short one: few digits are enough to tell a thousand guesses apart.
        assert guess[:8] not in unfinished + written(folder)


def test_fingerprints_are_the_keys(tiny_model: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for name, key in (("one", KEY), ("two", KEY), ("three", made_key("other"))):
        monkeypatch.setenv("ENSEMBLE_DEID_KEY", key.text)
        assert run(tiny_model, notes / "notes", notes / name) == 0
        verify_run(notes / f"{name}.run")
        manifest = (notes / f"{name}.run" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
        lines.append({entry["entry"]: entry for entry in map(json.loads, manifest)})
    first, again, other = ((entries["run"]["settings"], entries["notes"]) for entries in lines)
    for name in ("key", "inputs"):
        assert first[0][name] == again[0][name] != other[0][name]
    assert first[0]["lists"]["deny"] == again[0]["lists"]["deny"] != other[0]["lists"]["deny"]
    assert first[1]["input"] == again[1]["input"] != other[1]["input"]
    # What comes out is no secret: everybody who has it can compare it.
    assert first[1]["output"] == other[1]["output"]


def test_a_run_without_a_key_keeps_its_own_until_it_ends(
    tiny_model: Path, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, folder = notes / "out.csv", notes / "out.csv.run"
    interrupted(tiny_model, notes / "notes.csv", out)
    kept = folder / "offsets.key"
    if os.name == "posix":
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    (notes / "notes.csv").write_text(f"text\n{NOTE.replace('Kemp', 'Gale')}\n", encoding="utf-8")
    assert run(tiny_model, notes / "notes.csv", out, "--resume") == 2
    assert "begun with other settings: input" in capsys.readouterr().err
    (notes / "notes.csv").write_text(f"text\n{NOTE}\n", encoding="utf-8")
    assert run(tiny_model, notes / "notes.csv", out, "--resume") == 0
    assert sorted(path.name for path in folder.iterdir()) == ["failed.jsonl", "manifest.jsonl", "spans.jsonl"]
    assert run(tiny_model, notes / "notes.csv", out, "--resume") == 2
    assert "can only be told with its key" in capsys.readouterr().err


def test_a_run_is_not_resumed_with_another_key(
    tiny_model: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    interrupted(tiny_model, notes / "notes", notes / "out")
    assert not (notes / "out.run" / "offsets.key").exists()
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", made_key("other").text)
    assert run(tiny_model, notes / "notes", notes / "out", "--resume") == 2
    assert "begun with other settings" in capsys.readouterr().err
