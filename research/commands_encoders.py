"""`compare-encoders`: the experiment of Ahmed et al. 2021 on any corpus."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command, add_config, add_shared
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import progress_bar, say, warn
from ensemble_deid.config import load_config
from ensemble_deid.deidentify.outputs import refuse_output
from ensemble_deid.errors import ConfigError
from research.commands_parts import check_resamples


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    encoders = add_command(
        commands,
        "compare-encoders",
        run_compare_encoders,
        example="demo:train --dev demo:dev --out encoders",
    )
    encoders.add_argument("train", metavar="CORPUS", help="annotated notes to train on")
    encoders.add_argument("--dev", metavar="DEV", required=True, help="annotated notes to score, not to choose by")
    encoders.add_argument("--out", metavar="DIR", type=Path, required=True, help="for the runs and the tables")
    encoders.add_argument("--systems", metavar="LIST", help="networks, comma-separated; default: all")
    encoders.add_argument("--seeds", metavar="LIST", default="13,14,15", help="default: 13,14,15")
    add_config(encoders, default="ahmed2021")
    encoders.add_argument("--resamples", metavar="N", type=int, default=10_000, help="0 for no intervals")
    add_shared(encoders, "jobs", "device", "allow-overlap", "quiet", jobs=1)


def run_compare_encoders(options: argparse.Namespace) -> int:
    """Train networks of other parts, several seeds, and score."""
    from ensemble_deid.model.seen_notes import SeenNotes
    from ensemble_deid.training.training_notes import training_notes
    from research.encoder_report import encoder_results
    from research.encoder_runs import SYSTEMS, Plan, run_encoders
    from research.encoder_tables import encoder_tables

    config = load_config(options.config, overrides=options.overrides, jobs=options.jobs, device=options.device)
    systems = tuple(options.systems.split(",")) if options.systems else tuple(SYSTEMS)
    plan = Plan(options.out, config, systems, _seeds(options.seeds))
    check_resamples(options)
    refuse_output(options.out, options.train, options.dev)
    train, dev = read_gold(options.train), read_gold(options.dev)
    notes = training_notes(train.documents)
    if not options.allow_overlap:
        SeenNotes.of(notes, seed=config.seed).refuse(dev.documents, used_for="for dev")
    unseen = sorted(set(dev.labels) - set(train.labels))
    if unseen:
        warn(f"{options.dev}: labels that training never shows, and so cannot be found: {', '.join(unseen)}")
    with progress_bar(quiet=options.quiet) as show:
        answers = run_encoders(notes, dev.documents, plan, report=show)
    tables = encoder_tables(notes, dev.documents, answers, seeds=plan.seeds, resamples=options.resamples)
    published = encoder_results(tables)
    published.write_all(options.out, "tables")
    say(published.render(".txt"))
    return 0


def _seeds(text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--seeds {text}: expected whole numbers, separated by commas") from None
    if min(seeds) < 0:
        raise ConfigError(f"--seeds {text}: a seed is 0 or more")
    return seeds
