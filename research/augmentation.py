"""What each change of form brings on unseen sites: one submodel trained with copies that have it, and without.

    python research/augmentation.py crf demo:train demo:dev --sites 20

Every training but the first has one copy of each note beside the note; `repeated` has the note itself twice, so that
the number of steps is the same. Recall is that of `submodel_recall.py`.
"""

import argparse
import os
import sys
import time
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import load_config
from ensemble_deid.corpora.augment import CHANGES, augment_corpus
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.note.digits import percent
from ensemble_deid.training.training_notes import sample_sites
from research.submodel_recall import BOUNDS, curve_of, recalls_on


@as_script
def main() -> None:
    """Train once for each change and print a row of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("submodel")
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--sites", type=int)
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    config = load_config(options.config, overrides=options.overrides)
    notes, dev = read_corpus(options.train).documents, read_corpus(options.dev).documents
    if options.sites:
        notes = sample_sites(notes, options.sites, seed=config.seed)
    copies = {"none": [], "repeated": [replace(note, id=f"{note.id}-again", patient_id=note.patient) for note in notes]}
    for changes in (*([name] for name in CHANGES), list(CHANGES)):
        name = "all" if len(changes) > 1 else changes[0]
        copies[name] = augment_corpus(notes, changes=changes, copies=1, seed=config.seed)
    print(f"{options.submodel}, {len(notes)} notes -> {options.dev}: token recall at false positives per 1000 tokens")
    print(f"{'copies':<12}" + "".join(f"{bound:>8g}" for bound in BOUNDS) + f"{'all':>8}{'seconds':>9}")
    for name, more in copies.items():
        begun = time.process_time()
        recalls = recalls_on(curve_of(options.submodel, [*notes, *more], dev, config=config))
        row = "".join(f"{percent(value, sign=''):>8}" for value in recalls)
        print(f"{name:<12}{row}{time.process_time() - begun:>9.0f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
