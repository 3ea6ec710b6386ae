"""`research`: cross-validation, search and ablation; models of other projects."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import (
    CORPUS,
    CommandParser,
    add_command,
    add_config,
    add_files,
    add_group,
    add_member,
    add_model,
    add_shared,
    add_target,
    check_forms,
    members_of,
    submodels_of,
    target_of,
)
from ensemble_deid.cli.sources import publish, read_gold
from ensemble_deid.cli.terminal import progress_bar, say
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import locate_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.render.results import FILE_FORMS


def add_commands(commands: Any) -> None:
    """Add these commands to the parser of `research`."""
    _add_crossval(commands)
    _add_tune(commands)
    _add_ablate(commands)
    _add_download(commands)


def _add_crossval(commands: Any) -> None:
    crossval = add_command(
        commands,
        "crossval",
        "cross-validate the whole stack, by patient or site",
        example="research crossval demo:train --folds 5 --config small --out run",
    )
    crossval.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    crossval.add_argument("--folds", metavar="N", type=int, default=10, help="default: 10; of the stack: --set folds=N")
    crossval.add_argument("--max-memory", metavar="GIB", type=float, help="run as many folds together as fit")
    _add_run(crossval)
    crossval.set_defaults(run=run_crossval)


def _add_tune(commands: Any) -> None:
    tune = add_command(
        commands,
        "tune",
        "search settings on dev notes within a budget of time",
        example="research tune my/train --dev my/dev --set-range crf.c2=0.1..1 --minutes 60 --out run",
    )
    tune.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    tune.add_argument("--dev", metavar="DEV", required=True, help="notes to choose the settings by")
    tune.add_argument(
        "--set-range",
        metavar="RANGE",
        action="append",
        required=True,
        dest="ranges",
        help="KEY=low..high, KEY=low..high:log or KEY=a|b|c; repeatable",
    )
    tune.add_argument("--minutes", metavar="M", type=float, required=True, help="start no trial that would end later")
    tune.add_argument("--trials", metavar="N", type=int, help="no more than N trials")
    add_shared(tune, "allow-overlap")
    _add_run(tune)
    tune.set_defaults(run=run_tune)


def _add_run(parser: CommandParser) -> None:
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the run folder")
    add_shared(parser, "resume")
    add_config(parser)
    add_shared(parser, "submodels", "group-by", "jobs", "device", "seed", "quiet")


def _add_ablate(commands: Any) -> None:
    ablate = add_command(
        commands,
        "ablate",
        "leave each submodel out in turn",
        example="research ablate model my/dev --out ablation.md",
    )
    add_model(ablate)
    ablate.add_argument("dev", metavar="DEV", help=CORPUS)
    add_files(ablate, FILE_FORMS)
    ablate.add_argument("--retrain", metavar="TRAIN", help="also train the others again without the patterns' features")
    ablate.add_argument("--retrain-dev", metavar="DEV", help="the dev notes of training, if not those scored")
    add_target(ablate.add_mutually_exclusive_group())
    ablate.add_argument(
        "--rows",
        choices=("all", "zhao2020", "as-trained"),
        default="all",
        help="zhao2020: that paper's tables 4 to 6; as-trained: fit nothing, for an exported model",
    )
    add_member(ablate)
    add_shared(ablate, "jobs", "quiet", jobs=2)
    ablate.set_defaults(run=run_ablate)


def _add_download(commands: Any) -> None:
    download = add_group(commands, "download", "fetch models of other projects, for features")
    stanza = add_command(
        download, "stanza", "parts of speech and entities (text.stanza)", example="research download stanza en"
    )
    stanza.add_argument("name", metavar="LANGUAGE", help="en, es ..., or language/package")
    stanza.set_defaults(run=run_download_stanza)


def _configure(options: argparse.Namespace, more: Sequence[str] = ()) -> Config:
    """Return the configuration that the options describe; `more` are overrides that come last."""
    return load_config(
        options.config,
        overrides=[*options.overrides, *more],
        submodels=submodels_of(options),
        group_by=options.group_by,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
    )


def run_crossval(options: argparse.Namespace) -> int:
    """Cross-validate, write the run folder, print the figures."""
    from ensemble_deid.training.crossval import crossval
    from ensemble_deid.training.reports import crossval_results

    if options.max_memory is not None and options.max_memory <= 0:
        raise ConfigError("--max-memory: must be above 0")
    config = _configure(options)
    refuse_output(options.out, locate_corpus(options.corpus))
    corpus = read_gold(options.corpus)
    with progress_bar(quiet=options.quiet) as show:
        result = crossval(
            corpus.documents,
            options.out,
            config=config,
            folds=options.folds,
            max_memory=options.max_memory,
            resume=options.resume,
            report=show,
        )
    published = crossval_results(result)
    published.write_all(options.out, "figures")
    say(published.render(".txt"))
    say(f"the out-of-fold predictions (with the notes' text) and all figures are in {options.out}")
    return 0


def run_tune(options: argparse.Namespace) -> int:
    """Search, write the run folder, print the trials, the best first."""
    from ensemble_deid.training.reports import tune_results
    from ensemble_deid.training.tune import parse_range, tune

    if options.minutes <= 0:
        raise ConfigError("--minutes: must be above 0")
    if options.trials is not None and options.trials < 1:
        raise ConfigError("--trials: at least 1")
    ranges = [parse_range(text) for text in options.ranges]
    refuse_output(options.out, locate_corpus(options.corpus), locate_corpus(options.dev))
    corpus, dev = read_gold(options.corpus), read_gold(options.dev)
    with progress_bar(quiet=options.quiet) as show:
        tuned = tune(
            corpus.documents,
            dev.documents,
            options.out,
            ranges=ranges,
            configure=lambda more: _configure(options, more),
            minutes=options.minutes,
            max_trials=options.trials,
            resume=options.resume,
            allow_overlap=options.allow_overlap,
            report=show,
        )
    published = tune_results(tuned)
    published.write_all(options.out, "trials")
    say(published.render(".txt"))
    say(f"the best configuration is {options.out / 'best.toml'}; its F1 was chosen on dev, and is optimistic")
    return 0


def run_ablate(options: argparse.Namespace) -> int:
    """Run the ablations, write the report, print it."""
    from ensemble_deid.deidentify.members import files_of_members, member_sources
    from ensemble_deid.training.ablate import ThresholdTarget, TrainingNotes, ablate
    from ensemble_deid.training.reports import ablation_results

    if options.retrain_dev and not options.retrain:
        raise ConfigError("--retrain-dev goes with --retrain")
    target = target_of(options)
    rule = None if target is None else ThresholdTarget(*target)
    members = members_of(options)
    inputs = (options.model, options.dev, options.retrain, options.retrain_dev, *files_of_members(members))
    refuse_output_files(options.out, *inputs)
    check_forms(options.out, FILE_FORMS)
    corpus = read_gold(options.dev, model=options.model)
    notes = None
    if options.retrain:
        stop_by = read_gold(options.retrain_dev) if options.retrain_dev else corpus
        notes = TrainingNotes(read_gold(options.retrain).documents, stop_by.documents)
    with progress_bar(quiet=options.quiet) as show:
        rows = ablate(
            options.model,
            corpus.documents,
            jobs=options.jobs,
            report=show,
            threshold_rule=rule,
            retrain=notes,
            rows=options.rows,
            members=member_sources(members),
        )
    publish(ablation_results(rows, rule), options.out)
    return 0


def run_download_stanza(options: argparse.Namespace) -> int:
    """Fetch the models and say where they are."""
    from ensemble_deid.features.stanza_tags import download_models

    folder = download_models(options.name)
    say(f"stanza's models {options.name} are in {folder}; use them with --set text.stanza={options.name}")
    return 0
