"""What a second process gains in `deidentify`, and whether its memory stays bounded as a table grows.

    python benchmarks/batch_jobs.py jobs MODEL [--notes N] [--submodels NAMES]
    python benchmarks/batch_jobs.py memory [SIZE ...]

`jobs` runs the demo corpus's dev notes, repeated, with `--jobs 1` and `--jobs 2` one after the other, and a few of them
for what starting costs. On cores that others use, wall time says little: processor time does. From that of the main
process (reading, replacing, writing) and of the workers follows what two idle cores would take, if the main process
never worked at the same time as the workers. `memory` runs generated notes of 10 lines, 4 to a patient, through a model
that knows patterns only (trained here on the dev notes).
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import psutil

from ensemble_deid import Config, read_corpus, train
from ensemble_deid.cli.terminal import as_script

_FEW = 16
_INTERVAL = 0.2
_SHORT = (
    "Record date: 2071-03-04\nPatient: Ann Poe {n}\nMRN: 4711{n}\n\nSeen by Dr. Strong on 03/04/2071.\nBP 120/80.\n"
    "No complaints.\nPlan: see again on 04/{day:02}/2071.\nCall 555-0123.\nSigned: R. Strong, MD\n"
)


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds by the clock, seconds of the processor in the main process and in its workers, and the most memory."""

    wall: float
    main: float
    workers: float
    gigabytes: float


def deidentify(model: Path, table: Path, out: Path, *options: str) -> Run:
    """Run the command on a table, and look at all its processes five times a second."""
    command = [sys.executable, "-m", "ensemble_deid", "deidentify", str(model), str(table), "--out", str(out)]
    columns = ("--id-column=id", "--patient-column=mrn", "--style=surrogate", "--quiet")
    begun = time.perf_counter()
    process = subprocess.Popen([*command, *columns, *options], stdout=subprocess.DEVNULL)
    main = psutil.Process(process.pid)
    used: dict[int, float] = {}
    most = 0
    while process.poll() is None:
        memory = 0
        for one in [main, *_children(main)]:
            try:
                times = one.cpu_times()
                memory += one.memory_info().rss
                used[one.pid] = times.user + times.system
            except psutil.Error:
                # It has ended since.
                continue
        most = max(most, memory)
        time.sleep(_INTERVAL)
    if process.returncode:
        raise SystemExit(f"deidentify ended with status {process.returncode}")
    in_main = used.pop(process.pid)
    return Run(time.perf_counter() - begun, in_main, sum(used.values()), most / 1e9)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def write_table(path: Path, texts: Iterable[tuple[str, str]]) -> None:
    """Write notes with their patients as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "mrn", "text"])
        table.writerows([number, patient, text] for number, (patient, text) in enumerate(texts))


def measure_jobs(folder: Path, model: Path, notes: int, options: Sequence[str]) -> float:
    """Print both runs, of a few notes and of many; return how many times faster two idle cores are, once started."""
    dev = read_corpus("demo:dev").documents
    every = [
        (f"{number // len(dev)} {dev[number % len(dev)].patient}", dev[number % len(dev)]) for number in range(notes)
    ]
    runs: dict[tuple[int, int], Run] = {}
    for size in (_FEW, notes):
        write_table(folder / "notes.csv", ((patient, note.text) for patient, note in every[:size]))
        for jobs in (1, 2):
            out = folder / f"{size}-{jobs}.csv"
            run = runs[size, jobs] = deidentify(model, folder / "notes.csv", out, f"--jobs={jobs}", *options)
            print(
                f"{size:>7,} notes --jobs {jobs}: {run.wall:7.1f} s, processor {run.main:7.1f} s in the main process, "
                f"{run.workers:7.1f} s in workers, {run.gigabytes:.2f} GB in all",
                flush=True,
            )
    one, two = runs[notes, 1], runs[notes, 2]
    print(f"measured by the clock: {one.wall / two.wall:.2f}x; two idle cores: {_idle(one, two):.2f}x")
    few_one, few_two = runs[_FEW, 1], runs[_FEW, 2]
    steady = _idle(
        Run(0, one.main - few_one.main, 0, 0), Run(0, two.main - few_two.main, two.workers - few_two.workers, 0)
    )
    print(f"without starting, which does not grow with the notes: two idle cores: {steady:.2f}x")
    return steady


def _idle(one: Run, two: Run) -> float:
    return one.main / (two.main + two.workers / 2)


def measure_memory(folder: Path, sizes: Sequence[int]) -> None:
    """Print the most memory of all processes together, for each number of notes."""
    model = folder / "model"
    train(read_corpus("demo:dev"), config=Config(submodels=("regex",), folds=2, jobs=1)).save(model)
    for size in sizes:
        texts = ((f"M{n // 4}", _SHORT.format(n=n, day=1 + n % 28)) for n in range(size))
        write_table(folder / "notes.csv", texts)
        run = deidentify(model, folder / "notes.csv", folder / "out.csv")
        print(f"{size:>9,} notes: {run.main:7.1f} s of the processor, {run.gigabytes:.3f} GB", flush=True)


@as_script
def main() -> None:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description="Processes and memory of `deidentify`.")
    parts = parser.add_subparsers(dest="part", required=True)
    jobs = parts.add_parser("jobs")
    jobs.add_argument("model", type=Path)
    jobs.add_argument("--notes", type=int, default=1200)
    jobs.add_argument("--submodels", help="of the model, such as regex,tbed,crf,neural")
    memory = parts.add_parser("memory")
    memory.add_argument("sizes", nargs="*", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.part == "jobs":
            chosen = [f"--submodels={options.submodels}"] if options.submodels else []
            measure_jobs(Path(name), options.model, options.notes, chosen)
        else:
            measure_memory(Path(name), options.sizes or [1_000, 10_000, 100_000])


if __name__ == "__main__":
    sys.exit(main())
