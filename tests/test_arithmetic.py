"""In which arithmetic networks compute: pinned on request, and on record wherever it decides what is found."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
import torch
from made_keys import KEY
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, tiny_batch, tiny_notes

from ensemble_deid.arrays import range_sums, row_products
from ensemble_deid.cli import main as main_module
from ensemble_deid.cli.main import main
from ensemble_deid.compiled import has_core
from ensemble_deid.config import Config, NeuralConfig
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.ensemble import arithmetic_in_use, arithmetic_of_training
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.reproducible import MARK, pinned_environment
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.by_type import ByTypeTagger, UncasedTagger
from ensemble_deid.taggers.device import choose_device
from ensemble_deid.taggers.neural.tagger import NeuralTagger
from ensemble_deid.taggers.transformer import training

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
HERE = choose_device("auto").type
KIND = "single precision, LSTM compiled" if has_core() else "single precision"
PINNABLE = Path("/proc/cpuinfo").is_file() and " avx2 " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
needs_avx2 = pytest.mark.skipif(not PINNABLE, reason="the processor is not known to have AVX2")


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with units for bfloat16, whatever runs the test."""
    monkeypatch.setattr(training.torch.cpu, "_is_amx_tile_supported", lambda: True)


@pytest.mark.usefixtures("bfloat16")
def test_a_pinned_process_tunes_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    assert training.bfloat16_helps(CPU)
    monkeypatch.setenv(MARK, "1")
    assert not training.bfloat16_helps(CPU)


@pytest.mark.usefixtures("bfloat16")
def test_what_a_model_is_trained_in_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(submodels=["regex", "neural", "transformer"], device="cpu")
    assert arithmetic_of_training(config) == {
        "neural": "single precision, cpu",
        "transformer": "products in bfloat16, cpu",
    }
    monkeypatch.setenv(MARK, "1")
    assert arithmetic_of_training(config) == {
        "neural": "single precision, cpu, AVX2",
        "transformer": "single precision, cpu, AVX2",
    }
    assert arithmetic_of_training(Config(submodels=["regex", "crf"])) == {}


def test_a_model_says_what_it_was_trained_in(tiny_model: Path) -> None:
    assert read_manifest(tiny_model).choices["arithmetic"] == {"neural": f"single precision, {HERE}"}


def test_a_pinned_process_computes_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto").type == "cuda"
    monkeypatch.setenv(MARK, "1")
    assert choose_device("auto").type == "cpu"
    with pytest.raises(ConfigError, match="--reproducible computes on the CPU"):
        choose_device("cuda")


def test_only_networks_have_one() -> None:
    batch = tiny_batch(tiny_notes(2))
    config = NeuralConfig(epochs=1, hidden=4, word_dimension=4, character_dimension=2, channels=2)
    network = NeuralTagger.fit(batch, batch, FitOptions(SCHEME, config, seed=1))
    # A submodel may consist of several.
    several = ByTypeTagger(SCHEME, (SCHEME.labels, SCHEME.labels), (UncasedTagger(network), network))
    assert arithmetic_in_use({"neural": several}) == {"neural": f"{KIND}, cpu"}


def test_it_is_a_setting_of_a_run(
    tiny_model: Path,
    tiny_dev: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    assert load_model(tiny_model)[0].description.arithmetic == {"neural": f"{KIND}, cpu"}
    run = ["deidentify", str(tiny_model), str(tiny_dev), "--out", str(tmp_path / "out.jsonl"), "--quiet"]
    assert main([*run, "--run", str(tmp_path / "run")]) == 0
    settings = json.loads((tmp_path / "run" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()[0])["settings"]
    assert settings["arithmetic"] == {"neural": f"{KIND}, cpu"}
    # What was begun on one machine is not continued in another arithmetic.
    monkeypatch.setattr("ensemble_deid.model.ensemble.arithmetic_in_use", lambda _: {"neural": "another"})
    assert main([*run, "--run", str(tmp_path / "run"), "--resume"]) == 2
    assert "other settings: arithmetic" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "deidentify"])
def test_a_command_starts_itself_again_to_be_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    started: list[list[str]] = []

    def start(arguments: list[str]) -> int:
        started.append(arguments)
        return 0

    monkeypatch.setattr(main_module, "start_pinned", start)
    monkeypatch.setattr("ensemble_deid.reproducible.platform.machine", lambda: "x86_64")
    asked = [command, str(tmp_path / "model"), "demo:dev", "--out", str(tmp_path / "out")]
    assert main([*asked, "--reproducible"]) == 0
    # Without the option, by the environment alone.
    monkeypatch.setenv(MARK, "1")
    assert main(asked) == 0
    assert started == [[*asked, "--reproducible"], asked]
    for name, value in pinned_environment().items():
        monkeypatch.setenv(name, value)
    assert main(asked) == 2, "it runs itself, and there is no such model"
    assert len(started) == 2


def test_a_process_that_only_claims_to_be_pinned_loads_no_model(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = [{"internal_api": "openblas", "architecture": "SkylakeX"}]
    monkeypatch.setattr("ensemble_deid.reproducible.threadpool_info", lambda: library)
    monkeypatch.setenv(MARK, "1")
    with pytest.raises(ConfigError, match="OpenBLAS uses SkylakeX, not Haswell"):
        load_model(tiny_model)


@needs_avx2
def test_notes_are_read_by_a_pinned_process(tiny_model: Path, tiny_dev: Path, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "ensemble_deid", "deidentify", str(tiny_model), str(tiny_dev), "--reproducible"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out.jsonl"), "--run", str(tmp_path / "run"), "--quiet"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "run" / "manifest.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert json.loads(first)["settings"]["arithmetic"] == {"neural": "single precision, cpu, AVX2"}


@needs_avx2
@pytest.mark.long
def test_a_reproducible_encoder_is_tuned_in_single_precision(tiny_train: Path, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    encoder = Path(shutil.copytree(tiny_encoder(), tmp_path / "encoder"))
    small = {"transformer.encoder": str(encoder), "transformer.epochs": "1", "transformer.window": "40"}
    settings = tiny_stack.settings(tmp_path, **small, **{"transformer.overlap": "8"})
    arguments = ["train", str(tiny_train), *settings, "--submodels=crf,transformer", "--reproducible"]
    done = subprocess.run(
        [sys.executable, "-m", "ensemble_deid", *arguments, "--out", str(tmp_path / "model")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert read_manifest(tmp_path / "model").choices["arithmetic"] == {"transformer": "single precision, cpu, AVX2"}


def test_a_row_is_computed_alike_whatever_stands_beside_it() -> None:
    rng = np.random.default_rng(3)
    rows, matrix = rng.normal(size=(100, 37)), rng.normal(size=(37, 25))
    whole = row_products(rows, matrix)
    np.testing.assert_allclose(whole, rows @ matrix, rtol=1e-12)
    for low, high in ((0, 1), (3, 4), (0, 23), (17, 41), (52, 100)):
        assert np.array_equal(row_products(rows[low:high], matrix), whole[low:high])


def test_sums_of_ranges_take_their_own_rows_alone() -> None:
    values = np.random.default_rng(3).normal(size=(50, 2)) * 10.0 ** np.arange(50)[:, None]
    first, after = np.array([0, 49, 7, 7, 50]), np.array([50, 50, 9, 7, 50])
    expected = [values[a:b].sum(axis=0) for a, b in zip(first, after, strict=True)]
    np.testing.assert_allclose(range_sums(values, first, after), expected, rtol=1e-12)
    assert np.array_equal(range_sums(values[40:], np.array([9]), np.array([10])), values[49:])
    assert range_sums(values[:, 0], first[:0], after[:0]).shape == (0,)
