"""Token recall against false positives, and fully redacted notes, of one model on several corpora.

    python research/unseen_sites.py MODEL [--submodels NAMES] CORPUS ...

Each corpus has a row: at the model's own threshold, with a 95% interval that resamples sites where there are ten, and
at the best threshold within 2, 5, 10 and 15 false positives in 1000 tokens, which is found on the same notes, as
operating points of papers are. With --split-sites the demo corpus's sites have further rows by version of the corpus
(E, S, R). Below each row: strict F1 at the own threshold and the best, token recall and false positives when
all that is scored is accepted, and the false positives that a recall of 98.5, 99 and 99.5 takes. With --released the
rows have what `deidentify` takes out instead: thresholds lowered in hard forms, repeats searched in a patient's notes.

demo:test measures a model once. Every use is a line of `demo_test_log.tsv`, and a second one needs --again.
"""

import argparse
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from ensemble_deid import Deidentifier, Document, RunOptions, read_corpus
from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.bootstrap import bootstrap_interval
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, keep_above, trace_curve
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.model.installed import model_of
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.digits import UNDEFINED, figure, percent
from ensemble_deid.training.reports import BOUNDS

_RECALLS = (0.985, 0.99, 0.995)
_WRITERS_OF_TRAIN = frozenset({"E20", "R12", "R19", "R51", "R62"})
"""Test sites whose writers also wrote training notes."""


def _between(first: int, last: int) -> Callable[[str], bool]:
    return lambda site: site.startswith("R") and first <= int(site[1:]) <= last


_PARTS: Mapping[str, Callable[[str], bool]] = {
    "sites of version 1": lambda site: not site.startswith(("S", "R")),
    "sites of version 2": lambda site: site.startswith("S"),
    "new registers": lambda site: site.startswith("R"),
    "new registers, writers of test alone": lambda site: site.startswith("R") and site not in _WRITERS_OF_TRAIN,
    "writers who also wrote training notes": lambda site: site in _WRITERS_OF_TRAIN,
    "sites written after 2.3.0": _between(146, 241),
    "ordinary hospitals and practices, written while 2.4.0 was trained": _between(242, 253),
    "other kinds, written while 2.4.0 was trained": _between(254, 289),
}
_FEWEST_SITES = 10
TEST = "demo:test"
LOG = Path(__file__).with_name("demo_test_log.tsv")


def log_use(model: Path, command: Sequence[str], *, again: bool, log: Path = LOG) -> None:
    """Add a use of the test notes to the log. Raises ModelError where this model has one and it is not `again`.

    The final estimator's hash identifies a model: another threshold, or an encoder in eight bits, makes no new one.
    """
    version = read_manifest(model).files["stacker.safetensors"][:12]
    lines = log.read_text(encoding="utf-8").splitlines()
    if not again and (before := [line for line in lines if version in line.split("\t")]):
        raise ModelError(
            f"{model}: was scored on {TEST} before ({before[-1].partition(chr(9))[0]}): --again, or demo:dev"
        )
    lines.append("\t".join((date.today().isoformat(), version, shlex.join(command))))
    write_text_atomically(log, "\n".join(lines) + "\n")


def parts(documents: Sequence[Document], *, split_sites: bool) -> Iterator[tuple[str, list[int]]]:
    """Yield the name and the notes, by index, of each row."""
    yield "all", list(range(len(documents)))
    if split_sites:
        for name, belongs in _PARTS.items():
            if rows := [i for i, note in enumerate(documents) if belongs(note.site or "")]:
                yield name, rows


def cell(gold: Sequence[Document], scored: Sequence[Document], point: OperatingPoint | None) -> str:
    """Return recall and the share of fully redacted notes at a point."""
    if point is None:
        return "-"
    leaks = evaluate(gold, keep_above(scored, point.threshold), resamples=0).leaks.total.notes.share
    shown = "-" if leaks is None else f"{100 * (1 - leaks):.0f}%"
    return f"{recall_at_price(point, 1)} ({shown})"


def interval_by_site(gold: Sequence[Document], scored: Sequence[Document], threshold: float) -> str:
    """Return a 95% interval of token recall that resamples sites; nothing where there are fewer than ten."""
    sites: dict[str, list[int]] = {}
    for row, note in enumerate(gold):
        sites.setdefault(note.site or note.group, []).append(row)
    if len(sites) < _FEWEST_SITES:
        return ""
    counts = []
    for rows in sites.values():
        found = trace_curve([gold[i] for i in rows], [scored[i] for i in rows]).at(threshold).counts
        counts.append((found.tp, found.fp, found.fn))
    interval = bootstrap_interval(np.array(counts, dtype=np.int64), list(sites), measure="recall")
    return f" [{percent(interval.low, sign='')} to {percent(interval.high, sign='')}]"


def recall_at_price(point: OperatingPoint, digits: int) -> str:
    """Return recall in per cent and false positives in 1000 tokens."""
    return f"{percent(point.counts.recall, sign='')} at {figure(point.fp_per_1000, digits)}"


def best_f1(curve: Curve) -> float | None:
    """Return the highest F1 on a curve, None where there is nothing to find."""
    points = [curve.at(math.inf), *(curve.point(index) for index in range(len(curve)))]
    defined = [f1 for point in points if (f1 := point.counts.f1) is not None]
    return max(defined) if curve.gold else None


def price(curve: Curve, wanted: float) -> str:
    """Return the false positives in 1000 tokens that a recall takes."""
    if not curve.gold:
        return UNDEFINED
    point = find_point(curve, rule="sensitivity", wanted=wanted)
    return "not reached" if point is None else figure(point.fp_per_1000, 1)


def lines_of(gold: Sequence[Document], scored: Sequence[Document], threshold: float) -> tuple[str, str]:
    """Return the row of operating points, and a line of the rest."""
    curve = trace_curve(gold, scored)
    points = [curve.at(threshold), *(find_point(curve, rule="false-positives", wanted=bound) for bound in BOUNDS)]
    first, *rest = (cell(gold, scored, point) for point in points)
    row = " | ".join([first + interval_by_site(gold, scored, threshold), *rest])
    needed = ", ".join(f"{100 * wanted:g}: {price(curve, wanted)}" for wanted in _RECALLS)
    everything = recall_at_price(curve.at(0.0), 0)
    by_span = trace_curve(gold, scored, view="strict")
    own, best = (percent(f1, sign="") for f1 in (by_span.at(threshold).counts.f1, best_f1(by_span)))
    return row, f"strict F1 {own}, best {best}; everything {everything}; false positives for a recall of {needed}"


def released(model: Deidentifier, gold: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Return the notes that `deidentify` with its defaults lets out, and the same with what it takes out of them."""
    results = list(model.process(gold, RunOptions(), together=True))
    passed = [(note, result) for note, result in zip(gold, results, strict=True) if result.error is None]
    return [note for note, _ in passed], [note.with_spans(result.found) for note, result in passed]


def released_line(gold: Sequence[Document], system: Sequence[Document]) -> str:
    """Return recall, false positives, the share of fully redacted notes, and F1."""
    curve, notes = trace_curve(gold, system), evaluate(gold, system, resamples=0).leaks.total.notes
    whole = UNDEFINED if notes.share is None else f"{100 * (1 - notes.share):.1f}%"
    f1 = percent(trace_curve(gold, system, view="strict").at(0.0).counts.f1, sign="")
    return f"{recall_at_price(curve.at(0.0), 1)}{interval_by_site(gold, system, 0.0)}, {whole} fully redacted, F1 {f1}"


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Predict once for each corpus, and print."""
    parser = argparse.ArgumentParser(description="Token recall against false positives on several corpora.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("corpora", metavar="CORPUS", nargs="+")
    parser.add_argument("--submodels")
    parser.add_argument("--split-sites", action="store_true")
    parser.add_argument("--released", action="store_true", help="score what `deidentify` takes out")
    parser.add_argument("--again", action="store_true", help=f"score a model on {TEST} that was scored there before")
    options = parser.parse_args(arguments)
    if TEST in options.corpora:
        place = model_of(options.model) or Path(options.model)
        log_use(place, sys.argv if arguments is None else arguments, again=options.again)
    submodels = options.submodels.split(",") if options.submodels is not None else None
    model = Deidentifier.load(options.model, submodels=submodels)
    for name in options.corpora:
        gold = read_corpus(name).documents
        if options.released:
            out, system = released(model, gold)
            for part, rows in parts(out, split_sites=options.split_sites):
                line = released_line([out[i] for i in rows], [system[i] for i in rows])
                sys.stdout.write(f"{name}, {part}, {len(rows)} notes let out: {line}\n")
            continue
        scored = model.predict(gold, threshold=0.0)
        for part, rows in parts(gold, split_sites=options.split_sites):
            row, rest = lines_of([gold[i] for i in rows], [scored[i] for i in rows], model.ensemble.stacker.threshold)
            sys.stdout.write(f"| {name}, {part}, {len(rows)} notes | {row} |\n    {rest}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
