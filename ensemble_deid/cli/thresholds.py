"""`threshold`: choose the threshold of a model's final estimator, and keep it in the model."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import percent, say
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.digits import four_digits


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    threshold = commands.add_parser(
        "threshold",
        help="choose a model's threshold on dev notes or out of fold, or reset it",
        usage="ensemble-deid threshold (--sensitivity S | --precision P | --max-false-positives N | --reset) "
        "[--allow-overlap] MODEL [DEV]",
    )
    threshold.add_argument("model", metavar="MODEL", type=Path)
    dev = threshold.add_argument(
        "dev",
        metavar="DEV",
        help="annotated notes to choose it on; default: the training notes, out of fold",
    )
    # With nargs="?" options could not stand before it.
    dev.required = False
    wanted = threshold.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--sensitivity", "--min-recall", type=float, metavar="S", help="share of PHI tokens to find, such as 0.997"
    )
    wanted.add_argument("--precision", type=float, metavar="P", help="highest recall at this precision or more")
    wanted.add_argument(
        "--max-false-positives", type=float, metavar="N", help="highest recall at N wrong tokens in 1000 or fewer"
    )
    wanted.add_argument("--reset", action="store_true", help="restore the threshold that training chose")
    threshold.add_argument("--allow-overlap", action="store_true", help="accept training notes or their patients")
    threshold.set_defaults(run=run_threshold)


def run_threshold(options: argparse.Namespace) -> int:
    """Freeze a threshold into a model, or restore the one that training chose."""
    from ensemble_deid.evaluation.operating_points import ThresholdRule, check_target
    from ensemble_deid.training.thresholds import freeze_out_of_fold_threshold, freeze_threshold, reset_threshold

    if options.reset:
        if options.dev is not None:
            raise ConfigError("--reset takes no DEV: the threshold of training is recorded in the model")
        say(f"threshold {four_digits(reset_threshold(options.model))}, which training chose, is now in {options.model}")
        return 0
    targets: dict[ThresholdRule, float | None] = {
        "sensitivity": options.sensitivity,
        "precision": options.precision,
        "false-positives": options.max_false_positives,
    }
    rule, wanted = next((rule, wanted) for rule, wanted in targets.items() if wanted is not None)
    check_target(rule, wanted)
    if options.dev is None:
        if options.allow_overlap:
            raise ConfigError("--allow-overlap goes with DEV")
        chosen, stored = freeze_out_of_fold_threshold(options.model, rule=rule, wanted=wanted)
        notes = stored.notes
    else:
        dev = read_gold(options.dev).documents
        chosen = freeze_threshold(options.model, dev, rule=rule, wanted=wanted, allow_overlap=options.allow_overlap)
        notes = options.dev
    point = chosen.chosen_at
    # Neither is missing: where no threshold reaches the target, freezing refuses.
    if chosen.threshold is not None:
        say(f"threshold {four_digits(chosen.threshold)} is now in {options.model}")
    if point is not None:
        counts, rate = point.counts, point.fp_per_1000
        say(
            f"on {notes}: token recall {percent(counts.recall)}, precision {percent(counts.precision)}, "
            f"{'undefined' if rate is None else f'{rate:.2f}'} false positives in 1000 tokens"
        )
    return 0
