"""Models as packages: made, built, installed, found by name; and the card that stands in every model."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.model import installed
from ensemble_deid.model.directory import CARD, model_card
from ensemble_deid.model.installed import find_model, installed_models
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, fingerprint, read_manifest
from ensemble_deid.model.package import write_package


@pytest.fixture(scope="module")
def site_packages(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the package `tiny`, build its wheel by the command, and install the wheel into a folder."""
    work = tmp_path_factory.mktemp("package")
    licence = work / "MINE"
    licence.write_text("Mine.\n")
    (work / "NOTICE").write_text("By me.\n")
    arguments = ["model", "package", str(tiny_model), "--name", "tiny", "--version", "1.2.0", "--licence", str(licence)]
    assert main([*arguments, "--out", str(work / "project"), "--wheel", str(work / "dist")]) == 0
    (wheel,) = (work / "dist").glob("*.whl")
    assert wheel.name == "ensemble_deid_tiny-1.2.0-py3-none-any.whl"
    target = work / "site"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "install", *quiet, "--target", target, wheel], check=True)
    return target


def test_an_installed_model_is_used_by_its_name(site_packages: Path, tiny_dev: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{site_packages}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}

    def run(*arguments: str | Path) -> str:
        command = [sys.executable, "-m", "ensemble_deid", *map(str, arguments)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    assert ["tiny", "ensemble_deid_tiny", "1.2.0"] in [line.split()[:3] for line in run("model", "list").splitlines()]
    run("deidentify", "tiny", tiny_dev, "--out", tmp_path / "clean.jsonl")
    assert len((tmp_path / "clean.jsonl").read_text().splitlines()) == len(read_corpus(tiny_dev))
    assert "strict" in run("evaluate", tiny_dev, "tiny", "--resamples", "0")


def test_the_package_has_the_model_and_no_private_file(site_packages: Path, tiny_model: Path) -> None:
    module = site_packages / "ensemble_deid_tiny"
    assert not (module / "model" / "private").exists()
    _, manifest = load_model(module / "model")
    assert manifest.fingerprint == read_manifest(tiny_model).fingerprint
    metadata = (site_packages / "ensemble_deid_tiny-1.2.0.dist-info" / "METADATA").read_text()
    assert "Requires-Dist: ensemble_deid>=" in metadata
    assert "# Model card" in metadata
    for name, text in (("LICENSE", "Mine.\n"), ("NOTICE", "By me.\n")):
        (path,) = (site_packages / "ensemble_deid_tiny-1.2.0.dist-info").rglob(name)
        assert path.read_text() == text


def test_models_are_found_by_folder_first_then_by_name(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "ensemble_deid_mine"
    (module / "model").mkdir(parents=True)
    (module / "__init__.py").write_text("raise SystemExit('code of the package was run')")

    class Distribution:
        name, version = "ensemble-deid-mine", "2.0"

    point = EntryPoint("mine", "ensemble_deid_mine", installed.GROUP)
    vars(point).update(dist=Distribution())
    missing = EntryPoint("gone", "ensemble_deid_gone", installed.GROUP)
    vars(missing).update(dist=Distribution())
    monkeypatch.setattr(installed, "entry_points", lambda group: EntryPoints([point, missing]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert {name: model.version for name, model in installed_models().items()} == {"mine": "2.0"}
    assert find_model("mine") == module / "model"
    assert find_model(tiny_model) == tiny_model
    with pytest.raises(ModelError, match=r"other: there is no such folder, .* \(installed models are mine\)"):
        find_model("other")
    with pytest.raises(ModelError, match="no model of this name is installed"):
        Deidentifier.load("other")
    (tmp_path / "mine").mkdir()
    assert find_model("mine") == Path("mine")


def test_a_wrong_name_in_the_command_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["deidentify", "nosuchmodel", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("name", "version"), [("My", "1.0"), ("a-b", "1.0"), ("", "1.0"), ("en", "one"), ("en", "1")])
def test_names_and_versions_that_packages_cannot_have(
    tiny_model: Path, tmp_path: Path, name: str, version: str
) -> None:
    with pytest.raises(ConfigError, match=r"--(name|version)"):
        write_package(tiny_model, tmp_path / "project", name=name, version=version)
    assert not (tmp_path / "project").exists()


def test_other_files_are_not_overwritten(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ModelError, match="nothing was overwritten"):
        write_package(tiny_model, tmp_path, name="en", version="1.0")
    project = write_package(tiny_model, tmp_path / "project", name="en", version="1.0")
    assert write_package(tiny_model, project, name="en", version="1.1") == project
    assert 'version = "1.1"' in (project / "pyproject.toml").read_text()
    for place in (project, project / "ensemble_deid_en", project / "ensemble_deid_en" / "model"):
        (place / "thesis.txt").write_text("x")
        with pytest.raises(ModelError, match="would be lost"):
            write_package(tiny_model, project, name="en", version="1.2")
        (place / "thesis.txt").unlink()


def test_figures_are_on_the_card(tiny_model: Path, tiny_dev: Path, tmp_path: Path) -> None:
    arguments = [
        "model",
        "package",
        str(tiny_model),
        "--name",
        "en",
        "--version",
        "1.0",
        "--out",
        str(tmp_path / "project"),
    ]
    assert main([*arguments, "--score", str(tiny_dev)]) == 0
    (record,) = json.loads((tmp_path / "project" / "ensemble_deid_en" / "figures.json").read_text())
    documents = read_corpus(tiny_dev).documents
    assert record["fingerprint"] == fingerprint(documents)
    own, *bounded = record["rows"]
    model = Deidentifier.load(tiny_model)
    assert own["threshold"] == model.ensemble.stacker.threshold
    assert own["strict_f1"] == evaluate(documents, model.predict(documents)).score("strict").f1.value
    for row in bounded:
        assert row["false_positives_per_1000"] <= float(row["point"].split()[2])
        assert row["token_recall"] >= bounded[0]["token_recall"]
    card = (tmp_path / "project" / "README.md").read_text()
    assert f"## Figures on {tiny_dev}" in card
    assert f"| the model's own | {own['threshold']:.4g} | " in card


def test_thresholds_found_on_the_scored_notes_are_called_an_oracle(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path
) -> None:
    def packaged(name: str, model: Path) -> tuple[list[dict[str, Any]], str]:
        project = tmp_path / name
        arguments = ["model", "package", str(model), "--name", name, "--version", "1.0", "--out", str(project)]
        assert main([*arguments, "--score", str(tiny_dev)]) == 0
        (record,) = json.loads((project / f"ensemble_deid_{name}" / "figures.json").read_text())
        return record["rows"], (project / "README.md").read_text()

    rows, card = packaged("en", tiny_model)
    assert [row["oracle"] for row in rows] == [False] + [True] * (len(rows) - 1)
    for row in rows[1:]:
        assert f"| {row['point']}, threshold found on these notes (oracle) | {row['threshold']:.4g} |" in card
    assert "they say what could be reached, not what a threshold that was chosen on other notes gives" in card
    chosen = Path(shutil.copytree(tiny_model, tmp_path / "chosen"))
    assert main(["model", "threshold", str(chosen), str(tiny_dev), "--few", "--max-false-positives", "1000"]) == 0
    rows, card = packaged("own", chosen)
    assert rows[0]["oracle"]
    assert f"| the model's own, threshold found on these notes (oracle) | {rows[0]['threshold']:.4g} |" in card


def test_every_model_has_a_card(tiny_model: Path) -> None:
    card = (tiny_model / CARD).read_text(encoding="utf-8")
    manifest = read_manifest(tiny_model)
    assert f"{manifest.training['notes']:,} notes" in card
    assert manifest.fingerprint in card
    assert "| recall |" in card
    assert CARD in manifest.files


def test_a_card_of_a_model_without_figures() -> None:
    card = model_card(Manifest(("DATE",), {"submodels": ["regex"]}, "abc", "", {"notes": 3}))
    assert "None were measured" in card
    assert "- submodels: regex" in card
