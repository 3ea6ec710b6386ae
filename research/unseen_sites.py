"""Token recall against false positives, and fully redacted notes, of one model on several corpora.

    python research/unseen_sites.py MODEL [--submodels NAMES] CORPUS ...

Each corpus has a row: at the model's own threshold, and at the best one within 2, 5, 10 and 15 false positives in 1000
tokens, which is found on the same notes, as operating points of papers are. With --split-sites the demo corpus's sites
have further rows: those of version 1 begin with E or a digit, later ones with S. Below each row: the best strict F1,
token recall and false positives when all that is scored is accepted, and the false positives that a recall of 98.5, 99
and 99.5 takes. Nothing but figures is printed.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence

from ensemble_deid import Deidentifier, Document, read_corpus
from ensemble_deid.errors import DeidError
from ensemble_deid.evaluation.curve import Curve, OperatingPoint, keep_above, trace_curve
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.render.figures import figure
from ensemble_deid.note.digits import UNDEFINED, percent
from ensemble_deid.training.model_figures import BOUNDS

_RECALLS = (0.985, 0.99, 0.995)


def parts(documents: Sequence[Document], *, split_sites: bool) -> Iterator[tuple[str, list[int]]]:
    """Yield the name and the notes, by index, of each row."""
    yield "all", list(range(len(documents)))
    if split_sites:
        late = [i for i, note in enumerate(documents) if (note.site or "").startswith("S")]
        early = [i for i in range(len(documents)) if i not in set(late)]
        yield from ((name, rows) for name, rows in (("sites of version 1", early), ("later sites", late)) if rows)


def cell(gold: Sequence[Document], scored: Sequence[Document], point: OperatingPoint | None) -> str:
    """Return recall and the share of fully redacted notes at a point."""
    if point is None:
        return "-"
    leaks = evaluate(gold, keep_above(scored, point.threshold), resamples=0).leaks.total.notes.share
    shown = "-" if leaks is None else f"{100 * (1 - leaks):.0f}%"
    return f"{recall_at_price(point, 1)} ({shown})"


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
    row = " | ".join(cell(gold, scored, point) for point in points)
    needed = ", ".join(f"{100 * wanted:g}: {price(curve, wanted)}" for wanted in _RECALLS)
    everything = recall_at_price(curve.at(0.0), 0)
    strict = percent(best_f1(trace_curve(gold, scored, view="strict")), sign="")
    return row, f"best strict F1 {strict}; everything {everything}; false positives for a recall of {needed}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict once for each corpus, and print."""
    parser = argparse.ArgumentParser(description="Token recall against false positives on several corpora.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("corpora", metavar="CORPUS", nargs="+")
    parser.add_argument("--submodels")
    parser.add_argument("--split-sites", action="store_true")
    options = parser.parse_args(arguments)
    try:
        submodels = options.submodels.split(",") if options.submodels is not None else None
        model = Deidentifier.load(options.model, submodels=submodels)
        for name in options.corpora:
            gold = read_corpus(name).documents
            scored = model.predict(gold, threshold=0.0)
            for part, rows in parts(gold, split_sites=options.split_sites):
                row, rest = lines_of(
                    [gold[i] for i in rows], [scored[i] for i in rows], model.ensemble.stacker.threshold
                )
                sys.stdout.write(f"| {name}, {part}, {len(rows)} notes | {row} |\n    {rest}\n")
                sys.stdout.flush()
    except DeidError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
