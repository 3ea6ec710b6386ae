"""The value of a rule list in a trained stack: its own list, other lists, and no rules.

    python research/rules_in_stack.py MODEL DEV [FILE.rules ...]

Submodels and final estimator stay as trained, spans are not completed, and each row uses the threshold for at most five
false positives in 1000 tokens on the same notes. Differences from the model's own list have 95% intervals that resample
sites, or patients if there are fewer than ten sites.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.bootstrap import paired_difference
from ensemble_deid.evaluation.curve import keep_above, trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.render.figures import difference_cells
from ensemble_deid.evaluation.views import count_view, resampled_units
from ensemble_deid.model.ensemble import as_seen
from ensemble_deid.model.installed import model_of
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.training.rules import RuleModel

RATE = 5.0


def answers(model: RuleModel, dev: Sequence[Document], lists: Mapping[str, RuleList]) -> Iterator[list[Document]]:
    """Yield the stack's scored answer with each list."""
    ensemble = model.ensemble
    batch = ensemble.feature_extractor.extract(dev)
    proposals = ensemble.propose(batch)
    for name, rules in lists.items():
        by_rules = model.with_rules(rules, name=name).tagger.propose(batch, n_best=ensemble.config.stack.n_best)
        spans = ensemble.stacker.predict({**proposals, "tbed": by_rules}, batch, threshold=0.0)
        yield [note.with_spans(found) for note, found in zip(dev, spans, strict=True)]


def rows(dev: Sequence[Document], found: Sequence[Sequence[Document]]) -> Iterator[str]:
    """Yield token recall, strict F1, and their differences to the first answer."""
    kept = []
    for answer in found:
        point = find_point(trace_curve(dev, answer), rule="false-positives", wanted=RATE)
        kept.append(answer if point is None else keep_above(answer, point.threshold))
    for answer in kept:
        cells = []
        for view, measure in (("token-binary", "recall"), ("strict", "f1")):
            own, first = (count_view(dev, each, view) for each in (answer, kept[0]))
            counts = own.per_document, first.per_document
            value = own.total.recall if measure == "recall" else own.total.f1
            units = resampled_units(dev, own)
            change = paired_difference(*counts, units, measure="recall" if measure == "recall" else "f1")
            cells.append(f"{percent(value, sign='')} | {' ['.join(difference_cells(change)[:2])}]")
        yield " | ".join(cells)


@as_script
def main() -> None:
    """Print a row for each list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("dev")
    parser.add_argument("lists", nargs="*", type=Path)
    options = parser.parse_args()
    model = RuleModel.load(model_of(options.model) or Path(options.model))
    dev = [as_seen(note) for note in read_corpus(options.dev, gold=True).documents]
    lists = {"as trained": model.rules, **{str(path): RuleList.load(path) for path in options.lists}}
    lists["no rule"] = model.rules.with_rules([])
    print("| list | rules | token recall | change | strict F1 | change |\n| --- | --: | --: | --: | --: | --: |")
    for (name, rules), row in zip(lists.items(), rows(dev, list(answers(model, dev, lists))), strict=True):
        print(f"| {name} | {len(rules)} | {row} |")


if __name__ == "__main__":
    sys.exit(main())
