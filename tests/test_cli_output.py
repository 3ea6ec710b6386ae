"""No command writes over what it reads, however that is reached, and an unusable place is found before the work."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_stack
from every_command import main

from ensemble_deid import atomic
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify import outputs as output


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Run a command that is to be refused with one line, and check that no file has changed."""

    def run(*arguments: object) -> str:
        before = contents(tmp_path)
        assert main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert contents(tmp_path) == before
        return said.err

    return run


def linked(orig: Path, folder: Path, link: Callable[[Path, Path], None]) -> Path:
    """Make a folder in which every file of `orig` is reached by a link."""
    folder.mkdir()
    for path in orig.iterdir():
        link(path, folder / path.name)
    return folder


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "symbolic": lambda path, link: link.symlink_to(path),
    "hard": lambda path, link: link.hardlink_to(path),
    "of links": lambda path, link: link.symlink_to(path.parent / ".." / path.parent.name / path.name),
}


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("turned", [False, True], ids=["links in", "links out"])
def test_notes_behind_links_are_not_written_over(
    tiny_model: Path, tiny_train: Path, tmp_path: Path, refused: Callable[..., str], kind: str, turned: bool
) -> None:
    orig = tmp_path / "orig"
    write_corpus(tiny_stack.notes(patients=1), orig, "brat")
    links = linked(orig, tmp_path / "links", LINKS[kind])
    source, out = (orig, links) if turned else (links, orig)
    for command in (
        ("deidentify", tiny_model, source, "--out", out),
        ("deidentify", tiny_model, source / "300-01.txt", "--out", out),
        ("predict", tiny_model, source, "--out", out),
        ("corpus", "convert", source, "--format", "i2b2", "--out", out),
        ("corpus", "resample", source, "--out", out),
        ("rules", "apply", tiny_model, source, "--out", out),
    ):
        assert "nothing is written over what is read" in refused(*command)


def test_no_single_file_is_written_over_an_input(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    gold, model = Path(shutil.copy(tiny_dev, tmp_path / "gold.jsonl")), tmp_path / "model"
    shutil.copytree(tiny_model, model)
    (tmp_path / "map.toml").write_text("x", encoding="utf-8")
    soft, hard = tmp_path / "soft.jsonl", tmp_path / "hard.json"
    soft.symlink_to(gold)
    hard.hardlink_to(gold)
    for out in (gold, soft, hard, tmp_path / "model" / ".." / "gold.jsonl"):
        for command in (
            ("evaluate", gold, model, "--out"),
            ("evaluate", model, gold, "--out"),
            ("evaluate", tiny_dev, model, "--dev", gold, model, "--out"),
            ("research", "compare", tiny_dev, tiny_dev, gold, "--out"),
            ("corpus", "agreement", tiny_dev, gold, "--out"),
            ("model", "explain", model, gold, "--out"),
            ("model", "explain", model, gold, "--out"),
            ("model", "report", tiny_dev, gold, "--out"),
            ("research", "ablate", model, gold, "--out"),
        ):
            assert "nothing is written over what is read" in refused(*command, out)
    for command in (
        ("evaluate", gold, model, "--out"),
        ("research", "compare", gold, gold, model, "--out"),
        ("model", "report", gold, model, "--out"),
        ("research", "ablate", model, gold, "--out"),
        ("rules", "curve", model, "--out"),
    ):
        assert "nothing is written over what is read" in refused(*command, model / "manifest.json")
    for format in ("jsonl", "brat"):
        refused("corpus", "convert", gold, "--format", format, "--out", gold)
    refused("predict", model, gold, "--out", soft)
    refused("rules", "apply", model, gold, "--out", tmp_path / "model")
    refused("rules", "apply", tiny_model, gold, "--rules", model / "tbed.rules", "--out", tmp_path / "model")
    refused("rules", "review", model, "--corpus", tiny_dev, "--out", model / "tbed.rules")
    refused("rules", "review", model, "--corpus", gold, "--out", soft)
    refused("knowledge", "build", "--scowl", tmp_path, "--out", tmp_path)
    refused("research", "ablate", model, tiny_dev, "--retrain", gold, "--out", hard)
    refused("corpus", "convert", gold, "--format", "jsonl", "--label-map", tmp_path / "map.toml", "--out", tmp_path)
    assert "named for two outputs" in refused("evaluate", gold, gold, "--out", "x.csv", "--out", "./x.csv")


def test_a_model_takes_no_inputs_away_with_it(
    tiny_model: Path, tiny_train: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    settings = tiny_stack.settings(tmp_path)
    (tmp_path / "notes").symlink_to(model / "notes")
    shutil.copy(model / "tbed.rules", model / "new.rules")
    for made in ("notes", "config.toml"):
        if made == "notes":
            shutil.copytree(tiny_train, model / made)
        else:
            (model / made).write_text("folds = 2\n", encoding="utf-8")
    for arguments in (
        (tmp_path / "notes",),
        (tiny_train, "--dev", model / "notes" / "300-01.xml"),
        (tiny_train, "--config", model / "config.toml"),
        (tiny_train, "--set", f"regex.patterns={model / 'patterns.toml'}"),
    ):
        refused("train", *arguments, *settings, "--out", model)
    assert "its manifest does not name it" in refused("rules", "replace", model, model / "new.rules")
    # Each reason by itself, where the folder has nothing but the model.
    shutil.rmtree(model / "notes")
    (model / "config.toml").unlink()
    (model / "new.rules").unlink()
    said = refused("train", tiny_train, *settings, "--set", f"regex.patterns={model / 'patterns.toml'}", "--out", model)
    assert "patterns.toml: is an input inside the folder that the model would replace" in said


def test_the_demo_is_not_built_over_its_sources(tmp_path: Path, refused: Callable[..., str]) -> None:
    demo = tmp_path / "demo"
    (demo / "src").mkdir(parents=True)
    (demo / "src" / "101-01.note").write_text("kind: x\nsite: S01\n---\nSeen.\n", encoding="utf-8")
    (demo / "train").symlink_to(demo / "src")
    assert "the output folder is the input folder" in refused("build", demo)


@pytest.mark.parametrize("format", ["i2b2", "jsonl"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(
    tiny_model: Path,
    tiny_dev: Path,
    tmp_path: Path,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    def read_only(path: Path, _: int) -> int:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(atomic, "_locked", read_only)
    for loader in ("deidentify.deidentifier", "model.loading"):
        name = f"ensemble_deid.{loader}.load_model"
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("work was done"))
    out = tmp_path / "deep" / "out"
    said = refused("predict", tiny_model, tiny_dev, "--format", format, "--out", out)
    assert said == f"ensemble-deid: {out}: Read-only file system\n"
    said = refused("evaluate", tiny_dev, tiny_model, "--out", out / "x.json")
    assert said == f"ensemble-deid: {out}: Read-only file system\n"
    assert "Read-only" in refused("train", tiny_dev, "--out", out)


def test_checking_a_place_makes_nothing(tmp_path: Path) -> None:
    output.refuse_output(tmp_path / "a" / "b")
    output.refuse_output_files([tmp_path / "c" / "d.json", None])
    assert not list(tmp_path.iterdir())


def test_a_file_name_is_not_taken_for_a_folder(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.jsonl"
    for command in (
        ("predict", tiny_model, tiny_dev, "--format", "brat"),
        ("corpus", "convert", tiny_dev, "--format", "i2b2"),
    ):
        assert "found.jsonl: is the name of a file, but a folder" in refused(*command, "--out", out)
    assert main(["predict", str(tiny_model), str(tiny_dev), "--format", "jsonl", "--out", str(out)]) == 0
    assert out.is_file()
    assert len(out.read_text(encoding="utf-8").splitlines()) == 4
