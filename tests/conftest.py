"""What several test files share: one tiny full stack, trained once through the command line."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tiny_stack
from hypothesis import settings

from ensemble_deid.cli import main as package
from ensemble_deid.corpora.write import write_corpus


def pytest_configure() -> None:
    # Before numerical libraries are imported: several threads on small arrays only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # To make the parser takes as long as most commands of the tests.
    package.build_parser = cache(package.build_parser)
    # Patterns are compiled once for all tests, and nothing is left behind.
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="ensemble-deid-tests-")
    # Spark starts its workers with another Python otherwise, whatever runs the tests.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # An example that takes long on a busy machine is no failure. One that fails is printed so that it can be repeated.
    # The examples are the same each time, so that a change alone makes a test fail; `make fuzz` draws others.
    settings.register_profile("unhurried", deadline=None, print_blob=True, derandomize="FUZZ_SECONDS" not in os.environ)
    settings.load_profile("unhurried")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)


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
    assert package.main([*arguments, *tiny_stack.settings(folder)]) == 0
    return model


@pytest.fixture
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database on a server of its own, which listens to a socket only."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed under /usr/lib/postgresql (Debian's package postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder = Path("/tmp") / f"ensemble-deid-pg-{os.getpid()}"
    folder.mkdir(mode=0o700)
    as_user: list[str] = []
    if os.getuid() == 0:
        # The server refuses to run as root.
        if shutil.which("runuser") is None:
            pytest.skip("the server does not run as root, and there is no runuser")
        shutil.chown(folder, "nobody")
        as_user = ["runuser", "-u", "nobody", "--"]
    programs, data = found[-1].parent, folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True, "cwd": "/"}
    control = [*as_user, str(programs / "pg_ctl"), "-D", str(data), "-w"]
    try:
        subprocess.run([*as_user, str(found[-1]), "-D", str(data), "-U", "tester", "-A", "trust", "-N"], **quiet)
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        subprocess.run([*control, "-l", str(folder / "log"), "-o", settings, "start"], **quiet)
        yield f"postgresql+psycopg://tester@/postgres?host={folder}"
        subprocess.run([*control, "-m", "fast", "stop"], **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
