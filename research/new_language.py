"""What each step of docs/new-language.md is worth: recall and precision of PHI tokens, strict F1, by annotated notes.

    python -m research.new_language data/german [--sizes 8,16,32] [--seeds 13,14,15]

The folder holds `train.jsonl`, `test.jsonl` and `patterns.toml`. A seed draws the patients of the annotated notes, a
larger sample holds the smaller ones, and the patterns are the same throughout. Thresholds are those that training
chooses, out of fold. A training that is refused, since next to nothing was learned, is left out of the means and
counted in the cell.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.training.rule_learning import learn_rule_list
from ensemble_deid.training.train import train
from research.rules_map import sampled

RULES, LISTS = "tbed.cv_folds=0", 'text.knowledge="en"'
SYSTEMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "patterns": ("regex,tbed", ("tbed.max_rules=0", RULES)),
    "patterns, TBED": ("regex,tbed", (RULES,)),
    "CRF": ("crf", ("regex.patterns=none",)),
    "patterns, TBED, CRF": ("regex,tbed,crf", (RULES,)),
    "the same, with name lists": ("regex,tbed,crf", (RULES, LISTS)),
}
"""Name -> submodels and settings; without a CRF, the rule list is used by itself."""


def measured(notes: Sequence[Document], test: Sequence[Document], config: Config) -> tuple[Counts, Counts] | None:
    """Return the counts of PHI tokens and of strict entities on the test notes, None where training is refused."""
    if "crf" not in config.submodels:
        learned = learn_rule_list(notes, test, config=config, notify=_quiet)
        return learned.tokens, learned.strict
    try:
        answer = train(notes, config=config, notify=_quiet).deidentifier.predict(test)
    except ModelError:
        return None
    tokens, strict = (count_view(test, answer, view).total for view in ("token-binary", "strict"))
    return tokens, strict


def _quiet(message: str) -> None:
    """Say nothing: the table says it."""


def cell(counts: Sequence[tuple[Counts, Counts] | None]) -> str:
    """Return recall and precision of PHI tokens and strict F1, each the mean of the runs that have it."""
    runs = [run for run in counts if run is not None]
    columns = ([t.recall for t, _ in runs], [t.precision for t, _ in runs], [s.f1 for _, s in runs])
    defined = [[value for value in values if value is not None] for values in columns]
    shown = " / ".join(f"{100 * fmean(values):.0f}" if values else "undefined" for values in defined)
    refused = len(counts) - len(runs)
    return f"{shown} ({refused} refused)" if refused else shown


@as_script
def main() -> None:
    """Print a Markdown table, a row for each system, a column for each number of notes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default="8,16,32")
    parser.add_argument("--seeds", default="13,14,15")
    options = parser.parse_args()
    notes, test = (read_corpus(options.folder / f"{part}.jsonl", gold=True).documents for part in ("train", "test"))
    sizes, seeds = ([int(value) for value in values.split(",")] for values in (options.sizes, options.seeds))
    print("| | " + " | ".join(f"{size} notes" for size in sizes) + " |\n| --- |" + " ---: |" * len(sizes), flush=True)
    patterns = f'regex.patterns="{options.folder / "patterns.toml"}"'
    for name, (submodels, settings) in SYSTEMS.items():
        configs = [
            load_config("small", overrides=[patterns, *settings], submodels=submodels.split(","), jobs=1, seed=seed)
            for seed in seeds
        ]
        cells = [cell([measured(sampled(notes, n, c.seed), test, c) for c in configs]) for n in sizes]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
