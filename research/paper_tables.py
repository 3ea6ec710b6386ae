"""The papers' tables on a few sites of the demo corpus: docs/researcher.md's commands, at a laptop's size.

    python research/paper_tables.py OUT [--only zhao,ahmed,customize,cross,by-type,vectors] [--list]

Sites are drawn by the seed from demo:train; models are scored on demo:dev, or on sites of demo:train that they were not
trained on, and never on demo:test. Each step is one command, whose output is kept as OUT/STEP.txt; a broken run goes on
at the first step without one, and the commands themselves continue what they have begun. `--list` prints the commands.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.training.training_notes import sample_sites

SEED = 13
SITES = {"zhao": 10, "ahmed": 30, "customize": 8, "groups": 12}
"""How many sites of demo:train each paper's commands learn from.

On four, Ahmed et al.'s networks learn nothing; on thirty, Zhao et al.'s stack takes two hours of a processor.
"""
NEW_SITE = "S02"
"""The site that `customize` takes as new: six patients, and more PHI than other small sites."""

_ZHAO = ("--config", "zhao2020", "--submodels", "regex,tbed,crf,neural", "--set", "folds=3")
# The CRF cannot start from a trained model: "A then B" needs other submodels.
_BUDGETS = ("--budget", "0,20,40,80,160", "--ways", "only-b,a-mix-b")
_SMALL = ("--folds", "2", "--submodels", "regex,crf", "--set", "crf.max_iterations=40")
# With the paper's rate and epochs an encoder has hardly begun to learn when twenty notes end.
_ENCODER = ("--config", "johnson2020", "--set", "transformer.learning_rate=2e-4", "--set", "transformer.epochs=10")
# Run by `python -m research`.
_RESEARCH = ("combiners", "compare-encoders", "cross-corpus", "customize", "disagreements", "embeddings")
_TYPES = ("NAME", "LOCATION", "DATE", "ID", "CONTACT", "AGE", "PROFESSION")


def prepare(out: Path) -> None:
    """Write the notes of the drawn sites as corpora."""
    notes = read_corpus("demo:train").documents
    others = [note for note in notes if note.site != NEW_SITE]
    parts = {
        "zhao": sample_sites(notes, SITES["zhao"], seed=SEED),
        "ahmed": sample_sites(notes, SITES["ahmed"], seed=SEED),
        "elsewhere": sample_sites(others, SITES["customize"], seed=SEED),
        "new-site": [note for note in notes if note.site == NEW_SITE],
    }
    small = sample_sites([note for note in notes if note.site not in ("E01", "E02")], SITES["groups"], seed=SEED)
    sites = sorted({str(note.site) for note in small})
    for k, name in enumerate(("group-a", "group-b", "group-c")):
        parts[name] = [note for note in small if note.site in sites[k::3]]
    trained_on = {note.id for note in parts["zhao"]}
    parts["unlabelled"] = [note.with_spans(()) for note in notes if note.id not in trained_on]
    for name, documents in parts.items():
        if not (out / f"{name}.jsonl").exists():
            write_corpus(documents, out / f"{name}.jsonl", "jsonl")


def steps(out: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the command of each step, in their order."""
    groups = [f"{out / name}.jsonl" for name in ("group-a", "group-b", "group-c")]
    zhao, dev = f"{out / 'zhao.jsonl'}", "demo:dev"
    yield "zhao-table2", ["corpus", "stats", "demo:train", dev, "--out", f"{out / 'table2.csv'}"]
    yield "cross-names", ["cross-corpus", *groups, "--label-map", "NAME", *_SMALL, "--out", f"{out / 'names'}"]
    yield (
        "cross-categories",
        ["cross-corpus", *groups, "--label-map", "category", *_SMALL, "--out", f"{out / 'categories'}"],
    )
    encoder = [*_ENCODER, "--folds", "2", "--out", f"{out / 'encoder-names'}"]
    yield "cross-encoder", ["cross-corpus", *groups, "--label-map", "NAME", *encoder]
    a, b = f"{out / 'elsewhere.jsonl'}", f"{out / 'new-site.jsonl'}"
    yield "customize", ["customize", a, b, *_BUDGETS, *_SMALL, "--out", f"{out / 'customize'}"]
    ours = ["--submodels", "regex,tbed,crf,neural", "--set", "folds=3"]
    model = f"{out / 'published'}"
    yield "zhao-train", ["train", zhao, "--dev", dev, *_ZHAO, "--out", model]
    yield (
        "zhao-tables4to6",
        ["research", "ablate", model, dev, "--rows", "zhao2020", "--out", f"{out / 'tables4to6.md'}"],
    )
    yield (
        "zhao-table7",
        ["disagreements", dev, model, "--submodels", "tbed,crf,neural", "--rescued-by", "tbed"],
    )
    yield "zhao-ours", ["train", zhao, "--dev", dev, *ours, "--out", f"{out / 'ours'}"]
    yield "zhao-against-ours", ["research", "compare", dev, model, f"{out / 'ours'}"]
    types = "by_type=[" + ",".join(f'"{name}"' for name in _TYPES) + "]"
    yield "by-type-train", ["train", zhao, "--dev", dev, *_SMALL, "--set", types, "--out", f"{out / 'by-type'}"]
    yield "by-type-one", ["train", zhao, "--dev", dev, *_SMALL, "--out", f"{out / 'one-for-all'}"]
    yield "by-type-against-one", ["research", "compare", dev, f"{out / 'by-type'}", f"{out / 'one-for-all'}"]
    vectors, network = (
        f"{out / 'vectors.txt'}",
        ["train", zhao, "--dev", dev, "--config", "hartman2020", "--folds", "2"],
    )
    yield "vectors-learn", ["embeddings", f"{out / 'unlabelled.jsonl'}", "--out", vectors]
    with_vectors = ["--set", f"neural.word_vectors={vectors}", "--out", f"{out / 'vectors'}"]
    yield "vectors-with", [*network, *with_vectors]
    yield "vectors-without", [*network, "--out", f"{out / 'no-vectors'}"]
    yield "vectors-against-none", ["research", "compare", dev, f"{out / 'vectors'}", f"{out / 'no-vectors'}"]
    seed = ["--seeds", str(SEED)]
    yield "ahmed", ["compare-encoders", f"{out / 'ahmed.jsonl'}", "--dev", dev, *seed, "--out", f"{out / 'encoders'}"]


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps that have no output yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--only", metavar="LIST", help="beginnings of steps' names, comma-separated")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    options = parser.parse_args(arguments)
    wanted = tuple(options.only.split(",")) if options.only else ("",)
    chosen = [(name, command) for name, command in steps(options.out) if name.startswith(wanted)]
    if options.list:
        sys.stdout.writelines(f"{name}: ensemble-deid {shlex.join(command)}\n" for name, command in chosen)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    prepare(options.out)
    for name, command in chosen:
        printed = options.out / f"{name}.txt"
        if printed.exists():
            continue
        sys.stderr.write(f"{name}: ensemble-deid {shlex.join(command)}\n")
        quiet = [] if {"disagreements", "compare", "embeddings", "corpus"}.intersection(command[:2]) else ["--quiet"]
        module = "research" if command[0] in _RESEARCH else "ensemble_deid"
        done = subprocess.run([sys.executable, "-m", module, *command, *quiet], capture_output=True, text=True)
        if done.returncode:
            sys.stderr.write(f"{done.stderr}{name}: exit status {done.returncode}\n")
            return done.returncode
        write_text_atomically(printed, done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
