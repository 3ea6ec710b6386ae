"""Iterative fine-tuning: the notes with most errors are added to the training notes, and the model goes on from itself.

    python research/finetuning_rounds.py demo:train demo:dev --train-sites 15 --pool-sites 20 --out RUN
        [--rounds 3] [--worst 20] [--resume]

After Murugadoss et al. 2021 (supplementary methods): a first model is trained on the notes of some sites; those of
other sites are the pool. In each round the model before annotates the pool, the `--worst` notes with most errors are
added to those of the rounds before (with their gold annotations, as if people had corrected them), and the first model
learns from all of them, further than it was. It is the first one that goes on, since a model that has seen some of the
notes would make its final estimator believe that it errs less than it does. The same number of notes drawn at random
from the pool is the control: what the choice brings, and what any further notes would. DEV is only scored.

RUN holds `run.json` (settings, versions, fingerprints of the notes), `log.txt`, and for each round and arm the model
and `notes.json` with the ids of the notes learned from. A run that was broken off goes on with --resume.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import CorpusError
from ensemble_deid.evaluation.bootstrap import paired_difference
from ensemble_deid.evaluation.error_list import worst_notes
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model.manifest import fingerprint
from ensemble_deid.note.document import Document
from ensemble_deid.seeds import generator
from ensemble_deid.training.run_folder import RunFolder, read_part, write_json
from ensemble_deid.training.train import train
from ensemble_deid.training.training_notes import sample_sites

FIRST, WORST, RANDOM = "first", "worst", "random"
Notes = Sequence[Document]


def begin(run: RunFolder, notes: Notes, config: Config) -> Path:
    """Train the first model, unless it is there already, and return its folder."""
    place = run.path / FIRST / "model"
    if not place.is_dir():
        train(notes, config=config).save(place)
        run.log("first model: trained")
    return place


def choose(model: Path, left: Notes, size: int) -> list[str]:
    """Return the ids of the notes in which a model makes most errors."""
    answer = Deidentifier.load(model).predict(left)
    return [note.id for note in worst_notes(left, answer)[:size]]


def draw(left: Notes, size: int, *, seed: int, round_: int) -> list[str]:
    """Return the ids of as many notes, drawn at random."""
    order = generator(seed, f"round {round_}").permutation(len(left))
    return [left[k].id for k in order[:size].tolist()]


def go_on(
    run: RunFolder, arm: str, round_: int, before: Path, known: set[str], pool: Notes, *, size: int, config: Config
) -> tuple[Path, set[str]]:
    """Do one round of one arm, unless it is done, and return the model and the ids of all notes that it learned from.

    `known` has the ids of those that the model `before` learned from.
    """
    place = run.path / f"{arm}-{round_}"
    done = place / "notes.json"
    if done.is_file():
        return place / "model", set(read_part(done)["learned"])
    left = [note for note in pool if note.id not in known]
    new = choose(before, left, size) if arm == WORST else draw(left, size, seed=config.seed, round_=round_)
    if not new:
        raise CorpusError(f"round {round_}: no note of the pool has errors")
    wanted = {*known, *new}
    notes = [note for note in pool if note.id in wanted]
    train(notes, config=config, start_from=run.path / FIRST / "model").save(place / "model")
    write_json(done, {"new": new, "learned": sorted(wanted)})
    run.log(f"{arm}, round {round_}: trained on {len(notes)} notes of the pool")
    return place / "model", wanted


def row(name: str, answer: Notes, of_first: Notes, dev: Notes, n: int) -> str:
    """Return a line of the table: figures on DEV, and the difference of strict F1 to the first model."""
    own, first = (count_view(dev, found, "strict") for found in (answer, of_first))
    recall = count_view(dev, answer, "token-binary").total.recall
    difference = paired_difference(own.per_document, first.per_document, own.groups, resamples=2000)
    values = [own.total.precision, own.total.recall, own.total.f1, recall]
    cells = [f"{np.nan if value is None else 100 * value:.2f}" for value in values]
    change = "-"
    low, high = difference.interval.low, difference.interval.high
    if answer is not of_first and difference.difference is not None and low is not None and high is not None:
        change = f"{100 * difference.difference:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"
    return f"| {name} | {n} | {' | '.join(cells)} | {change} |"


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description="Rounds of learning from the notes with most errors.")
    parser.add_argument("corpus", metavar="CORPUS")
    parser.add_argument("dev", metavar="DEV")
    parser.add_argument("--train-sites", metavar="N", type=int, required=True)
    parser.add_argument("--pool-sites", metavar="N", type=int, required=True)
    parser.add_argument("--out", metavar="RUN", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--arms", default=f"{WORST},{RANDOM}")
    parser.add_argument("--config", metavar="NAME_OR_FILE")
    parser.add_argument("--set", metavar="section.key=value", action="append", default=[], dest="overrides")
    parser.add_argument("--submodels", metavar="LIST")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args(arguments)
    return run_rounds(options)


def run_rounds(options: argparse.Namespace) -> int:
    """Do what `main` parsed."""
    names = None if options.submodels is None else options.submodels.split(",")
    config = load_config(options.config, overrides=options.overrides, submodels=names, jobs=options.jobs)
    corpora = read_parts(options, seed=config.seed)
    settings = {
        "config": config.model_dump(mode="json", exclude={"jobs"}),
        "worst": options.worst,
        "notes": {name: fingerprint(notes) for name, notes in corpora.items()},
    }
    run = RunFolder.begin(options.out, settings, resume=options.resume)
    dev, pool = corpora["dev"], corpora["pool"]
    first = begin(run, corpora["train"], config)
    of_first = Deidentifier.load(first).predict(dev)
    lines = [row("first model", of_first, of_first, dev, 0)]
    for arm in options.arms.split(","):
        model, learned = first, set[str]()
        for round_ in range(1, options.rounds + 1):
            model, learned = go_on(
                run, arm, round_, before=model, known=learned, pool=pool, size=options.worst, config=config
            )
            answer = Deidentifier.load(model).predict(dev)
            lines.append(row(f"{arm}, round {round_}", answer, of_first, dev, len(learned)))
    sys.stdout.write("| model | notes of the pool | P | R | F1 | token recall | F1 minus first (95%) |\n")
    sys.stdout.write("| --- | --: | --: | --: | --: | --: | --: |\n" + "\n".join(lines) + "\n")
    return 0


def read_parts(options: argparse.Namespace, *, seed: int) -> dict[str, tuple[Document, ...]]:
    """Return the notes of the sites to train on, of the pool's other sites, and those to score.

    Raises CorpusError where two of them share patients: what is learned must not be scored.
    """
    documents = read_corpus(options.corpus).documents
    train_notes = sample_sites(documents, options.train_sites, seed=seed)
    sites = {note.site for note in train_notes}
    both = sample_sites(documents, options.train_sites + options.pool_sites, seed=seed)
    corpora = {
        "train": train_notes,
        "pool": tuple(note for note in both if note.site not in sites),
        "dev": tuple(read_corpus(options.dev).documents),
    }
    for one, other in (("train", "pool"), ("train", "dev"), ("pool", "dev")):
        if {note.group for note in corpora[one]} & {note.group for note in corpora[other]}:
            raise CorpusError(f"{one} and {other} share patients")
    return corpora


if __name__ == "__main__":
    sys.exit(main())
