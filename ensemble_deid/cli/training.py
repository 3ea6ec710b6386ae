"""`train` and `ablate`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.output import refuse_output_files, refuse_output_model
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import counted, percent, progress_bar, say, warn
from ensemble_deid.config import load_config
from ensemble_deid.errors import ConfigError
from ensemble_deid.submodels import NAMES

if TYPE_CHECKING:
    from ensemble_deid.experiments.ablate import ThresholdTarget

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
    train.add_argument("--group-by", choices=("auto", "patient", "site"), help="what folds keep together")
    train.add_argument("--jobs", type=int)
    train.add_argument("--device", choices=("auto", "cpu", "cuda"))
    train.add_argument("--seed", type=int)
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.set_defaults(run=run_train)

    ablate = commands.add_parser("ablate", help="leave each submodel out in turn")
    ablate.add_argument("model", metavar="MODEL", type=Path)
    ablate.add_argument("dev", metavar="DEV", help=_HELP_CORPUS)
    ablate.add_argument(
        "--retrain",
        metavar="TRAIN",
        help="also train the other submodels again without the patterns as features; TRAIN: the model's training notes",
    )
    ablate.add_argument(
        "--retrain-dev", metavar="DEV", help="the dev notes that the model was trained with, if not those scored"
    )
    ablate.add_argument(
        "--threshold-rule",
        metavar="RULE",
        help="choose every threshold on DEV: sensitivity=S or precision=P (default: by cross-validation in training)",
    )
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
        group_by=options.group_by,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
    )
    refuse_foreign_folder(options.out)
    named = (config.regex.patterns, config.text.knowledge, config.tbed.templates, config.transformer.encoder)
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
    from ensemble_deid.cli.ablation_report import ablation_json, ablation_table
    from ensemble_deid.experiments.ablate import ablate
    from ensemble_deid.experiments.retrain import TrainingNotes

    if options.retrain_dev and not options.retrain:
        raise ConfigError("--retrain-dev goes with --retrain")
    rule = _threshold_rule(options.threshold_rule)
    refuse_output_files([options.out], options.model, options.dev, options.retrain, options.retrain_dev)
    corpus = read_gold(options.dev)
    notes = None
    if options.retrain:
        stop_by = read_gold(options.retrain_dev) if options.retrain_dev else corpus
        notes = TrainingNotes(read_gold(options.retrain).documents, stop_by.documents)
    with progress_bar(quiet=options.quiet) as show:
        rows = ablate(
            options.model, corpus.documents, jobs=options.jobs, report=show, threshold_rule=rule, retrain=notes
        )
    table = ablation_table(rows, rule)
    write_text_atomically(options.out, ablation_json(rows, rule) if options.out.suffix == ".json" else table)
    say(table)
    return 0


def _threshold_rule(text: str | None) -> "ThresholdTarget | None":
    """Read `sensitivity=0.99` or `precision=0.9`. Raises ConfigError."""
    from ensemble_deid.evaluation.operating_points import ThresholdRule
    from ensemble_deid.experiments.ablate import ThresholdTarget

    if text is None:
        return None
    name, _, value = text.partition("=")
    try:
        wanted = float(value)
    except ValueError:
        wanted = 0.0
    for rule in get_args(ThresholdRule):
        if name == rule and 0 < wanted <= 1:
            return ThresholdTarget(rule, wanted)
    raise ConfigError(f"--threshold-rule {text}: expected sensitivity=S or precision=P, above 0 and at most 1")
