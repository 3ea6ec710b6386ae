"""What computing a compact model's encoder in eight bits brings and costs, against single precision in one process.

    OMP_NUM_THREADS=1 python benchmarks/eight_bits.py MODEL NOTES [--first N]

MODEL is a compact model with a transformer, NOTES an annotated corpus. Prints processor time, tokens a second of the
whole model, and what it finds at its own threshold.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.model.loading import load_model
from ensemble_deid.note.counts import strict_counts
from ensemble_deid.note.digits import figure, percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.transformer import tagger

ENCODER = "transformer"


def main() -> None:
    """Read the notes in both ways, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("notes")
    parser.add_argument("--first", type=int, help="so many of the notes")
    options = parser.parse_args()
    notes = read_corpus(options.notes).documents[: options.first]
    helps = tagger.eight_bits_help
    answers = []
    shared: dict[str, Proposals] = {}
    seconds: dict[str, float] = {}
    for name, choice in (("eight bits", helps), ("single precision", lambda device: False)):
        tagger.eight_bits_help = choice
        ensemble, _ = load_model(options.model)
        batch, seconds["features"] = timed(ensemble.feature_extractor.extract, notes)
        for submodel, fitted in ensemble.taggers.items():
            if submodel == ENCODER or submodel not in shared:
                shared[submodel], seconds[submodel] = timed(fitted.propose, batch, n_best=ensemble.config.stack.n_best)
        found, seconds["final estimator"] = timed(ensemble.stacker.predict, shared, batch)
        parts = ", ".join(f"{part} {value:.2f}" for part, value in seconds.items())
        rate = len(batch.tokens) / sum(seconds.values())
        print(f"{name}: {len(batch.tokens):,} tokens, {rate:,.0f} tokens/s; seconds: {parts}", flush=True)
        print(f"  {figures(notes, found, ensemble.stacker, shared)}", flush=True)
        answers.append({(k, span.key) for k, spans in enumerate(found) for span in spans})
    print(f"{len(answers[0] ^ answers[1])} of {len(answers[1])} spans differ")


def timed(function, *arguments, **options):  # type: ignore[no-untyped-def]
    """Return what a function returns, and the processor time that it took."""
    begun = time.process_time()
    result = function(*arguments, **options)
    return result, time.process_time() - begun


def figures(
    notes: tuple[Document, ...], found: list[tuple[Span, ...]], stacker: Stacker, proposals: Mapping[str, Proposals]
) -> str:
    """Return strict F1 and the recall of PHI tokens at the model's threshold, and strict F1 of the encoder alone."""
    gold = [note.spans for note in notes]
    point = trace_curve(notes, [note.with_spans(spans) for note, spans in zip(notes, found, strict=True)]).at(0.0)
    alone, strict = (strict_counts(gold, spans).f1 for spans in (proposals[ENCODER].best, found))
    return (
        f"at {stacker.threshold:.3f}: strict F1 {percent(strict)}, token recall {percent(point.counts.recall)} at "
        f"{figure(point.fp_per_1000, 2)} false positives; encoder alone {percent(alone)}"
    )


if __name__ == "__main__":
    main()
