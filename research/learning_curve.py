"""What more sites bring: one submodel trained on 5, 10, 20, ... sites, token recall on the notes of other sites.

    python research/learning_curve.py crf demo:train demo:dev --sites 5,10,20,40,all

A larger sample includes the smaller ones. Recall is of the submodel's candidates at bounds on false positives in 1000
tokens (`submodel_recall.py`); the full stack is higher, but takes too long for a curve.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.note.digits import percent
from ensemble_deid.training.training_notes import sample_sites
from research.submodel_recall import BOUNDS, curve_of, recalls_on


@as_script
def main() -> None:
    """Train once for each number of sites and print a row of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("submodel")
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--sites", default="5,10,20,40,all")
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    config = load_config(options.config, overrides=options.overrides)
    notes, dev = read_corpus(options.train).documents, read_corpus(options.dev)
    print(f"{options.submodel}, {options.train} -> {options.dev}: token recall at false positives per 1000 tokens")
    print(f"{'sites':>8}{'notes':>8}" + "".join(f"{bound:>8g}" for bound in BOUNDS) + f"{'all':>8}{'seconds':>9}")
    for part in options.sites.split(","):
        n_sites = len({note.site for note in notes}) if part == "all" else int(part)
        sample = sample_sites(notes, n_sites, seed=config.seed)
        begun = time.process_time()
        recalls = recalls_on(curve_of(options.submodel, sample, dev.documents, config=config))
        row = "".join(f"{percent(value, sign=''):>8}" for value in recalls)
        print(f"{n_sites:>8}{len(sample):>8}{row}{time.process_time() - begun:>9.0f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
