"""A model on disk: whole or not at all, checked when it is read, and unable to run code."""

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.model import directory
from ensemble_deid.model.directory import refuse_foreign_folder, save_model, update_model, write_manifest
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import REPLACED, Manifest, read_manifest
from ensemble_deid.stacking.dataset import StackingDataset

FILES = (
    "MODEL_CARD.md",
    "crf.safetensors",
    "lexicon.json",
    "network.json",
    "network.safetensors",
    "patterns.toml",
    "regex.json",
    "stacker.json",
    "stacker.safetensors",
    "stacker_statistics.safetensors",
    "tbed.json",
    "tbed_initial.json",
    "tbed.rules",
)
PRIVATE_FILES = ("private/stacking_dataset.json", "private/stacking_dataset.safetensors")
JSON_FILES = (*(name for name in FILES if name.endswith(".json")), PRIVATE_FILES[0])


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def refused(model: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Load the model in vain, also by the command line, and return the one line that is said."""
    with pytest.raises(ModelError) as raised:
        load_model(model)
    capsys.readouterr()
    assert main(["predict", str(model), "demo:test", "--out", str(model.parent / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"ensemble-deid: {raised.value}\n"
    assert said.err.count("\n") == 1
    assert str(model) in said.err
    assert not (model.parent / "out").exists()
    return str(raised.value)


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def edit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def test_the_list_of_files_is_whole(tiny_model: Path) -> None:
    assert set(contents(tiny_model)) == {*FILES, *PRIVATE_FILES, "manifest.json", "private/manifest.json"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [truncate, edit, None], ids=["truncated", "edited", "missing"])
def test_a_damaged_file_is_named(
    model: Path, capsys: pytest.CaptureFixture[str], name: str, damage: Callable[[bytes], bytes] | None
) -> None:
    path = model / name
    if damage is None:
        path.unlink()
        assert f"{path}: missing; the model is incomplete" in refused(model, capsys)
        return
    path.write_bytes(damage(path.read_bytes()))
    assert f"{path}: truncated or edited since the model was saved" in refused(model, capsys)


@pytest.mark.parametrize("command", ["ablate", "evaluate", "rules"])
def test_every_command_refuses_a_damaged_model(
    model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (model / "lexicon.json").write_text("{}", encoding="utf-8")
    arguments = {
        "ablate": ["research", "ablate", str(model), str(tiny_dev), "--out", str(model.parent / "report.md")],
        "evaluate": ["evaluate", str(tiny_dev), str(model)],
        "rules": ["rules", "show", str(model)],
    }[command]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "lexicon.json: truncated or edited" in said.err
    assert said.err.count("\n") == 1


def change_manifest(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = model / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_missing_or_broken_manifest(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model / "manifest.json"
    whole = path.read_bytes()
    for broken in (b"", truncate(whole), b"[]", b"\xff\xfe", b"null", b'"text"', b"[" * 100_000, b"{}"):
        path.write_bytes(broken)
        assert f"{path}: damaged" in refused(model, capsys)
    path.unlink()
    assert "there is no manifest.json" in refused(model, capsys)


@pytest.mark.parametrize(("version", "remedy"), [(5, "train the model again"), (7, "a newer ensemble_deid is needed")])
def test_another_format_is_refused_and_the_remedy_named(
    model: Path, capsys: pytest.CaptureFixture[str], version: int, remedy: str
) -> None:
    path = model / "manifest.json"
    # Nothing else is known of another format, so nothing else is checked.
    path.write_text(json.dumps({"format_version": version, "ensemble_deid": "9.0.0"}), encoding="utf-8")
    said = refused(model, capsys)
    assert f"format {version}, made by ensemble_deid 9.0.0" in said
    assert f"reads format 6: {remedy}" in said


@pytest.mark.parametrize("key", [*Manifest.__dataclass_fields__, "checksum"])
def test_every_edit_of_the_manifest_is_noticed(model: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    whole = (model / "manifest.json").read_bytes()
    right = json.loads(whole)[key]
    for value in (None, "", -1, True, [], {}, ["CITY", "CITY"], [[]], {"../../etc/passwd": "0"}, 0.5, "\ud800"):
        if value == right:
            continue
        (model / "manifest.json").write_bytes(whole)
        change_manifest(model, lambda content, value=value: content.update({key: value}))
        with pytest.raises(ModelError):
            load_model(model)
    (model / "manifest.json").write_bytes(whole)
    change_manifest(model, lambda content: content.pop(key))
    refused(model, capsys)


def test_swapped_labels_are_noticed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_manifest(model, lambda content: content["labels"].reverse())
    assert "edited since the model was saved" in refused(model, capsys)


def hostile_values() -> list[object]:
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    code = {"__class__": "os.system", "__reduce__": ["os.system", ["touch owned"]], "py/object": "os.system"}
    return [None, True, -1, 1e400, "__import__('os').system('touch owned')", [], {}, deep, code, "\ud800"]


def places(content: object, *, first: int = 12) -> Iterator[tuple[object, ...]]:
    """Yield the paths to the parts of a JSON value; below the top only the first two of each list and table."""
    yield ()
    if isinstance(content, dict | list):
        items = list(content.items()) if isinstance(content, dict) else list(enumerate(content))
        for key, part in items[:first]:
            yield from ((key, *rest) for rest in places(part, first=2))


def replaced(content: Any, path: tuple[object, ...], value: object) -> object:
    if not path:
        return value
    changed = copy.copy(content)
    changed[path[0]] = replaced(content[path[0]], path[1:], value)
    return changed


@pytest.mark.parametrize("name", JSON_FILES)
def test_forged_json_is_refused_or_harmless(
    model: Path, monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    """Hostile values with all hashes made right again: one ModelError or a model, never anything else, never code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("code was run"))
    manifest = read_manifest(model)
    path = model / name
    whole = json.loads(path.read_text(encoding="utf-8"))
    refusals: list[str] = []
    for place in places(whole):
        for value in hostile_values():
            path.write_text(json.dumps(replaced(whole, place, value)), encoding="utf-8")
            write_manifest(model, manifest)
            try:
                load_model(model)
                StackingDataset.load(model / "private")
            except ModelError as error:
                refusals.append(str(error))
    assert refusals
    assert all(str(model) in said and len(said) < 1000 for said in refusals)
    assert not (tmp_path / "owned").exists()


def test_a_device_that_is_none_is_the_users_error(tiny_model: Path) -> None:
    with pytest.raises(ConfigError, match="device"):
        load_model(tiny_model, device="abacus")


# Saving


def parts(model: Path) -> tuple[Any, StackingDataset, Manifest]:
    ensemble, manifest = load_model(model)
    return ensemble, StackingDataset.load(model / "private"), manifest


def test_a_saved_model_is_the_same_again(tiny_model: Path, tmp_path: Path) -> None:
    save_model(*parts(tiny_model), tmp_path / "deep" / "down" / "again")
    assert contents(tmp_path / "deep" / "down" / "again") == contents(tiny_model)


@pytest.mark.parametrize("stage", ["dataset", "manifest", "swap", "last rename"])
@pytest.mark.parametrize("interruption", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_an_interrupted_save_leaves_the_old_model(
    model: Path, monkeypatch: pytest.MonkeyPatch, stage: str, interruption: BaseException
) -> None:
    before, whole = contents(model), parts(model)

    def interrupt(*_: object, **__: object) -> None:
        raise interruption

    if stage == "dataset":
        monkeypatch.setattr(StackingDataset, "save", interrupt)
    elif stage == "manifest":
        monkeypatch.setattr(directory, "write_manifest", interrupt)
    elif stage == "swap":
        monkeypatch.setattr(directory, "_swap", interrupt)
    else:
        rename = Path.rename

        def rename_but_the_new_one(self: Path, target: Path) -> Path:
            # The old model has been moved away already when the new one fails to take its place.
            if target == model and not self.name.endswith(REPLACED):
                raise interruption
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", rename_but_the_new_one)
    with pytest.raises(type(interruption)):
        save_model(*whole, model)
    with pytest.raises(type(interruption)):
        update_model(model, lambda scratch, manifest: interrupt() if stage == "dataset" else manifest)
    assert contents(model) == before
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_model_takes_the_place_of_a_model_and_of_an_empty_folder(model: Path, tmp_path: Path) -> None:
    whole = parts(model)
    save_model(*whole, model)
    empty = tmp_path / "empty"
    empty.mkdir()
    save_model(*whole, empty)
    assert contents(empty) == contents(model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "model"]


@pytest.mark.parametrize("name", ["thesis.txt", "lexicon.json.bak", "transformer.json", "more"])
def test_what_the_manifest_does_not_name_is_refused(model: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """No part of a model is ever read unchecked, whatever lies in its folder."""
    if name == "more":
        (model / name).mkdir()
    else:
        (model / name).write_text("{}", encoding="utf-8")
    assert f"{model / name}: not part of the model" in refused(model, capsys)


def test_hidden_files_are_ignored(model: Path) -> None:
    (model / ".DS_Store").write_bytes(b"\0")
    load_model(model)


def test_a_model_behind_a_link_stays_behind_it(model: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(model)
    save_model(*parts(link), link)
    assert link.is_symlink()
    assert load_model(link)[0].taggers
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model"]


def test_nothing_foreign_is_overwritten(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ModelError):
            refuse_foreign_folder(place)
        with pytest.raises(ModelError):
            save_model(*parts(tiny_model), place)
    assert contents(tmp_path) == {"thesis.txt": b"years of work"}


def test_a_file_that_somebody_put_into_a_model_is_not_lost(model: Path) -> None:
    whole = parts(model)
    (model / "approval.txt").write_text("signed", encoding="utf-8")
    before = contents(model)
    with pytest.raises(ModelError, match=r"approval\.txt: not part of the model, and would be lost"):
        save_model(*whole, model)
    with pytest.raises(ModelError, match=r"approval\.txt: not part of the model"):
        update_model(model, lambda _, manifest: manifest)
    (model / "approval.txt").rename(model / "private" / "approval.txt")
    with pytest.raises(ModelError, match=r"private.approval\.txt: not part of the model, and would be lost"):
        save_model(*whole, model)
    with pytest.raises(ModelError, match=r"private.approval\.txt: not part of the model, and would be lost"):
        update_model(model, lambda _, manifest: manifest)
    (model / "private" / "approval.txt").rename(model / "approval.txt")
    assert contents(model) == before


def test_hidden_files_stay_with_a_model_that_is_changed_or_saved_again(model: Path) -> None:
    whole, kept = parts(model), model.with_name(f".{model.name}{REPLACED}")
    (model / ".git").mkdir()
    (model / ".git" / "config").write_text("[core]", encoding="utf-8")
    (model / ".gitattributes").write_text("* binary", encoding="utf-8")
    before = contents(model)
    for change in (lambda: update_model(model, lambda _, manifest: manifest), lambda: save_model(*whole, model)):
        change()
        assert contents(model) == before
    # Killed before they were moved.
    kept.mkdir()
    (model / ".git").rename(kept / ".git")
    save_model(*whole, model)
    assert contents(model) == before
    assert not kept.exists()


def test_a_model_comes_back_when_its_replacement_was_killed(model: Path) -> None:
    """Killed between the two renames, the process leaves neither the old nor the new model in its place."""
    before, whole = contents(model), parts(model)
    kept = model.with_name(f".{model.name}{REPLACED}")
    model.rename(kept)
    with pytest.raises(ModelError, match=r"its replacement was interrupted; it is in .*replaced"):
        load_model(model)
    refuse_foreign_folder(model)
    save_model(*whole, model)
    assert contents(model) == before
    assert not kept.exists()


def test_who_may_read_a_model_is_the_users_choice(tiny_model: Path, tmp_path: Path) -> None:
    """A model of real notes holds their words: with a strict umask nobody else may look in."""
    whole = parts(tiny_model)
    before = os.umask(0o077)
    try:
        save_model(*whole, tmp_path / "private")
    finally:
        os.umask(before)
    save_model(*whole, tmp_path / "usual")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "usual").stat().st_mode & 0o777 == 0o777 & ~before
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "private").iterdir())


def test_an_update_keeps_the_rest(model: Path) -> None:
    before = contents(model)

    def change(scratch: Path, manifest: Manifest) -> Manifest:
        (scratch / "tbed.rules").write_bytes((scratch / "tbed.rules").read_bytes() + b"# read by a person\n")
        return manifest

    update_model(model, change)
    after = contents(model)
    assert {name for name in before if before[name] != after[name]} == {"tbed.rules", "manifest.json"}
    load_model(model)
