"""What a person at a terminal sees, and what a log or a pipe does not."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import deidentify_files
from ensemble_deid.cli import corpus as corpus_commands
from ensemble_deid.cli import main as package
from ensemble_deid.cli.main import main
from ensemble_deid.cli.terminal import expected_end, progress_bar, say
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.parallel import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show_steps(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, *, quiet: bool = False) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(quiet=quiet) as show:
        show(Step(1, 4, "crf, fold 1 of 2"))
        show(Step(2, None, "[/odd] [bold]name[/bold]"))
    return stream.getvalue()


def test_a_terminal_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen = show_steps(Terminal(), monkeypatch)
    # The last step is shown when the bar is taken away; what looks like markup is shown as it is.
    assert "[/odd] [bold]name[/bold]" in seen


def test_the_time_left_is_that_of_the_work_done_so_far() -> None:
    assert expected_end(Step(1, 4, ""), start=100, now=130) == 220
    assert expected_end(Step(3, 4, ""), start=100, now=130) == 140
    assert expected_end(Step(4, 4, ""), start=100, now=130) == 130
    for unknown in (Step(0, 4, ""), Step(2, None, ""), Step(0, 0, "")):
        assert expected_end(unknown, start=100, now=130) is None


def test_a_terminal_sees_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    clock = iter([1000.0, *[1060.0] * 1000])
    monkeypatch.setattr("ensemble_deid.cli.terminal.time.monotonic", lambda: next(clock))
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(quiet=False) as show:
        show(Step(1, 4, "crf, fold 1 of 2"))
    assert "about 0:03:00 left" in stream.getvalue()


def test_quiet_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert show_steps(Terminal(), monkeypatch, quiet=True) == ""


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"])
def test_a_log_file_sees_none(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    assert show_steps(io.StringIO(), monkeypatch) == ""


def test_commands_say_nothing_on_the_way(
    tiny_model: Path,
    tiny_dev: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for k, quiet in enumerate([(), ("--quiet",)]):
        assert main(["predict", str(tiny_model), str(tiny_dev), "--out", str(tmp_path / str(k)), *quiet]) == 0
        report = ["--jobs", "1", "--out", str(tmp_path / "report.md")]
        assert main(["research", "ablate", str(tiny_model), str(tiny_dev), *report, *quiet]) == 0
        assert capsys.readouterr().err == ""


def test_prediction_and_ablation_advance_to_the_end(
    tiny_model: Path, tiny_train: Path, tiny_dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Step] = []

    class Recorder:
        def __init__(self, *, quiet: bool) -> None:
            pass

        def __enter__(self) -> object:
            return steps.append

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("ensemble_deid.cli.prediction.progress_bar", Recorder)
    monkeypatch.setattr("ensemble_deid.cli.deidentify.progress_bar", Recorder)
    monkeypatch.setattr("ensemble_deid.cli.training.progress_bar", Recorder)
    assert main(["predict", str(tiny_model), str(tiny_train), "--out", str(tmp_path / "out")]) == 0
    assert [(step.done, step.total) for step in steps] == [(k, 8) for k in range(1, 9)]
    assert steps[-1].message == "8 notes written, 0 withheld"
    steps.clear()
    # The notes of a file are counted first, so that both passes can tell the time left.
    assert main(["deidentify", str(tiny_model), str(tiny_dev), "--out", str(tmp_path / "clean.jsonl")]) == 0
    assert {step.total for step in steps} == {4}
    assert [step.done for step in steps].count(4) == 2
    steps.clear()
    assert (
        main(["research", "ablate", str(tiny_model), str(tiny_dev), "--jobs", "1", "--out", str(tmp_path / "r.md")])
        == 0
    )
    assert [(step.done, step.total) for step in steps] == [(k, 6) for k in range(6)]
    left_out = ("regex", "tbed", "crf", "neural", "regex and tbed")
    assert [step.message for step in steps[1:]] == [f"without {names}" for names in left_out]
    steps.clear()
    arguments = [str(tiny_train), "--out", str(tmp_path / "model"), *tiny_stack.settings(tmp_path)]
    assert main(["train", *arguments, "--submodels", "regex,tbed"]) == 0
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert all(step.total is not None and step.done <= step.total for step in steps)
    assert steps[-1].done == steps[-1].total


def test_an_encoding_that_lacks_a_character_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> int:
        say("change O to B-DOCTOR if the word is \u0160imi\u0107")
        return 0

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(corpus_commands, "run_stats", run)
    monkeypatch.setattr(package, "build_parser", package.build_parser.__wrapped__)
    assert main(["corpus", "stats", "demo"]) == 0
    assert raw.getvalue() == b"change O to B-DOCTOR if the word is \\u0160imi\\u0107\n"


def test_closed_streams_end_no_command(tiny_model: Path, tmp_path: Path) -> None:
    """As of a daemon."""
    (tmp_path / "a.txt").write_text("Seen on 03/04/2019.", encoding="utf-8")
    command = f"{sys.executable} -m ensemble_deid deidentify {tiny_model} {tmp_path / 'a.txt'}"
    closed = subprocess.run(["sh", "-c", f"{command} --out {tmp_path / 'o.txt'} >&- 2>&-"], check=False)
    assert closed.returncode == 0
    assert (tmp_path / "o.txt").read_text(encoding="utf-8") == "Seen on [DATE]."
    lost = subprocess.run(
        ["sh", "-c", f"echo Seen. | {command.rpartition(' ')[0]} - >&-"], capture_output=True, text=True, check=False
    )
    assert (lost.returncode, lost.stderr) == (2, "ensemble-deid: standard output is closed: name --out\n")
    unread = subprocess.run(
        ["sh", "-c", f"{command.rpartition(' ')[0]} - --out {tmp_path / 'p.txt'} <&-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (unread.returncode, unread.stderr) == (2, "ensemble-deid: standard input is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_error_of_standard_output_names_it(tiny_model: Path) -> None:
    command = f"echo Seen. | {sys.executable} -m ensemble_deid deidentify {tiny_model} - --quiet > /dev/full"
    full = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (full.returncode, full.stderr) == (2, "ensemble-deid: <stdout>: No space left on device\n")


def test_a_reader_that_goes_away_is_no_fault() -> None:
    root = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [sys.executable, "-m", "ensemble_deid", "corpus", "stats", "demo:dev"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


class Gone(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


@pytest.mark.parametrize("command", ["evaluate", "model errors", "model patterns check", "audit plan"])
def test_what_is_written_to_files_does_not_depend_on_who_reads_the_output(
    command: str, tiny_model: Path, tiny_dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold, model, out = str(tiny_dev), str(tiny_model), tmp_path / "out.json"
    words = [gold, model]
    if command == "model patterns check":
        (tmp_path / "p.toml").write_text(tiny_stack.PATTERNS, encoding="utf-8")
        words, out = [str(tmp_path / "p.toml"), gold], tmp_path / "out.toml"
    elif command == "audit plan":
        clean, out = tmp_path / "clean", tmp_path / "audit"
        write_corpus(tiny_stack.notes(600, patients=2), tmp_path / "notes", "plain")
        made = deidentify_files(tmp_path / "notes", clean, tiny_model, accept_unfit=True)
        words = [str(made.folder), str(tmp_path / "notes"), model]
    monkeypatch.setattr(sys, "stdout", Gone())
    assert main([*command.split(), *words, "--out", str(out)]) == 141
    assert out.exists()
