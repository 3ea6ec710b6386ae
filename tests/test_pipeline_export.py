"""An exported model predicts the same and lacks what only training and ablations need."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def export(model: Path, *more: str) -> Path:
    out = model.parent / "exported"
    assert main(["model", "export", str(model), "--out", str(out), *more]) == 0
    return out


def test_an_exported_model_is_the_model_without_its_private_files(tiny_model: Path, model: Path) -> None:
    before = contents(model)
    out = export(model)
    exported = contents(out)
    expected = {name: data for name, data in before.items() if not name.startswith("private/")}
    assert set(exported) == set(expected)
    assert {name for name in expected if exported[name] != expected[name]} == {"manifest.json"}
    assert read_manifest(out) == replace(read_manifest(model), seen_notes={})
    assert read_manifest(model).seen_notes["patients"]
    # The export of an export is the same once more.
    assert main(["model", "export", str(out), "--out", str(model.parent / "again")]) == 0
    assert contents(model.parent / "again") == exported
    assert any(name.startswith("private/stacking_dataset") for name in before)
    assert contents(model) == before


def test_an_exported_model_has_no_digests_of_the_notes_its_threshold_was_chosen_on(model: Path, tiny_dev: Path) -> None:
    assert main(["model", "threshold", str(model), str(tiny_dev), "--few", "--sensitivity", "0.5"]) == 0
    chosen = read_manifest(model).figures["threshold"]["notes"]
    exported = read_manifest(export(model)).figures["threshold"]["notes"]
    assert chosen["digests"]
    assert exported == {"count": chosen["count"], "salt": "", "digests": ""}


def test_it_predicts_the_same_bytes(model: Path, tiny_dev: Path, tmp_path: Path) -> None:
    for folder in (model, export(model)):
        assert main(["predict", str(folder), str(tiny_dev), "--out", str(tmp_path / f"{folder.name}.found")]) == 0
    assert contents(tmp_path / "exported.found") == contents(tmp_path / "model.found") != {}


def test_an_ablation_of_it_is_refused_in_one_line(
    model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model)
    capsys.readouterr()
    assert main(["research", "ablate", str(out), str(tiny_dev), "--out", str(tmp_path / "report.md")]) == 2
    said = capsys.readouterr().err
    assert "an ablation (but for --rows as-trained) needs private/stacking_dataset.safetensors" in said
    assert "which exported and shareable models lack" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "report.md").exists()


def test_replaced_rule_lists_are_private(model: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = model.parent / "reviewed.rules"
    rules.write_bytes((tiny_model / "tbed.rules").read_bytes() + b"# read by a person\n")
    assert main(["rules", "replace", str(model), str(rules)]) == 0
    assert (model / "private" / "tbed.1.rules").read_bytes() == (tiny_model / "tbed.rules").read_bytes()
    out = export(model)
    assert not [name for name in contents(out) if "tbed.1" in name]
    capsys.readouterr()
    assert main(["rules", "restore", str(out)]) == 2
    assert "was not kept" in capsys.readouterr().err
    # An exported model takes reviewed rules, too, and keeps a history of its own from there.
    assert main(["rules", "replace", str(out), str(tiny_model / "tbed.rules")]) == 0
    assert sorted(path.name for path in (out / "private").iterdir()) == ["manifest.json", "tbed.2.json", "tbed.2.rules"]
    assert main(["rules", "restore", str(out)]) == 0


@pytest.mark.parametrize("damage", ["truncated", "missing", "foreign", "broken manifest", "escape"])
def test_damaged_private_files_are_noticed_where_they_are_read(
    model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path, manifest = model / "private" / "stacking_dataset.json", model / "private" / "manifest.json"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "missing":
        path.unlink()
    elif damage == "foreign":
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(text.replace('"belongs_to": "', '"belongs_to": "0'), encoding="utf-8")
    elif damage == "broken manifest":
        manifest.write_bytes(b"[]")
    else:
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(text.replace("stacking_dataset.json", "../lexicon.json"), encoding="utf-8")
    load_model(model)
    assert main(["research", "ablate", str(model), str(tiny_dev), "--out", str(tmp_path / "report.md")]) == 2
    said = capsys.readouterr().err
    assert str(model / "private") in said
    assert said.count("\n") == 1


def test_an_update_keeps_the_private_files(model: Path) -> None:
    before = contents(model)
    update_model(model, lambda scratch, manifest: manifest)
    assert contents(model) == before


@pytest.mark.parametrize("place", ["", "inside", "private/inside"])
def test_a_model_is_not_exported_into_itself(model: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(model)
    assert main(["model", "export", str(model), "--out", str(model / place)]) == 2
    assert "is the model itself or lies in its folder" in capsys.readouterr().err
    assert contents(model) == before


def test_nothing_foreign_is_overwritten(model: Path, tmp_path: Path) -> None:
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "chapter.txt").write_text("years of work", encoding="utf-8")
    assert main(["model", "export", str(model), "--out", str(place)]) == 2
    assert contents(place) == {"chapter.txt": b"years of work"}
