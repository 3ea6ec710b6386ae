"""Training with pinned libraries, and how far figures move with the seed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import tiny_stack
import torch

from ensemble_deid import reproducible
from ensemble_deid.cli.main import main
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.taggers import device

ROOT = Path(__file__).parents[1]
PINNABLE = Path("/proc/cpuinfo").is_file() and " avx2 " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
needs_avx2 = pytest.mark.skipif(not PINNABLE, reason="the processor is not known to have AVX2")


def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "ensemble_deid", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@needs_avx2
@pytest.mark.long
def test_a_reproducible_model_does_not_depend_on_what_the_libraries_would_choose(
    tiny_train: Path, tmp_path: Path
) -> None:
    arguments = ["train", tiny_train, *tiny_stack.settings(tmp_path), "--submodels=crf,neural", "--reproducible"]
    # Two machines: one whose libraries would choose the plainest code, one with none of these variables.
    other = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Nehalem", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    for name, variables in (("a", {}), ("b", other)):
        done = run(*arguments, "--out", tmp_path / name, **variables)
        assert done.returncode == 0, done.stderr
        assert "the model is in" in done.stdout
    files = [{p.name: p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()} for name in "ab"]
    assert files[0] == files[1]
    manifest = read_manifest(tmp_path / "a")
    assert manifest.choices["reproducible"]["instruction_set"] == "AVX2"
    assert manifest.choices["reproducible"]["environment"]["OPENBLAS_CORETYPE"] == "Haswell"
    assert manifest.config["device"] == "cpu"


def test_without_the_option_nothing_is_pinned(tiny_model: Path) -> None:
    assert "reproducible" not in read_manifest(tiny_model).choices
    assert not reproducible.is_pinned()


@needs_avx2
def test_what_goes_wrong_in_the_other_process_is_said_once(tmp_path: Path) -> None:
    done = run("train", tmp_path / "missing", "--out", tmp_path / "model", "--reproducible")
    assert done.returncode == 2
    assert done.stderr.count("there is no such file or folder") == 1
    done = run("train", "demo:dev", "--out", tmp_path / "model", "--reproducible", "--device", "cuda")
    assert done.returncode == 2
    assert "--reproducible trains on the CPU" in done.stderr


def test_processors_that_cannot_be_pinned_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproducible.platform, "machine", lambda: "aarch64")
    assert main(["train", "demo:dev", "--out", str(tmp_path / "model"), "--reproducible"]) == 2
    assert "which a aarch64 processor does not have" in capsys.readouterr().err


def test_libraries_that_did_not_follow_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that only claims to be pinned: its libraries were loaded before."""
    found = [{"internal_api": "openmp"}, {"internal_api": "openblas", "architecture": "SkylakeX"}]
    monkeypatch.setattr(reproducible, "threadpool_info", lambda: found)
    with pytest.raises(ConfigError, match="OpenBLAS uses SkylakeX, not Haswell"):
        reproducible.check_pinned()
    found[1]["architecture"] = "Haswell"
    reproducible.check_pinned()
    monkeypatch.setenv(reproducible.MARK, "1")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    with pytest.raises(ConfigError, match="torch uses AVX512, not AVX2"), device.torch_on_one_thread():
        pass


# Seeds


@pytest.fixture(scope="module")
def three_seeds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("three_seeds", ROOT / "research" / "three_seeds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mean_and_range_of_the_runs(three_seeds: ModuleType) -> None:
    runs = {
        13: dict(zip(three_seeds.FIGURES, (90.0, 80.0, None, 50.0), strict=True)),
        14: dict(zip(three_seeds.FIGURES, (93.0, 80.0, 10.0, 25.0), strict=True)),
    }
    lines = [line.split() for line in three_seeds.table(runs)]
    assert lines[1] == ["seed", "13", "90.00", "80.00", "undefined", "50.00"]
    assert lines[3] == ["mean", "91.50", "80.00", "undefined", "37.50"]
    assert lines[4] == ["range", "3.00", "0.00", "undefined", "25.00"]


def test_seeds_are_run_on_a_tiny_stack(
    three_seeds: ModuleType, tiny_train: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [part for part in tiny_stack.settings(tmp_path) if part not in ("--folds=2", "--quiet", "--jobs=1")]
    arguments = [str(tiny_train), str(tiny_dev), *settings, "--set", 'submodels=["regex", "tbed"]', "--set", "folds=2"]
    assert three_seeds.main([*arguments, "--seeds", "1,2", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["seed", "seed", "mean", "range"]
    assert all(0 <= float(cell) <= 100 for cell in lines[3].split()[1:])
    assert three_seeds.main([*arguments, "--seeds", "one"]) == 2
