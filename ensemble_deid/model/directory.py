"""A trained ensemble on disk: readable, safe files that run no code when they are loaded.

    manifest.sig             the signature, if the model was signed (`keys.py`)
    MODEL_CARD.md            what it was trained on, what was measured, what it is not for
    manifest.json            format, labels, configuration, fingerprint, versions, dev figures, file hashes
    patterns.toml            the regex patterns
    lexicon.json             annotated phrases and words of the training notes, with counts
    bpe.model                sentencepiece's own file, if BPE is switched on
    added_patterns.toml      patterns added after training (`additions.py`)
    inclusion_list.toml      sentences in which nothing is PHI
    knowledge.json           which tables of public lists, with their hashes, and the user's own lists
    rule_approvals.json      approvals of rules
    regex.json tbed.rules tbed.json tbed_initial.json crf.safetensors network.safetensors network.json
    transformer.safetensors transformer_layers.safetensors transformer.json transformer_tokenizer.json
    type1.crf.safetensors type2.crf.safetensors ... where a submodel is a model for each type of PHI (`by_type`)
    stacker.safetensors stacker.json stacker_statistics.safetensors stacker_trees.safetensors
    stacker_site.json        what the final estimator learned from a site's reviewed notes (`training/learn.py`)
    private/                 what only training and ablations need (`manifest.py`); an exported model lacks it
        manifest.json stacking_dataset.safetensors stacking_dataset.json tbed.1.rules tbed.1.json ...

The lexicon, the vocabularies and the rules contain words of the training notes: see docs/models.md.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import current_umask, folder_atomically, remove_stale
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.render.results import Table
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.manifest import (
    FILE,
    PRIVATE,
    Manifest,
    copy_private_files,
    file_hashes,
    files_not_named,
    has_private_file,
    listed_files,
    read_manifest,
    set_aside,
    write_private_manifest,
)
from ensemble_deid.note.digits import figure, four_digits, percent
from ensemble_deid.stacking.dataset import StackingDataset

PATTERNS, LEXICON, BPE, KNOWLEDGE = "patterns.toml", "lexicon.json", "bpe.model", "knowledge.json"


def save_model(ensemble: Ensemble, stacking_dataset: StackingDataset, manifest: Manifest, directory: Path) -> None:
    """Write a whole model beside `directory`, then move it into place: a half-written model is never seen.

    An existing model is replaced; any other existing, non-empty folder is refused with ModelError.
    """
    refuse_foreign_folder(directory)
    with beside(directory) as scratch:
        (scratch / PATTERNS).write_text(ensemble.feature_extractor.patterns.source, encoding="utf-8")
        (scratch / LEXICON).write_text(ensemble.feature_extractor.lexicon.to_json(), encoding="utf-8")
        if ensemble.feature_extractor.bpe is not None:
            (scratch / BPE).write_bytes(ensemble.feature_extractor.bpe.data)
        if ensemble.feature_extractor.knowledge is not None:
            content = json.dumps(ensemble.feature_extractor.knowledge.to_json(), ensure_ascii=False, indent=1)
            (scratch / KNOWLEDGE).write_text(content + "\n", encoding="utf-8")
        for tagger in ensemble.taggers.values():
            tagger.save(scratch)
        ensemble.stacker.save(scratch)
        for stacker in ensemble.smaller:
            stacker.save(scratch, variant=variant_name(ensemble.config.submodels, stacker.submodels))
        if not ensemble.config.shareable:
            (scratch / PRIVATE).mkdir()
            stacking_dataset.save(scratch / PRIVATE)
        (scratch / CARD).write_text(model_card(manifest), encoding="utf-8")
        write_manifest(scratch, manifest)


def update_model(directory: Path, edit: Callable[[Path, Manifest], Manifest]) -> None:
    """Change a model atomically: `edit` changes a copy and returns its manifest, then the copy replaces the model.

    Raises ModelError where the model's folder holds a file that would be lost.
    """
    manifest = read_manifest(directory)
    refuse_foreign_files(directory)
    with beside(directory) as scratch:
        for name in manifest.files:
            shutil.copyfile(directory / name, scratch / name)
        copy_private_files(directory, scratch)
        write_manifest(scratch, edit(scratch, manifest))


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest with the hashes of the files as they are now."""
    complete = replace(manifest, files=file_hashes(directory))
    (directory / FILE).write_text(complete.to_json(), encoding="utf-8")
    write_private_manifest(directory)


@contextmanager
def beside(directory: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `directory` if the block succeeds, and is deleted otherwise."""
    # Resolved, so that the new folder is on the same disk even if `directory` is a link or the current folder.
    place = directory.resolve()
    remove_stale(place.parent)
    _recover(place)
    with folder_atomically(place) as scratch:
        yield scratch
        # The new folder is private; give it the permissions of a plain mkdir.
        scratch.chmod(0o777 & ~current_umask())
        _swap(scratch, place)


def _swap(scratch: Path, directory: Path) -> None:
    """Replace `directory` by `scratch`; if that fails, `directory` is restored."""
    if not directory.exists():
        scratch.rename(directory)
        return
    kept = set_aside(directory)
    try:
        directory.rename(kept)
        scratch.rename(directory)
    except BaseException:
        if kept.exists() and not directory.exists():
            kept.rename(directory)
        raise
    _delete(kept, directory)


def _delete(kept: Path, directory: Path) -> None:
    """Delete the model that another one replaced; hidden entries such as `.git`, no part of it, go to that one."""
    for path in [path for path in kept.iterdir() if path.name.startswith(".")]:
        path.replace(directory / path.name)
    shutil.rmtree(kept)


def _recover(directory: Path) -> None:
    """Finish what a killed process left: a model that was to be replaced comes back where none took its place."""
    kept = set_aside(directory)
    if not kept.exists():
        return
    if directory.exists():
        _delete(kept, directory)
    else:
        kept.rename(directory)


def variant_name(everything: Sequence[str], kept: Sequence[str]) -> str:
    """Return the name of the files of the final estimator for some of the submodels; empty for all of them."""
    left_out = [name for name in everything if name not in kept]
    return "without_" + "_".join(left_out) if left_out else ""


def refuse_foreign_folder(directory: Path) -> None:
    """Raise ModelError if a model must not be written here: a file, or a folder with other content."""
    if directory.exists() and not directory.is_dir():
        raise ModelError(f"{directory}: exists and is not a folder")
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    if not (directory / FILE).is_file():
        raise ModelError(f"{directory}: exists and is not a model; nothing is overwritten")
    refuse_foreign_files(directory)


def refuse_foreign_files(directory: Path) -> None:
    """Raise ModelError where a model's folder holds what its manifest does not name: replacing it would lose that."""
    private = directory / PRIVATE
    foreign = files_not_named(directory, listed_files(directory))
    if private.is_dir():
        inside = (path for path in private.iterdir() if path.name != FILE)
        foreign += [path for path in inside if not has_private_file(directory, path.name)]
    if foreign:
        raise ModelError(f"{min(foreign)}: not part of the model, and would be lost: move it away first")


# The card of every model: what it was trained on, what was measured, what it is not for.


CARD = "MODEL_CARD.md"
_WHAT = (
    "A model of [ensemble_deid](https://pypi.org/project/ensemble-deid/): it finds protected health information (PHI) "
    "in clinical notes. Its submodels propose spans, and a support vector machine decides which to keep."
)
_LIMITS = (
    "To take PHI out of notes before release, by people who check the result. No model finds all PHI. "
    "Notes of another site, language or kind than those it was trained on will have more misses: measure on notes of "
    "your own (`ensemble-deid evaluate`), choose the threshold there (`ensemble-deid model threshold`), and have a "
    "person review what is released. Thresholds and rules that were changed after training are in `manifest.json`."
)
_HEADS = ("operating point", "threshold", "strict F1", "token recall", "token precision", "false positives per 1000")


def model_card(manifest: Manifest) -> str:
    """Return the card as Markdown, from what training recorded; it holds no text of a note.

    Sections as Mitchell et al. 2019 (Model Cards for Model Reporting) have them, as far as training knows them.
    """
    sections = [
        "# Model card",
        _WHAT,
        "## Training data\n\n" + _training(manifest),
        "## What it finds\n\n" + ", ".join(manifest.labels) + ".",
        "## Figures\n\n" + _figures(manifest),
        "## Intended use and limits\n\n" + _LIMITS,
        "## How it was made\n\n" + _making(manifest),
    ]
    return "\n\n".join(sections) + "\n"


def _training(manifest: Manifest) -> str:
    names = ("notes", "patients", "sites", "spans")
    counts = [f"{manifest.training[name]:,} {name}" for name in names if manifest.training.get(name)]
    language = manifest.choices.get("patterns", {}).get("language") or "not told"
    dev = manifest.dev_fingerprint or "none"
    return (
        f"- {', '.join(counts)}; language: {language}\n"
        f"- fingerprint of the training notes: `{manifest.fingerprint}`\n- fingerprint of the dev notes: `{dev}`"
    )


def _figures(manifest: Manifest) -> str:
    lines = []
    points: Mapping[str, Any] = manifest.choices.get("operating_point", {}).get("points", {})
    if points:
        caption = "Out of fold on the training notes (learners had not seen the note; the patterns' authors may have):"
        lines.append(Table(caption, _HEADS, tuple(_row(*entry) for entry in points.items())).to_markdown().rstrip())
    dev: Mapping[str, Any] = manifest.figures.get("dev_strict_f1", {})
    if dev:
        scores = ", ".join(f"{name} {percent(value, sign='')}" for name, value in dev.items())
        lines.append(f"\nStrict entity F1 on the dev notes: {scores}.")
    return "\n".join(lines) if lines else "None were measured in training."


def _row(name: str, point: Mapping[str, Any]) -> tuple[str, ...]:
    shares = (percent(point.get(key), sign="") for key in ("strict_f1", "token_recall", "token_precision"))
    return (name, four_digits(point["threshold"]), *shares, figure(point.get("false_positives_per_1000"), 2))


def _making(manifest: Manifest) -> str:
    members = ", ".join(manifest.config.get("submodels", ()))
    packages = ", ".join(f"{name} {version}" for name, version in manifest.packages.items())
    trees = " with boosted trees" if manifest.config.get("stack", {}).get("trees") else ""
    return (
        f"- submodels: {members}; seed {manifest.config.get('seed')}, {manifest.config.get('folds')} folds\n"
        f"- final estimator: a support vector machine{trees}\n"
        f"- ensemble_deid {manifest.ensemble_deid}, {packages}"
    )
