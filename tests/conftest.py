"""What several test files share: one tiny full stack, trained once through the command line."""

import os
import sys
from pathlib import Path

import pytest
import tiny_stack
from hypothesis import settings

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus


def pytest_configure() -> None:
    # Before numerical libraries are imported: several threads on small arrays only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Spark starts its workers with another Python otherwise, whatever runs the tests.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # An example that takes long on a busy machine is no failure. One that fails is printed so that it can be repeated.
    settings.register_profile("unhurried", deadline=None, print_blob=True)
    settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def tiny_train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of eight annotated notes in i2b2 XML."""
    folder = tmp_path_factory.mktemp("train")
    write_corpus(tiny_stack.notes(), folder, "i2b2")
    return folder


@pytest.fixture(scope="session")
def tiny_dev(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSONL file with four annotated notes of other patients."""
    path = tmp_path_factory.mktemp("dev") / "dev.jsonl"
    write_corpus(tiny_stack.notes(400, patients=2), path, "jsonl")
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, tiny_train: Path, tiny_dev: Path) -> Path:
    """A trained model of all four submodels. Read it only: all tests share it; copy it to change it."""
    folder = tmp_path_factory.mktemp("tiny")
    model = folder / "model"
    arguments = ["train", str(tiny_train), "--dev", str(tiny_dev), "--out", str(model)]
    assert main([*arguments, *tiny_stack.settings(folder)]) == 0
    return model
