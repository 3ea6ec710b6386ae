"""Start-up time, memory and prediction speed of this checkout beside another one.

    python benchmarks/speed.py [--against CHECKOUT] [--notes 40] [--turns 3]

Each checkout runs its own English model in separate single-threaded processes, in turns, so that other load affects
both. Figures are medians of processor seconds (user and system) and megabytes; private memory is what a further process
adds. On a shared machine ratios are more reliable than figures. `batch_jobs.py` measures a second process,
`tbed_speed.py` rule learning, `service_load.py` HTTP requests.
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
from pathlib import Path

_MODEL = Path("models/ensemble_deid_en/ensemble_deid_en/model")
_WITHOUT = ("regex", "tbed", "crf", "neural")
_SHORT = 600


def memory() -> dict[str, float]:
    """Return the megabytes of this process, and those that it does not share."""
    kilobytes: dict[str, float] = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, value = line.split()[:2]
        kilobytes[name.rstrip(":")] = float(value)
    return {"whole process, MB": kilobytes["Rss"] / 1000, "private, MB": kilobytes["Private_Dirty"] / 1000}


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
    for name, ensemble in (("tokens/s with encoder", whole), ("tokens/s without", small)):
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--notes", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.notes)))
        return
    own = Path(__file__).resolve().parent.parent
    checkouts = [own] if options.against is None else [options.against.resolve(), own]
    runs: dict[Path, list[dict[str, float]]] = {checkout: [] for checkout in checkouts}
    for _ in range(options.turns):
        for checkout, found in runs.items():
            command = [sys.executable, __file__, "--measure", str(checkout), "--notes", str(options.notes)]
            done = subprocess.run(
                command, env=_environment(checkout), cwd=checkout, check=True, capture_output=True, text=True
            )
            found.append({"start, one note, s": start_up(checkout), **json.loads(done.stdout.splitlines()[-1])})
    for name in runs[own][0]:
        medians = [statistics.median(one[name] for one in found) for found in runs.values()]
        ratio = f"  {medians[-1] / medians[0]:.2f}" if len(medians) > 1 else ""
        print(f"{name:<32}" + "".join(f"{value:>10.2f}" for value in medians) + ratio)


if __name__ == "__main__":
    main()
