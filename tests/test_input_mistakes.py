"""Mistakes in input are refused with one clear error, in bounded time."""

import json
import tomllib
from pathlib import Path

import pytest
from bounded_work import no_hang

from ensemble_deid.cli.main import main
from ensemble_deid.config import load_config
from ensemble_deid.corpora.jsonl import read_jsonl_notes
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import strict_json, strict_toml
from ensemble_deid.training.training_notes import in_fold_groups

SECRET = "Quillfeather"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"patient": "7"}, ":1: unknown key 'patient'; did you mean 'patient_id'?"),
        ({SECRET: "7"}, ":1: unknown key; known are id, patient_id, "),
        ({"spans": [{"start": 0, "end": 1, "label": "X", "lable": "Y"}]}, ":1: span 0: unknown key 'lable'; did you"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(
    tmp_path: Path, entry: dict[str, object], said: str
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": "a", "text": "Text", **entry}), encoding="utf-8")
    ((_, error),) = read_jsonl_notes(path)
    assert isinstance(error, CorpusError)
    assert f"{path}{said}" in str(error)
    assert SECRET not in str(error)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f'{{"a": {{"{SECRET}": 1, "{SECRET}": 2}}}}', "a key occurs twice"),
        (f'["{SECRET}", NaN]', "NaN and infinity are not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_json_from_outside_is_strict(content: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        strict_json(content)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        ".".join(["a"] * 60_000) + " = 1",
        "[" + " . ".join(['"a"'] * 60_000) + "]",
        "x = {" + ".".join(["'a'"] * 60_000) + " = 1}",
        "x = " + "[" * 100_000,
        "x = " + "9" * 100_000,
    ],
)
def test_toml_from_outside_is_bounded(content: str) -> None:
    with no_hang(), pytest.raises(tomllib.TOMLDecodeError, match=r"more than 50 parts|nested too deeply|out of range"):
        strict_toml(content)


def test_toml_with_dots_in_its_values_is_read() -> None:
    dots = "a." * 40
    assert strict_toml(f'[a.b."c.d"]\nx = "{dots}"  # {dots}')["a"]["b"]["c.d"]["x"] == dots


def test_deep_json_in_a_manifest_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("manifest.jsonl", "manifest.json"):
        folder = tmp_path / name.rpartition(".")[2]
        folder.mkdir()
        (folder / name).write_text("[" * 200_000, encoding="utf-8")
        assert main(["audit", "verify", str(folder), "--trust", str(folder / "key")]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "verify", "x" * 5000],
        ["predict", "x" * 5000, "demo:dev", "--out", "o"],
        ["deidentify", "MODEL", "x" * 5000, "--out", "o"],
        ["deidentify", "MODEL", "in.txt", "--out", "x" * 5000],
        ["deidentify", "MODEL", "in.txt", "--out", "o", "--run", "x" * 5000],
        ["deidentify", "MODEL", "in.txt", "--out", "o", "--policy", "x" * 5000],
        ["deidentify", "MODEL", "in.txt", "--out", "o", "--known", "x" * 5000],
        ["deidentify", "MODEL", "in.txt", "--out", "o", "--key-file", "x" * 5000],
        ["train", "demo:train", "--out", "o", "--config", "x" * 5000],
        ["train", "demo:train", "--out", "o", "--set", ".".join(["a"] * 60_000) + "=1"],
        ["train", "demo:train", "--out", "o", "--set", "seed=" + "[" * 100_000],
        ["evaluate", "demo:dev", "x" * 5000],
        ["model", "scan", "x" * 5000, "demo:dev"],
        ["rules", "show", "x" * 5000],
    ],
)
def test_an_overlong_name_is_one_short_error(
    arguments: list[str],
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("A note.\n", encoding="utf-8")
    assert main([str(tiny_model) if part == "MODEL" else part for part in arguments]) == 2
    said = capsys.readouterr().err
    assert "unforeseen" not in said
    assert said.count("\n") == 1
    assert len(said) < 6000


def test_folds_by_patient_need_patients() -> None:
    notes = [Document(str(k), "Text", patient_id=None if k == 3 else "p") for k in range(5)]
    with pytest.raises(ConfigError, match="group_by = patient: 1 of 5 notes name no patient"):
        in_fold_groups(notes, config=load_config(group_by="patient"))
    assert len(in_fold_groups(notes, config=load_config())) == 5
