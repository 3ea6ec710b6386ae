"""Figures that a model holds, once it was changed: they are those of the model as it was measured."""

import shutil
from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.cli.report_facts import measured_recall
from ensemble_deid.model.additions import changes_since_training, listed
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.measured import threshold_text
from ensemble_deid.model.package import export_model

Said = pytest.CaptureFixture[str]
HEADER = 'ensemble-deid rule list, version 1\ncorpus: "by hand"\ntemplates: "none"\ninitial tagger: "regex"\n\n'
PATTERN = r"""
name = "more"

[[pattern]]
name = "pain"
label = "CITY"
regex = 'chest pain'
confidence = 0.9
positive = ["seen for «chest pain» again"]
negative = ["seen for pain"]
"""


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


GROUPS = {"rules": ["rules"], "patterns": ["model", "patterns"], "inclusion": ["model", "inclusion"]}


def change(model: Path, what: str, tmp_path: Path) -> None:
    """Change a model as a user does."""
    contents = {"rules": HEADER, "patterns": PATTERN, "inclusion": "sentences = ['BP 120/80.']\n"}
    file = tmp_path / f"new.{'rules' if what == 'rules' else 'toml'}"
    file.write_text(contents[what], encoding="utf-8")
    verb = {"rules": "replace", "patterns": "add", "inclusion": "put"}[what]
    assert main([*GROUPS[what], verb, str(model), str(file)]) == 0


def undo(model: Path, what: str) -> None:
    """Take the change out again."""
    verb = {"rules": ["restore", str(model)], "patterns": ["remove", str(model), "pain"]}
    assert main([*GROUPS[what], *verb.get(what, ["remove", str(model)])]) == 0


def told(model: Path, threshold: float | None = None, submodels: tuple[str, ...] = ()) -> str:
    manifest = read_manifest(model)
    at = load_model(model)[0].stacker.threshold if threshold is None else threshold
    return measured_recall(manifest, at, submodels=submodels or tuple(manifest.config["submodels"]))


CHANGES = pytest.mark.parametrize(
    ("what", "name"), [("rules", "rules"), ("patterns", "added patterns"), ("inclusion", "inclusion list")]
)


@CHANGES
def test_the_curve_of_training_is_not_that_of_a_changed_model(
    model: Path, tmp_path: Path, capsys: Said, what: str, name: str
) -> None:
    before = told(model), told(model, 0.123)
    assert all("in your notes it may miss more" in said for said in before)
    change(model, what, tmp_path)
    # What training measured at its own operating points, and at any other threshold.
    for said in (told(model), told(model, 0.123)):
        assert f"; this was measured before the model's {name} changed: measure it again" in said
        assert "may miss more" not in said
    frozen = load_model(model)[0].stacker.threshold
    capsys.readouterr()
    assert main(["model", "threshold", str(model), "--sensitivity", "0.5"]) == 2
    assert f"measured before the model's {name} changed" in capsys.readouterr().err
    assert load_model(model)[0].stacker.threshold == frozen
    assert threshold_text(model, read_manifest(model)).endswith(f"; the model's {name} changed since")
    # A model that is handed out without its history has still been changed.
    export_model(model, tmp_path / "exported")
    assert told(tmp_path / "exported") == told(model)
    undo(model, what)
    assert (told(model), told(model, 0.123)) == before
    assert main(["model", "threshold", str(model), "--sensitivity", "0.5"]) == 0


@CHANGES
def test_a_threshold_holds_for_the_model_that_it_was_chosen_with(
    model: Path, tiny_dev: Path, tmp_path: Path, what: str, name: str
) -> None:
    choose = ["model", "threshold", str(model), str(tiny_dev), "--few", "--max-false-positives", "1000"]
    assert main(choose) == 0
    before = told(model)
    assert "that this threshold was chosen on" in before
    assert "in your notes it may miss more" in before
    change(model, what, tmp_path)
    assert f"measured before the model's {name} changed" in told(model)
    assert main(choose) == 0
    assert "in your notes it may miss more" in told(model)
    assert "changed since" not in threshold_text(model, read_manifest(model))
    undo(model, what)
    assert f"measured before the model's {name} changed" in told(model)


def test_what_a_submodel_does_not_read_does_not_matter_to_it(model: Path, tmp_path: Path) -> None:
    change(model, "rules", tmp_path)
    change(model, "patterns", tmp_path)
    manifest = read_manifest(model)
    # Added patterns matter to all: enforced ones hold whatever submodels are in use.
    assert changes_since_training(manifest, ("crf", "neural")) == ("added patterns",)
    assert changes_since_training(manifest, ("tbed", "crf")) == ("rules", "added patterns")
    assert changes_since_training(manifest, ("regex", "tbed")) == ("rules", "added patterns")
    change(model, "inclusion", tmp_path)
    assert changes_since_training(read_manifest(model), ("crf",)) == ("added patterns", "inclusion list")
    assert listed(["rules", "added patterns", "inclusion list"]) == "rules, added patterns and inclusion list"


def test_deidentify_says_it(model: Path, tiny_dev: Path, tmp_path: Path, capsys: Said) -> None:
    change(model, "rules", tmp_path)
    capsys.readouterr()
    assert main(["deidentify", str(model), str(tiny_dev), "--out", str(tmp_path / "out.jsonl"), "--quiet"]) == 0
    assert "this was measured before the model's rules changed" in capsys.readouterr().out
