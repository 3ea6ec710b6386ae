"""Every operation on files fails in turn: never a half file, never a lost input, always one clear error."""

import errno
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory

import pytest
import tiny_stack
from budget import SEED, Budget
from commands import contents, run
from faults import failing
from made_keys import KEY

from ensemble_deid.atomic import LOCK
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.manifest import is_run, verify_run
from ensemble_deid.deidentify.offsets import FILE as OFFSETS
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import REPLACED

RUN, PART = "out.run", "model.part"
_ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES)
_Prepare = Callable[[Path, Path], None]


def notes_and_model(folder: Path, model: Path) -> None:
    write_corpus(tiny_stack.notes(patients=1), folder / "notes", "brat")
    copytree(model, folder / "model")


def with_an_earlier_run(folder: Path, model: Path) -> None:
    notes_and_model(folder, model)
    for name in ("300-01.txt", "300-01.ann", "corpus.jsonl"):
        (folder / "out").mkdir(exist_ok=True)
        (folder / "out" / name).write_text("of an earlier run", encoding="utf-8")


def train_notes(folder: Path, _: Path) -> None:
    write_corpus(tiny_stack.notes(patients=2), folder / "notes", "i2b2")


def model_and_rules(folder: Path, model: Path) -> None:
    copytree(model, folder / "model")
    text = (model / "tbed.rules").read_text(encoding="utf-8").rstrip("\n").split("\n")
    (folder / "new.rules").write_text("\n".join(text[:-1]) + "\n", encoding="utf-8")


def sweep(model: Path, budget: Budget, prepare: _Prepare, arguments: Callable[[Path], Sequence[object]]) -> None:
    """Fail the operations of a command one by one, in an order of chance, as far as the time reaches."""
    with TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "work"

        def run_failing(at: int, error: int) -> tuple[int, dict[str, bytes], str, int, str]:
            rmtree(root, ignore_errors=True)
            root.mkdir()
            prepare(root, model)
            with failing(root, at=at, error=error) as faults:
                # The inputs are compared below, without faults.
                status, _, said = run(arguments(root))
            return status, contents(root), said, faults.count, faults.failed

        prepare_only = Path(folder) / "before"
        prepare_only.mkdir()
        prepare(prepare_only, model)
        before = contents(prepare_only)
        status, after, _, operations, failed = run_failing(-1, 0)
        assert (status, failed) == (0, "")
        assert operations > 20
        turns = [(at, error) for at in range(1, operations + 1) for error in _ERRORS]
        random.Random(SEED).shuffle(turns)
        for (at, error), _ in zip(turns, budget.rounds(), strict=False):
            status, now, said, _, failed = run_failing(at, error)
            told = f"operation {at} ({failed}) fails with {errno.errorcode[error]}: exit {status}, {said}"
            check_files(before, after, now, told)
            if is_run(root / RUN):
                verify_run(root / RUN)
            if status == 2:
                errors = [line for line in said.splitlines() if not line.startswith("ensemble-deid: patterns: ")]
                assert len(errors) == 1, told
                assert "unfinished" not in errors[0], told
            elif status == 0:
                kept = {name: data for name, data in now.items() if not left_over(name)}
                assert kept == after, told
            else:
                assert status == 3, told
                assert "withheld" in said, told


def left_over(name: str) -> bool:
    """Tell whether a file is what the next run removes, or continues."""
    continued = name == f"{RUN}/{OFFSETS}" or name.startswith(f"{PART}/")
    # A lock holds no more once its process has ended, and the next run opens it again.
    return "ensemble-deid-unfinished" in name or REPLACED in name or name.endswith(LOCK) or continued


def check_files(before: dict[str, bytes], after: dict[str, bytes], now: dict[str, bytes], told: str) -> None:
    """Check that every file is as it was, as it was to become, or not there if it was not an input."""
    for name, data in now.items():
        if name.endswith(".jsonl") and name in after and not name.startswith(f"{RUN}/"):
            # One file for all notes: a note that cannot be read is left out of it.
            lines = {line for whole in (before.get(name, b""), after[name]) for line in whole.splitlines(keepends=True)}
            assert set(data.splitlines(keepends=True)) <= lines, told
        elif not left_over(name) and not name.startswith(f"{RUN}/"):
            assert data in (before.get(name), after.get(name)), f"{name} is half a file: {told}"
    for name in before:
        place = name.partition("/")[0]
        restored = any(other.startswith(f".{place}{REPLACED}") for other in now)
        assert name in now or place == "out" or restored, f"{name} is lost: {told}"


@pytest.mark.parametrize("earlier", [False, True], ids=["first run", "second run"])
@pytest.mark.parametrize("command", ["deidentify", "predict brat", "predict jsonl"])
def test_deidentify_and_predict(
    tiny_model: Path, budget: Budget, command: str, earlier: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fresh key for each run would have another id in each manifest.
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    name, _, format = command.partition(" ")
    options = ("--format", format) if format else ()
    sweep(
        tiny_model,
        budget,
        with_an_earlier_run if earlier else notes_and_model,
        lambda root: (name, root / "model", root / "notes", "--out", root / "out", *options),
    )


def test_train(tiny_model: Path, budget: Budget) -> None:
    with TemporaryDirectory() as folder:
        settings = tiny_stack.settings(Path(folder))
        sweep(
            tiny_model,
            budget,
            train_notes,
            lambda root: ("train", root / "notes", *settings, "--submodels", "regex", "--out", root / "model"),
        )


def test_rules_replace(tiny_model: Path, budget: Budget) -> None:
    sweep(
        tiny_model,
        budget,
        model_and_rules,
        lambda root: ("rules", "replace", root / "model", root / "new.rules", "--remark", "fewer"),
    )


def test_a_model_that_a_fault_left_is_a_model(tiny_model: Path, budget: Budget, tmp_path: Path) -> None:
    """Files one by one may all be old or new; the model as a whole must be one or the other."""
    for number in budget.rounds():
        root = tmp_path / str(number)
        root.mkdir()
        model_and_rules(root, tiny_model)
        at = random.Random(number).randrange(1, 250)
        with failing(root, at=at):
            run(("rules", "replace", root / "model", root / "new.rules"))
        place = root / "model"
        kept = root / f".model{REPLACED}"
        if kept.exists() and not place.exists():
            kept.rename(place)
        load_model(place)
        rmtree(root)
