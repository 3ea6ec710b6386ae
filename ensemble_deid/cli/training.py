"""`train`."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import exclusive
from ensemble_deid.cli.options import (
    CORPUS,
    add_command,
    add_config,
    add_member,
    add_model,
    add_shared,
    members_of,
    submodels_of,
)
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import counted, progress_bar, say, warn
from ensemble_deid.config import Config, load_config, make_config
from ensemble_deid.deidentify.outputs import refuse_output_model
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.digits import four_digits, percent
from ensemble_deid.reproducible import is_pinned

if TYPE_CHECKING:
    from ensemble_deid.training.training_points import TrainingPoints


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    train = add_command(
        commands, "train", "train the whole stack", example="train demo:train --dev demo:dev --config small --out model"
    )
    train.add_argument("train", metavar="TRAIN", help=CORPUS)
    train.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the model to")
    train.add_argument("--dev", metavar="DEV", help="notes to choose the network's epoch by, and to score")
    add_model(train, "--start-from", help="train this model's submodels further")
    add_config(train)
    add_shared(train, "submodels")
    train.add_argument("--shareable", action="store_true", default=None, help="close the vocabulary to rare words")
    train.add_argument("--recall-first", action="store_true", help="choose the threshold for recall, not for F1")
    add_shared(train, "jobs", "device", "seed", "quiet")
    rare = train.rare()
    rare.add_argument("--sites", metavar="N", type=int, help="train on N sites, drawn by the seed")
    rare.add_argument(
        "--language", choices=("auto", "en", "es", "none"), help="language of the patterns; auto: that of the notes"
    )
    rare.add_argument("--label-map", metavar="MAP", help="the patterns' labels -> the corpus's: a .toml, category ...")
    rare.add_argument("--encoder", metavar="FOLDER_OR_NAME", help="pretrained encoder: a folder, or a name on the hub")
    rare.add_argument("--folds", metavar="N", type=int, help="folds of the stack")
    add_shared(rare, "group-by", "allow-overlap", "reproducible", "resume")
    add_member(rare)
    train.set_defaults(run=run_train)


def run_train(options: argparse.Namespace) -> int:
    """Train, save, and print the dev figures."""
    from ensemble_deid.deidentify.members import files_of_members, member_sources
    from ensemble_deid.deidentify.sources import place_beside
    from ensemble_deid.evaluation.render.figures import counts_cells
    from ensemble_deid.model.directory import refuse_foreign_folder
    from ensemble_deid.note.tags import TagLoss
    from ensemble_deid.training.train import train
    from ensemble_deid.training.training_notes import sample_sites

    named_members = members_of(options)
    members = member_sources(named_members)
    config = load_config(
        options.config,
        overrides=[*options.overrides, *_overrides(options)],
        submodels=submodels_of(options),
        folds=options.folds,
        group_by=options.group_by,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
        shareable=options.shareable,
        members=list(named_members) or None,
    )
    if is_pinned():
        config = _on_cpu(config)
    refuse_foreign_folder(options.out)
    named = [config.regex.patterns, config.text.knowledge, config.tbed.templates, config.transformer.encoder]
    named += [config.neural.word_vectors] if config.neural.word_vectors else []
    files = files_of_members(named_members)
    refuse_output_model(
        options.out, options.train, options.dev, options.config, options.start_from, *map(Path, named), *files
    )
    if options.encoder and "transformer" not in config.submodels:
        raise ConfigError("--encoder: this configuration trains no encoder; --config best does")
    corpus = read_gold(options.train)
    if options.sites is not None:
        corpus = replace(corpus, documents=sample_sites(corpus.documents, options.sites, seed=config.seed))
    dev = read_gold(options.dev) if options.dev else None
    if dev:
        unseen = sorted(set(dev.labels) - set(corpus.labels))
        if unseen:
            warn(f"{options.dev}: labels absent from training, which the model cannot find: {', '.join(unseen)}")
    part = place_beside(options.out, ".part")
    with exclusive(part), progress_bar(quiet=options.quiet) as show:
        trained = train(
            corpus,
            dev or (),
            config=config,
            report=show,
            notify=warn,
            allow_overlap=options.allow_overlap,
            start_from=options.start_from,
            part=part,
            resume=options.resume,
            members=members,
        )
        trained.save(options.out)
    if trained.dev_counts:
        say("strict entity figures on dev   precision  recall      F1")
        for name, counts in trained.dev_counts.items():
            precision, recall, f1 = counts_cells(counts)
            say(f"  {name:<28} {precision:>9} {recall:>7} {f1:>7}")
    _say_points(trained.points)
    figures = trained.manifest.training
    say(f"tokenization: {TagLoss(figures['spans'], figures['spans_cut'], figures['spans_lost'])}")
    say(f"trained on {counted(figures['notes'], 'note')}; the model is in {options.out}")
    return 0


def _on_cpu(config: Config) -> Config:
    """Return the configuration for the CPU: what a GPU computes depends on its kind. Raises ConfigError for `cuda`."""
    if config.device == "cuda":
        raise ConfigError("--reproducible trains on the CPU; leave out the device cuda")
    return make_config({**config.model_dump(mode="json"), "device": "cpu"})


def _say_points(points: "TrainingPoints") -> None:
    """Print the operating points side by side, out of fold on the training notes and on dev."""
    names = {
        "f1": "best F1",
        "recall": f"recall first (up to {points.max_false_positives:g} false positives in 1000 tokens)",
        "given": "as configured",
    }
    say(
        "operating points           threshold  strict F1  token recall  token precision  false positives in 1000 tokens"
    )
    for point in points.points:
        say(f"  {names[point.name]}{', frozen into the model' if point.name == points.frozen else ''}")
        rows = {"training, out of fold": (point.strict, point.tokens), "dev": point.dev}
        for name, row in rows.items():
            if row is None:
                continue
            strict, tokens = row
            figures = f"{percent(strict.f1, sign=''):>9}  {percent(tokens.counts.recall, sign=''):>12}"
            rate = "undefined" if tokens.fp_per_1000 is None else f"{tokens.fp_per_1000:.2f}"
            head = f"    {name:<22} {four_digits(point.threshold):>9}"
            say(f"{head}  {figures}  {percent(tokens.counts.precision, sign=''):>15}  {rate:>30}")


def _overrides(options: argparse.Namespace) -> list[str]:
    """Return the options that set a configuration key, as overrides."""
    found = {
        "regex.language": options.language,
        "regex.map": options.label_map,
        "transformer.encoder": options.encoder,
        "stack.operating_point": "recall" if options.recall_first else None,
    }
    # A JSON string is a TOML string, whatever a path holds.
    return [f"{key}={json.dumps(value)}" for key, value in found.items() if value is not None]
