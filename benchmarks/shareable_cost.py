"""What a closed vocabulary costs in F1, and what it keeps out of the model's files: plain and shareable in one run.

    python benchmarks/shareable_cost.py demo:train demo:dev --folds 2 --set crf.max_iterations=20 --set neural.epochs=4

Prints strict entity F1 on DEV for each system, and which share of the words and strings of TRAIN's PHI stands in any
file of the model, against that of DEV's (`ensemble_deid/experiments/scan.py`).
"""

import argparse
import tempfile
from pathlib import Path

from ensemble_deid.config_files import load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.experiments.scan import ALL_FILES, ALL_LABELS, scan_model
from ensemble_deid.experiments.train import train
from ensemble_deid.pipeline.directory import save_model
from ensemble_deid.pipeline.export import export_model


def main() -> None:
    """Train, score, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--labels", default=f"{ALL_LABELS},PATIENT,DOCTOR", help="of the search")
    parser.add_argument("--folds", type=int)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--allow-overlap", action="store_true", help="as of `train` (MEDDOCAN's own split has overlap)")
    options = parser.parse_args()
    notes, dev = read_corpus(options.train).documents, read_corpus(options.dev).documents
    for shareable in (False, True):
        config = load_config(overrides=options.overrides, folds=options.folds, shareable=shareable)
        trained = train(notes, dev, config=config, report=lambda step: None, allow_overlap=options.allow_overlap)
        scores = "  ".join(f"{name} {100 * (counts.f1 or 0):.2f}" for name, counts in trained.dev_counts.items())
        print(f"{'shareable' if shareable else 'plain'}: strict F1 {scores}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            model, exported = Path(folder) / "model", Path(folder) / "exported"
            save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, model)
            export_model(model, exported, shareable=shareable)
            for row in scan_model(exported, notes, dev):
                if row.file == ALL_FILES and row.label in options.labels.split(","):
                    own, chance = row.found / row.strings, row.control_found / row.control_strings
                    print(
                        f"  {row.label:<10} {row.unit:<6} {100 * own:6.1f}% of {row.strings}, by chance "
                        f"{100 * chance:6.1f}% of {row.control_strings}, p {row.p:.2g}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
