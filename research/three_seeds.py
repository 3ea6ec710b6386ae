"""How far headline figures move with the seed alone: trains with several seeds, prints each run, mean and range.

    python research/three_seeds.py TRAIN DEV [--seeds 13,14,15] [--config FILE] [--set section.key=value ...]

A difference between two systems that is smaller than the range of one of them says nothing. The notes, the folds'
number and all settings are the same in every run; the seed shuffles patients into folds, starts the network, and draws
the stacker's sample. DEV chooses the network's epoch and is scored, as in `train --dev`.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import load_config
from ensemble_deid.corpora.read import Corpus, read_corpus
from ensemble_deid.errors import DeidError
from ensemble_deid.evaluation.evaluate import Evaluation, evaluate
from ensemble_deid.note.digits import percent
from ensemble_deid.training.train import train

FIGURES = ("strict F1", "token recall", "token precision", "notes without a leak")


def figures_of(evaluation: Evaluation) -> dict[str, float | None]:
    """Return the headline figures, in percent; None where one is undefined."""
    tokens, leaks = evaluation.score("token-binary"), evaluation.leaks.total.notes.share
    values = (
        evaluation.score().f1.value,
        tokens.recall.value,
        tokens.precision.value,
        None if leaks is None else 1 - leaks,
    )
    return {name: None if value is None else 100 * value for name, value in zip(FIGURES, values, strict=True)}


def run_seed(seed: int, corpus: Corpus, dev: Corpus, options: argparse.Namespace) -> dict[str, float | None]:
    """Train with one seed and score on dev; each submodel's F1 goes to standard error as soon as it is known."""
    config = load_config(options.config, overrides=options.overrides, jobs=options.jobs, seed=seed)
    trained = train(corpus, dev=dev, config=config, notify=lambda message: None, allow_overlap=options.allow_overlap)
    found = trained.deidentifier.predict(dev.documents)
    scores = "  ".join(f"{name} {percent(counts.f1)}" for name, counts in trained.dev_counts.items())
    sys.stderr.write(f"seed {seed}, strict F1: {scores}\n")
    sys.stderr.flush()
    return figures_of(evaluate(dev.documents, found, resamples=0))


def table(runs: Mapping[int, Mapping[str, float | None]]) -> list[str]:
    """Return a line for each seed, then the mean and the range (highest less lowest) of each figure."""
    lines = [f"{'':<8}" + "".join(f"{name:>22}" for name in FIGURES)]
    lines += [f"{f'seed {seed}':<8}" + "".join(_cell(run[name]) for name in FIGURES) for seed, run in runs.items()]
    defined = {name: [value for run in runs.values() if (value := run[name]) is not None] for name in FIGURES}
    whole = {name: len(values) == len(runs) for name, values in defined.items()}
    lines.append(f"{'mean':<8}" + "".join(_cell(fmean(defined[n]) if whole[n] else None) for n in FIGURES))
    spread = {name: max(values) - min(values) if whole[name] else None for name, values in defined.items()}
    return [*lines, f"{'range':<8}" + "".join(_cell(spread[name]) for name in FIGURES)]


def _cell(value: float | None) -> str:
    return f"{'undefined' if value is None else f'{value:.2f}':>22}"


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Train and print."""
    parser = argparse.ArgumentParser(description="How far headline figures move with the seed.")
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--seeds", default="13,14,15")
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--allow-overlap", action="store_true", help="as of `train` (MEDDOCAN's own split has overlap)")
    options = parser.parse_args(arguments)
    try:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        corpus, dev = read_corpus(options.train), read_corpus(options.dev)
        runs = {seed: run_seed(seed, corpus, dev, options) for seed in seeds}
    except (DeidError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("\n".join(table(runs)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
