"""`train` and `ablate`."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.output import refuse_output_files, refuse_output_model
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import counted, percent, progress_bar, say, warn
from ensemble_deid.config import load_config
from ensemble_deid.submodels import NAMES

if TYPE_CHECKING:
    from ensemble_deid.experiments.ablate import AblationRow

_HELP_CORPUS = "a folder or file (i2b2 or MEDDOCAN XML, brat, JSONL), or demo, demo:train, demo:dev, demo:test"


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    train = commands.add_parser("train", help="train the full stack")
    train.add_argument("train", metavar="TRAIN", help=_HELP_CORPUS)
    train.add_argument("--dev", metavar="DEV", help="notes to choose the network's epoch by, and to score")
    train.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the model to")
    train.add_argument("--config", metavar="FILE.toml", type=Path)
    train.add_argument("--set", metavar="section.key=value", action="append", default=[], dest="overrides")
    train.add_argument("--submodels", metavar="LIST", help=f"comma-separated: {','.join(NAMES)}")
    train.add_argument("--folds", type=int)
    train.add_argument("--jobs", type=int)
    train.add_argument("--device", choices=("auto", "cpu", "cuda"))
    train.add_argument("--seed", type=int)
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.set_defaults(run=run_train)

    ablate = commands.add_parser("ablate", help="switch every submodel off in turn, without training submodels again")
    ablate.add_argument("model", metavar="MODEL", type=Path)
    ablate.add_argument("dev", metavar="DEV", help=_HELP_CORPUS)
    ablate.add_argument("--out", metavar="REPORT", type=Path, required=True, help=".json or .md")
    ablate.add_argument("--jobs", type=int, default=2)
    ablate.add_argument("--quiet", action="store_true", help="no progress bar")
    ablate.set_defaults(run=run_ablate)


def run_train(options: argparse.Namespace) -> int:
    """Train, save, and print the dev figures."""
    from ensemble_deid.experiments.train import train
    from ensemble_deid.pipeline.directory import refuse_foreign_folder, save_model
    from ensemble_deid.text.tags import TagLoss

    config = load_config(
        options.config,
        overrides=options.overrides,
        submodels=None if options.submodels is None else [name.strip() for name in options.submodels.split(",")],
        folds=options.folds,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
    )
    refuse_foreign_folder(options.out)
    named = (config.regex.patterns, config.tbed.templates, config.transformer.encoder)
    refuse_output_model(options.out, options.train, options.dev, options.config, *map(Path, named))
    corpus = read_gold(options.train)
    dev = read_gold(options.dev) if options.dev else None
    if dev:
        unseen = sorted(set(dev.labels) - set(corpus.labels))
        if unseen:
            warn(f"{options.dev}: labels that training never shows, and so cannot be found: {', '.join(unseen)}")
    with progress_bar(quiet=options.quiet) as show:
        trained = train(corpus.documents, dev.documents if dev else (), config=config, report=show)
        save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, options.out)
    if trained.dev_counts:
        say("strict entity figures on dev   precision  recall      F1")
        for name, counts in trained.dev_counts.items():
            say(f"  {name:<28} {percent(counts.precision):>9} {percent(counts.recall):>7} {percent(counts.f1):>7}")
    figures = trained.manifest.training
    say(f"tokenization: {TagLoss(figures['spans'], figures['spans_cut'], figures['spans_lost'])}")
    say(f"trained on {counted(figures['notes'], 'note')}; the model is in {options.out}")
    return 0


def run_ablate(options: argparse.Namespace) -> int:
    """Run the ablations, write the report, print it."""
    from ensemble_deid.experiments.ablate import ablate

    refuse_output_files([options.out], options.model, options.dev)
    corpus = read_gold(options.dev)
    with progress_bar(quiet=options.quiet) as show:
        rows = ablate(options.model, corpus.documents, jobs=options.jobs, report=show)
    table = _ablation_table(rows)
    as_json = json.dumps([_ablation_json(row) for row in rows], indent=1) + "\n"
    write_text_atomically(options.out, as_json if options.out.suffix == ".json" else table)
    say(table)
    return 0


def _ablation_table(rows: "list[AblationRow]") -> str:
    lines = ["| system | P | R | F1 | change | paired 95% interval |", "|---|---|---|---|---|---|"]
    for row in rows:
        change = interval = ""
        if row.difference is not None and row.difference.difference is not None:
            change = f"{100 * row.difference.difference:+.2f}"
            low, high = row.difference.interval.low, row.difference.interval.high
            interval = "undefined" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
        figures = " | ".join(percent(v) for v in (row.counts.precision, row.counts.recall, row.counts.f1))
        lines.append(f"| {row.name} | {figures} | {change} | {interval} |")
    return "\n".join(lines) + "\n"


def _ablation_json(row: "AblationRow") -> dict[str, Any]:
    content: dict[str, Any] = {
        "system": row.name,
        "precision": row.counts.precision,
        "recall": row.counts.recall,
        "f1": row.counts.f1,
        "tp": row.counts.tp,
        "fp": row.counts.fp,
        "fn": row.counts.fn,
    }
    if row.difference is not None:
        content["f1_difference_to_ensemble"] = row.difference.difference
        content["interval_95"] = [row.difference.interval.low, row.difference.interval.high]
        content["p_value"] = row.difference.p_value
    return content
