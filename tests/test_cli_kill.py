"""Whatever ends a command, no half file, no worker and no unfinished file with a note's text stays for long."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ensemble_deid.atomic import check_writable, folder_atomically, open_atomically, remove_stale
from ensemble_deid.cli.main import main

MARKER = "Zyxwvutsr"
COUNT = 800


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ensemble_deid", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that nohup started hand on that this signal is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


def members(session: int) -> list[int]:
    """Return the live processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(path.parent.name))
    return found


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    text = f"Patient: {MARKER}\nSeen by Dr. Kemp on 03/04/2019.\n"
    folder.mkdir()
    for k in range(COUNT):
        (folder / f"n{k:04}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("number", "status", "jobs"),
    [(signal.SIGTERM, 143, 1), (signal.SIGTERM, 143, 2), (signal.SIGHUP, 143, 1), (signal.SIGINT, 130, 2)],
)
def test_a_signal_ends_the_command_and_its_workers(
    tiny_model: Path, notes: Path, tmp_path: Path, number: signal.Signals, status: int, jobs: int
) -> None:
    out = tmp_path / "out"
    process = started("deidentify", tiny_model, notes, "--out", out, "--jobs", jobs)
    try:
        wait_for(lambda: out.is_dir() and len(list(out.iterdir())) > 5)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        wait_for(lambda: not members(process.pid), 10)
    finally:
        for left in members(process.pid):
            os.kill(left, signal.SIGKILL)
    assert process.returncode == status
    # A process of joblib's may add that it frees what the others left.
    assert said.startswith(f"ensemble-deid: {'interrupted' if status == 130 else 'terminated'}\n")
    assert "Traceback" not in said
    names = [path.name for path in out.iterdir()]
    assert 5 <= len(names) < COUNT
    assert all(name.startswith("n") for name in names)
    assert all((out / name).read_text(encoding="utf-8").endswith(".\n") for name in names)


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="processes are looked up in /proc")
def test_workers_end_with_a_killed_parent(tiny_model: Path, notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started("deidentify", tiny_model, notes, "--out", out, "--jobs", 2)
    try:
        wait_for(lambda: out.is_dir() and len(list(out.iterdir())) > 5)
        process.kill()
        process.wait()
        wait_for(lambda: not members(process.pid), 20)
    finally:
        for left in members(process.pid):
            os.kill(left, signal.SIGKILL)
        process.communicate()


def test_an_ignored_signal_stays_ignored(tiny_model: Path, notes: Path, tmp_path: Path) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main(["corpus", "stats", str(notes)]) == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_as_before_after_a_command(notes: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    assert main(["corpus", "stats", str(notes)]) == 0
    assert [signal.getsignal(number) for number in numbers] == before


def test_the_next_run_removes_what_a_killed_one_left(tiny_model: Path, notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started("predict", tiny_model, notes, "--format", "jsonl", "--out", out, "--submodel", "regex")
    try:
        wait_for(lambda: out.is_dir() and any(path.stat().st_size > 10_000 for path in out.iterdir()))
    finally:
        process.kill()
        process.communicate(timeout=60)
    (left,) = out.iterdir()
    assert left.name.startswith(".ensemble-deid-unfinished-")
    assert MARKER in left.read_text(encoding="utf-8")
    (notes / "more").mkdir()
    (tmp_path / "one.txt").write_text("Seen.", encoding="utf-8")
    assert main(["deidentify", str(tiny_model), str(tmp_path / "one.txt"), "--out", str(out)]) == 0
    assert [path.name for path in out.iterdir()] == ["one.txt"]


def test_only_own_files_that_nobody_writes_are_removed(tmp_path: Path) -> None:
    stale = [tmp_path / f".ensemble-deid-unfinished-{name}" for name in ("file", "folder")]
    stale[0].write_text(MARKER, encoding="utf-8")
    stale[1].mkdir()
    (stale[1] / "lexicon.json").write_text(MARKER, encoding="utf-8")
    foreign = [".ensemble-deid", ".unfinished", "ensemble-deid-unfinished-x", ".n0001.txt.abc"]
    for name in foreign:
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").write_text("x", encoding="utf-8")
    (tmp_path / ".ensemble-deid-unfinished-link").symlink_to(tmp_path / "kept")
    os.mkfifo(tmp_path / ".ensemble-deid-unfinished-pipe")
    with open_atomically(tmp_path / "a.txt") as stream, folder_atomically(tmp_path / "model") as folder:
        stream.write(b"x")
        (folder / "x").write_text("x", encoding="utf-8")
        check_writable(tmp_path)
        assert not any(path.exists() for path in stale)
        assert (folder / "x").is_file()
    assert (tmp_path / "a.txt").read_bytes() == b"x"
    assert (tmp_path / "kept" / "x").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {
        *foreign,
        "kept",
        "a.txt",
        ".ensemble-deid-unfinished-link",
    }


def test_a_file_locked_elsewhere_stays(tmp_path: Path) -> None:
    path = tmp_path / ".ensemble-deid-unfinished-x"
    with path.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        remove_stale(tmp_path)
        assert path.exists()
    remove_stale(tmp_path)
    assert not path.exists()
