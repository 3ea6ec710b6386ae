"""`evaluate`: a system's annotations, or a model's, against gold."""

import argparse
import json
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.terminal import percent, say, warn
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.text.document import Document


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    evaluate = commands.add_parser("evaluate", help="score a system, or a model, against gold")
    evaluate.add_argument("gold", metavar="GOLD")
    evaluate.add_argument("system", metavar="SYSTEM", help="a corpus with the system's annotations, or a MODEL")
    evaluate.add_argument("--json", metavar="FILE", type=Path)
    evaluate.set_defaults(run=run_evaluate)


def run_evaluate(options: argparse.Namespace) -> int:
    """Print strict entity figures in total and per label."""
    from ensemble_deid.evaluation.entity import strict_counts

    gold = read_corpus(options.gold)
    system = system_documents(options.system, gold.documents)
    counts = strict_counts(gold.documents, system)
    say(f"{'label':<36} {'P':>9} {'R':>9} {'F1':>9} {'TP':>7} {'FP':>7} {'FN':>7}")
    rows = {"all (strict, micro)": counts.total, **counts.by_label}
    for name, row in rows.items():
        figures = " ".join(f"{percent(value):>9}" for value in (row.precision, row.recall, row.f1))
        say(f"{name:<36} {figures} {row.tp:>7} {row.fp:>7} {row.fn:>7}")
    if options.json:
        content = {name: {"tp": r.tp, "fp": r.fp, "fn": r.fn, "f1": r.f1} for name, r in rows.items()}
        write_text_atomically(options.json, json.dumps(content, indent=1) + "\n")
    return 0


def system_documents(system: str, gold: tuple[Document, ...]) -> tuple[Document, ...]:
    """Return the system's documents: read from a corpus, or predicted by a model on gold's texts."""
    if (Path(system) / "manifest.json").is_file():
        from ensemble_deid.pipeline.deidentifier import Deidentifier

        return tuple(Deidentifier.load(system).predict(gold))
    corpus = read_corpus(system)
    for warning in corpus.warnings:
        warn(warning)
    return corpus.documents
