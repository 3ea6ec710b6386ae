"""Two runs never write into one place: a lock on the output and on the run's folder, by real processes."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.atomic import exclusive
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.manifest import verify_run
from ensemble_deid.deidentify.offsets import Found, OffsetFile
from ensemble_deid.errors import ConfigError, CorpusError

_HOLD = """
import sys, time
from pathlib import Path
from ensemble_deid.atomic import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def holding(place: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(place)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_place_is_locked_by_whatever_name_until_its_process_ends(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    process = holding(tmp_path / "real" / "out")
    try:
        for name in (tmp_path / "real" / "out", tmp_path / "link" / "out", tmp_path / "real" / "x" / ".." / "out"):
            with pytest.raises(ConfigError, match=r"real/out: another run is writing there"), exclusive(name):
                pass
        with exclusive(tmp_path / "real" / "other") as unlocked:
            assert unlocked == []
    finally:
        # Killed, it cannot remove its file, and yet the place is free.
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with exclusive(tmp_path / "real" / "out", tmp_path / "link" / "out"):
        pass
    assert list((tmp_path / "real").iterdir()) == []


def test_many_processes_take_turns(tmp_path: Path) -> None:
    """Each adds one to a number: were two ever inside at once, or the file removed under a third, one would be lost."""
    turn = """
import sys, time
from pathlib import Path
from ensemble_deid.atomic import exclusive
from ensemble_deid.errors import ConfigError
number, done = Path(sys.argv[1]), 0
while done < 20:
    try:
        with exclusive(number):
            value = int(number.read_text())
            time.sleep(0.001)
            number.write_text(str(value + 1))
            done += 1
    except ConfigError:
        time.sleep(0.001)
"""
    number = tmp_path / "number"
    number.write_text("0", encoding="utf-8")
    processes = [subprocess.Popen([sys.executable, "-c", turn, str(number)]) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert number.read_text(encoding="utf-8") == "60"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has other locks")

    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    with exclusive(tmp_path / "out") as unlocked:
        assert unlocked == [(tmp_path / "out").resolve()]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_beside_which_nothing_can_be_made_has_its_lock_inside(tmp_path: Path) -> None:
    out = tmp_path / "above" / "out"
    out.mkdir(parents=True)
    out.parent.chmod(0o500)
    try:
        with exclusive(out), pytest.raises(ConfigError, match="another run"), exclusive(out):
            pass
    finally:
        out.parent.chmod(0o700)
    assert list(out.iterdir()) == []


def test_a_second_run_into_one_output_is_refused_and_the_first_is_whole(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, note in enumerate(tiny_stack.notes(patients=8) * 20):
        (folder / f"{number}.txt").write_text(note.text, encoding="utf-8")
    command = ["deidentify", str(tiny_model), str(folder), "--out", str(tmp_path / "out"), "--quiet"]
    first = subprocess.Popen([sys.executable, "-m", "ensemble_deid", *command], stdout=subprocess.DEVNULL)
    offsets = tmp_path / "out.run" / "offsets.jsonl"
    end = time.monotonic() + 120
    while not offsets.is_file():
        assert time.monotonic() < end
        assert first.poll() is None
        time.sleep(0.01)
    for more in (["--threshold", "0.9"], ["--run", str(tmp_path / "other")], ["--resume"]):
        assert main([*command, *more]) == 2
        assert "another run is writing there" in capsys.readouterr().err
    assert first.wait(timeout=300) == 0
    run = verify_run(tmp_path / "out.run")
    assert (run.settings["threshold"], run.counts["written"]) == (None, 320)
    assert main([*command, "--threshold", "0.9"]) == 0
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_error_names_the_file_of_offsets(tmp_path: Path) -> None:
    path, (soft, hard) = tmp_path / "offsets.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="too large") as raised, OffsetFile(path, {}).appending() as file:
            file.add([Found("00000000")] * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.filename == str(path)


def test_offsets_of_another_run_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    with OffsetFile(path, {"threshold": 0.999}).appending() as file:
        file.add([Found("00000000")])
    assert len(list(OffsetFile(path, {"threshold": 0.999}).read())) == 1
    with pytest.raises(CorpusError, match="begun with other settings: threshold"):
        list(OffsetFile(path, {"threshold": 0.06}).read())
    path.write_text(json.dumps({"notes": []}) + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="begun with other settings"):
        list(OffsetFile(path, {"threshold": 0.06}).read())
