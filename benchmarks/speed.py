"""Start-up time, memory and prediction speed of this checkout, compared with another one and with targets.

    python benchmarks/speed.py [--against CHECKOUT] [--notes 40] [--turns 3] [--all] [--train] [--installed FOLDER]

Each checkout runs its own English model in separate single-threaded processes, in turns, so that other load affects
both. Figures are medians of processor seconds (user and system) and megabytes; private memory is what a further process
adds. On a shared machine ratios are more reliable than figures. `--all` adds a second process (`batch_jobs.py`), HTTP
requests (`service_load.py`) and rule learning (`tbed_speed.py`), `--train` the training of `make train`, `--installed`
the size of an environment for prediction.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_MODEL = Path("models/ensemble_deid_en/ensemble_deid_en/model")
_WITHOUT = ("regex", "tbed", "crf", "neural")
_SHORT = 600

START, WHOLE, PRIVATE = "start, one note, s", "whole process, MB", "private, MB"
WITH, WITHOUT = "tokens/s with encoder", "tokens/s without"
JOBS, TBED = "--jobs 2, without encoder, times", "TBED, times NLTK"
HTTP, BATCHING = "16 HTTP clients, times as many notes", "16 HTTP clients, batching alone, times"
TRAIN, INSTALLED = "make train, min", "installed for prediction, MB"
AT_MOST = {START: 1.0, WHOLE: 250.0, PRIVATE: 90.0, INSTALLED: 260.0, TRAIN: 20.0}
AT_LEAST = {JOBS: 1.9, HTTP: 1.6, TBED: 200.0}
TIMES_AS_MANY = {WITHOUT: 2.2, WITH: 1.8}
"""Targets: of this checkout, and as ratios to the last version with PyTorch, which reads HTTP requests one by one."""


def memory() -> dict[str, float]:
    """Return the megabytes of this process, and those that it does not share."""
    kilobytes: dict[str, float] = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, value = line.split()[:2]
        kilobytes[name.rstrip(":")] = float(value)
    return {WHOLE: kilobytes["Rss"] / 1000, PRIVATE: kilobytes["Private_Dirty"] / 1000}


def measure(checkout: Path, notes: int) -> dict[str, float]:
    """Return the figures of one process that loads the model and reads notes."""
    from ensemble_deid import Deidentifier
    from ensemble_deid.corpora.read import read_corpus
    from ensemble_deid.model.loading import load_model

    dev = read_corpus("demo:dev").documents
    documents = [note.with_spans(()) for note in dev[:: max(1, len(dev) // notes)][:notes]]
    loaded = Deidentifier.load(checkout / _MODEL)
    for note in documents[:3]:
        loaded.deidentify(note.text)
    found = memory()
    short = [note.text[:_SHORT] for note in documents]
    begun = time.process_time()
    for text in short:
        loaded.deidentify(text)
    found["a note of 600 characters, ms"] = 1000 * (time.process_time() - begun) / len(short)
    n_tokens = len(loaded.ensemble.feature_extractor.extract(documents).tokens)
    whole, _ = load_model(checkout / _MODEL)
    small, _ = load_model(checkout / _MODEL, submodels=_WITHOUT)
    for name, ensemble in ((WITH, whole), (WITHOUT, small)):
        ensemble.predict(documents[:2])
        begun = time.process_time()
        ensemble.predict(documents)
        found[name] = n_tokens / (time.process_time() - begun)
    return found


def start_up(checkout: Path) -> float:
    """Return the processor seconds that the command takes for one note, without the first run."""
    with tempfile.TemporaryDirectory() as name:
        note = Path(name) / "note.txt"
        note.write_text("Mr. John Smith, MRN 1234567, was seen on 3/4/2019 by Dr. Alice Brown.\n", encoding="utf-8")
        command = [sys.executable, "-m", "ensemble_deid", "deidentify", str(checkout / _MODEL), str(note), "--out"]
        for turn in range(2):
            before = _children()
            out = str(Path(name) / f"{turn}.txt")
            subprocess.run([*command, out], env=_environment(checkout), cwd=checkout, check=True, capture_output=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment(checkout: Path) -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def compare(checkouts: Sequence[Path], *, notes: int, turns: int) -> dict[str, list[float]]:
    """Return each figure's median for each checkout; the checkouts take turns."""
    runs: dict[Path, list[dict[str, float]]] = {checkout: [] for checkout in checkouts}
    for _ in range(turns):
        for checkout, found in runs.items():
            command = [sys.executable, __file__, "--measure", str(checkout), "--notes", str(notes)]
            done = subprocess.run(
                command, env=_environment(checkout), cwd=checkout, check=True, capture_output=True, text=True
            )
            found.append({START: start_up(checkout), **json.loads(done.stdout.splitlines()[-1])})
    names = next(iter(runs.values()))[0]
    return {name: [statistics.median(one[name] for one in found) for found in runs.values()] for name in names}


def of_other_scripts(checkout: Path, against: Path | None) -> dict[str, float]:
    """Return the ratios that the other scripts measure, each within one run."""
    from batch_jobs import measure_jobs
    from service_load import together
    from tbed_corpus import TEMPLATES_30, generate
    from tbed_speed import compare_with_nltk

    from ensemble_deid.taggers.tbed import parse_templates

    model = checkout / _MODEL
    with tempfile.TemporaryDirectory() as name:
        jobs = measure_jobs(Path(name), model, 400, [f"--submodels={','.join(_WITHOUT)}"])
    load = argparse.Namespace(model=str(model), workers=1, submodels=None, length=_SHORT)
    load.clients, load.turns, load.seconds, load.against = 16, 3, 20.0, against
    tbed = compare_with_nltk(generate(200_000), parse_templates(TEMPLATES_30), rounds=1)
    return {JOBS: jobs, HTTP if against else BATCHING: together(load), TBED: tbed}


def train_minutes(checkout: Path) -> float:
    """Return the processor minutes of the training of `make train`."""
    options = ["demo:train", "--dev", "demo:dev", "--config", "best", "--sites", "25", "--quiet"]
    with tempfile.TemporaryDirectory() as name:
        before = _children()
        command = [sys.executable, "-m", "ensemble_deid", "train", *options, "--out", f"{name}/model"]
        subprocess.run(command, env=_environment(checkout), cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    return (_children() - before) / 60


def row(name: str, values: Sequence[float]) -> str:
    """Return a row of the table: each checkout's figure, their ratio, the target, and whether it is met."""
    ratio = values[-1] / values[0] if len(values) > 1 else None
    cells = [name, *(f"{value:,.2f}" for value in values), "" if ratio is None else f"{ratio:.2f}"]
    if name in AT_MOST:
        met = values[-1] <= AT_MOST[name]
        cells += [f"at most {AT_MOST[name]:g}", "yes" if met else "no"]
    elif name in AT_LEAST:
        met = values[-1] >= AT_LEAST[name]
        cells += [f"at least {AT_LEAST[name]:g}", "yes" if met else "no"]
    elif name in TIMES_AS_MANY:
        known = "not compared" if ratio is None else "yes" if ratio >= TIMES_AS_MANY[name] else "no"
        cells += [f"{TIMES_AS_MANY[name]:g} times as many", known]
    return " | ".join(cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--notes", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="the other scripts, too")
    parser.add_argument("--train", action="store_true", help="the training of `make train`, too")
    parser.add_argument("--installed", type=Path, metavar="FOLDER", help="an environment for prediction")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.notes)))
        return
    own = Path(__file__).resolve().parent.parent
    against = None if options.against is None else options.against.resolve()
    checkouts = [own] if against is None else [against, own]
    rows = compare(checkouts, notes=options.notes, turns=options.turns)
    if options.all:
        rows |= {name: [value] for name, value in of_other_scripts(own, against).items()}
    if options.train:
        rows[TRAIN] = [train_minutes(own)]
    if options.installed is not None:
        size = sum(path.stat().st_size for path in options.installed.rglob("*") if path.is_file())
        rows[INSTALLED] = [size / 1e6]
    for name, values in rows.items():
        print(row(name, values))


if __name__ == "__main__":
    main()
