"""Exposure of invented names that one training patient's notes have, in a plain and in a shareable model.

    python research/canary_runs.py demo:dev --set crf.max_iterations=20 --set neural.epochs=4 --folds 2

Trains both models on the corpus with the names planted in the notes of its first patient, and prints for each the mean
exposure of the names among others that were never planted (`research/canaries.py`), and in how many
files of the model a planted name stands.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.scan import file_text
from ensemble_deid.training.train import train
from research.canaries import exposures, invent_names, plant


@as_script
def main() -> None:
    """Train, rank, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", metavar="CORPUS")
    parser.add_argument("--label", default="PATIENT")
    parser.add_argument("--planted", type=int, default=10)
    parser.add_argument("--others", type=int, default=1023)
    parser.add_argument("--times", type=int, default=3, help="in how many notes of the patient each name is")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folds", type=int)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    documents = read_corpus(options.corpus).documents
    names = invent_names(options.planted + options.others, seed=options.seed)
    planted, others = names[: options.planted], names[options.planted :]
    patient = min(document.patient for document in documents)
    notes = plant(documents, planted, patient=patient, label=options.label, times=options.times)
    print(f"{len(planted)} names planted, {len(others)} others; the most is {math.log2(len(others) + 1):.2f} bits,")
    print("1.44 on average without any memory (1.00 where all scores are equal)")
    for shareable in (False, True):
        config = load_config(overrides=options.overrides, folds=options.folds, shareable=shareable)
        trained = train(notes, [], config=config, report=lambda step: None)
        with tempfile.TemporaryDirectory() as folder:
            save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, Path(folder) / "model")
            files = [path for path in (Path(folder) / "model").rglob("*") if path.is_file()]
            surnames = [name.split()[1].lower() for name in planted]
            holding = sum(any(name in text for name in surnames) for text in map(file_text, files))
        print(f"{'shareable' if shareable else 'plain'}: {holding} of {len(files)} files have planted names")
        for system, found in exposures(trained.ensemble, planted, others, label=options.label).items():
            bits = [exposure.bits for exposure in found]
            print(
                f"  {system:<12} mean {mean(bits):.2f}, median {median(bits):.2f}, highest {max(bits):.2f}", flush=True
            )


if __name__ == "__main__":
    sys.exit(main())
