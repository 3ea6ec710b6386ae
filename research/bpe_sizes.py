"""Do byte-pair pieces help one submodel? Trained with vocabularies of several sizes, each compared with none.

    python research/bpe_sizes.py demo:train demo:dev --out bpe-demo --sizes 0,1000,4000,16000
    python research/bpe_sizes.py demo:train demo:dev --out bpe-network --submodel neural --set neural.epochs=6

Zhao et al. 2020 cut tokens into pieces before all three learners, and do not say how many pieces there are. The answer
of each size is kept in the folder, so that a broken run goes on where it stopped. The dev notes choose nothing.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.atomic import remove_stale
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import DeidError
from ensemble_deid.evaluation.bootstrap import bootstrap_interval, paired_difference
from ensemble_deid.evaluation.render.results import Table
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.features.batch import training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.model.manifest import fingerprint, installed_packages
from ensemble_deid.model.submodels import submodel_class
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.training.training_notes import in_fold_groups, sample_sites
from research.stored_answers import ScoredAnswer, stored_answer

COLUMNS = ("pieces", "tokens a word", "P", "R", "F1", "95% interval", "change", "paired 95% interval", "p")


def answer(name: str, train: Sequence[Document], dev: Sequence[Document], *, config: Config) -> ScoredAnswer:
    """Train the submodel alone and let it annotate the dev notes."""
    begun = time.process_time()
    documents = in_fold_groups(train, config=config)
    scheme = TagScheme.from_labels({span.label for note in train for span in note.spans})
    plain, extractor = fit_feature_extractor(documents, scheme.labels, config=config)
    batch = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    section = config.of_submodel(name)
    tagger = submodel_class(name).fit(batch, None, FitOptions(scheme, section, seed=config.seed, device=config.device))
    found = tagger.propose(extractor.extract(dev), n_best=1).best
    sys.stderr.write(f"{config.text.bpe_vocabulary} pieces: {time.process_time() - begun:.0f} s\n")
    return ScoredAnswer(tuple(note.with_spans(spans) for note, spans in zip(dev, found, strict=True)), 0.0)


def tokens_a_word(dev: Sequence[Document], train: Sequence[Document], size: int) -> float:
    """Return into how many tokens a token of the dev notes is cut on average."""
    from ensemble_deid.note.bpe import Bpe
    from ensemble_deid.note.tokens import tokenize

    tokens = tokenize(dev)
    if not size:
        return 1.0
    bpe = Bpe.learn(train, tokenize(train), vocabulary=size)
    return len(bpe.refine(dev, tokens)) / len(tokens)


def run(train: Sequence[Document], dev: Sequence[Document], options: argparse.Namespace) -> Table:
    """Train what is not stored yet and return the table; every size is compared with the first one."""
    sizes = [int(size) for size in options.sizes.split(",")]
    remove_stale(options.out)
    notes = {"training notes": fingerprint(train), "scored notes": fingerprint(dev)}
    rows, first = [], None
    for size in sizes:
        config = load_config(options.config, overrides=[*options.overrides, f"text.bpe_vocabulary={size}"])
        settings = {name: config.model_dump(mode="json")[name] for name in ("text", "regex", options.submodel)}
        origin = {"settings": {**settings, "seed": config.seed}, "packages": installed_packages(), **notes}
        make = partial(answer, options.submodel, train, dev, config=config)
        found = stored_answer(options.out / f"{options.submodel}-{size}.json", origin, dev, make).scored
        table = count_view(dev, found, "strict")
        first = first or table
        own, counts = bootstrap_interval(table.per_document, table.groups), table.total
        change = paired_difference(table.per_document, first.per_document, table.groups)
        cells = [percent(value, sign="") for value in (counts.precision, counts.recall, counts.f1)]
        row = [f"{size:,}", f"{tokens_a_word(dev, train, size):.2f}", *cells, _ends(own.low, own.high)]
        if table is first or change.difference is None:
            row += ["", "", ""]
        else:
            ends = _ends(change.interval.low, change.interval.high, sign="+")
            row += [f"{100 * change.difference:+.2f}", ends, f"{change.p_value:.4f}"]
        rows.append(tuple(row))
    caption = f"{options.submodel}, {options.train} ({len(train)} notes) on {options.dev}: strict entity F1 in per cent"
    return Table(caption, COLUMNS, tuple(rows))


def _ends(low: float | None, high: float | None, sign: str = "") -> str:
    return "undefined" if low is None or high is None else f"{100 * low:{sign}.2f} to {100 * high:{sign}.2f}"


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--out", type=Path, required=True, help="folder of the answers")
    parser.add_argument("--sizes", default="0,1000,4000,16000")
    parser.add_argument("--submodel", default="crf", choices=("tbed", "crf", "neural"))
    parser.add_argument("--sites", type=int, help="train on the notes of so many sites, drawn by the seed")
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args(arguments)
    try:
        train, dev = read_corpus(options.train).documents, read_corpus(options.dev).documents
        if options.sites is not None:
            seed = load_config(options.config, overrides=options.overrides).seed
            train = sample_sites(train, options.sites, seed=seed)
        options.out.mkdir(parents=True, exist_ok=True)
        table = run(train, dev, options)
    except (DeidError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(table.to_markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
