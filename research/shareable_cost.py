"""What a closed vocabulary costs in F1, and what it keeps out of the model's files: plain and shareable in one run.

    python research/shareable_cost.py demo:train demo:dev --folds 2 --set crf.max_iterations=20 --set neural.epochs=4

Prints strict entity F1 on DEV for each system, and which share of the words and strings of TRAIN's PHI stands in any
file of the model, against that of DEV's (`ensemble_deid/model/scan.py`).
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.package import export_model
from ensemble_deid.model.scan import ALL_FILES, ALL_LABELS, scan_model
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import percent
from ensemble_deid.training.train import train
from ensemble_deid.training.training_notes import sample_sites


def shares(row: tuple[int, int, int, int]) -> str:
    """Say how many of the strings were found, and how many of the control's."""
    strings, found, others, by_chance = row
    own, chance = 100 * found / max(1, strings), 100 * by_chance / max(1, others)
    return f"{own:6.1f}% of {strings}, by chance {chance:6.1f}% of {others}"


def scores(by_system: Mapping[str, Counts]) -> str:
    """Say the F1 of each system."""
    return "  ".join(f"{name} {percent(counts.f1)}" for name, counts in by_system.items())


@as_script
def main() -> None:
    """Train, score, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--labels", default=f"{ALL_LABELS},PATIENT,DOCTOR", help="of the search")
    parser.add_argument("--folds", type=int)
    parser.add_argument("--sites", type=int, help="train on the notes of so many sites alone")
    parser.add_argument("--submodels", default="regex,tbed,crf,neural")
    parser.add_argument("--shareable-only", action="store_true", help="do not train the plain model")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--allow-overlap", action="store_true", help="as of `train` (MEDDOCAN's own split has overlap)")
    options = parser.parse_args()
    notes, dev = read_corpus(options.train).documents, read_corpus(options.dev).documents
    if options.sites is not None:
        notes = sample_sites(notes, options.sites, seed=load_config(overrides=options.overrides).seed)
    names = options.submodels.split(",")
    for shareable in (True,) if options.shareable_only else (False, True):
        config = load_config(overrides=options.overrides, submodels=names, folds=options.folds, shareable=shareable)
        trained = train(notes, dev, config=config, report=lambda step: None, allow_overlap=options.allow_overlap)
        print(f"{'shareable' if shareable else 'plain'}: strict F1 {scores(trained.dev_counts)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            model, exported = Path(folder) / "model", Path(folder) / "exported"
            save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, model)
            export_model(model, exported, shareable=shareable)
            for row in scan_model(exported, notes, dev):
                if row.file == ALL_FILES and row.label in options.labels.split(","):
                    every = (row.strings, row.found, row.control_strings, row.control_found)
                    print(
                        f"  {row.label:<10} {row.unit:<6} {shares(every)}; of one patient {shares(row.single)}, "
                        f"p {row.p:.2g}",
                        flush=True,
                    )


if __name__ == "__main__":
    sys.exit(main())
