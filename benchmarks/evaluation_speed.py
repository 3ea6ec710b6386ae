"""How long scoring takes on notes of the size of the MEDDOCAN development set: 250 notes, 5,801 annotations.

The limits are those that the project holds itself to on one core: scoring without intervals in 1 s, all figures with
10,000 resamples in 5 s, and a comparison of two systems with 10,000 resamples in 5 s. Processor time is measured, the
best of three runs. Run: `python benchmarks/evaluation_speed.py`; it ends with status 1 when a limit is passed.
"""

import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.evaluation.compare import compare
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.render.html.page import render_report
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import MEDDOCAN_TYPES
from ensemble_deid.note.span import Span

NOTES, PER_NOTE, WORDS = 250, 23, 520


def make_gold(rng: np.random.Generator) -> list[Document]:
    """Make notes of as many words and annotations as MEDDOCAN's; the words mean nothing."""
    documents = []
    for number in range(NOTES):
        words = ["".join(rng.choice(list("abcdefgh123"), size=rng.integers(1, 10))) for _ in range(WORDS)]
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])
        spans = []
        for at in sorted(rng.choice(WORDS // 3, size=PER_NOTE, replace=False) * 3):
            last = at + rng.integers(0, 2)
            label = MEDDOCAN_TYPES[rng.integers(22)]
            spans.append(Span(int(starts[at]), int(starts[last]) + len(words[last]), label))
        documents.append(Document(f"note-{number:03}", " ".join(words), tuple(spans)))
    return documents


def make_system(rng: np.random.Generator, gold: list[Document]) -> list[Document]:
    """Leave one annotation in ten out, change one in ten, and make up one in twenty."""
    system = []
    for document in gold:
        spans = []
        for span in document.spans:
            luck = rng.random()
            if luck < 0.1:
                continue
            label = MEDDOCAN_TYPES[rng.integers(22)] if luck < 0.15 else span.label
            end = span.end - 1 if 0.15 <= luck < 0.2 and span.end - span.start > 1 else span.end
            spans.append(Span(span.start, end, label, float(rng.random())))
        if rng.random() < 0.9:
            spans.append(Span(0, 1, "HOSPITAL", float(rng.random())))
        system.append(document.with_spans(spans))
    return system


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of the quickest of three runs."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


@as_script
def main() -> int:
    """Print a line for each measurement and return 1 when a limit is passed."""
    rng = np.random.default_rng(0)
    gold = make_gold(rng)
    one, other = make_system(rng, gold), make_system(rng, gold)
    annotations = sum(len(document.spans) for document in gold)
    print(f"{len(gold)} notes, {annotations} annotations, {sum(len(d.text) for d in gold):,} characters")
    measured: list[tuple[str, float | None, Callable[[], object]]] = [
        ("all figures, no intervals", 1.0, lambda: evaluate(gold, one, resamples=0)),
        ("all figures, 10,000 resamples", 5.0, lambda: evaluate(gold, one)),
        ("comparison, 10,000 resamples", 5.0, lambda: compare(gold, one, other)),
        ("report, 10,000 resamples", None, lambda: render_report(gold, one)),
    ]
    late = False
    for name, limit, work in measured:
        taken = seconds(work)
        late = late or (limit is not None and taken > limit)
        print(f"{name:32}{taken:8.2f} s" + ("" if limit is None else f"   (limit {limit:g} s)"))
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
