"""The card of every model: what it was trained on, what was measured, what it is not for."""

from collections.abc import Mapping
from typing import Any

from ensemble_deid.evaluation.render.results import Table
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.digits import figure, four_digits, percent

FILE = "MODEL_CARD.md"
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
    return (
        f"- submodels: {members}; seed {manifest.config.get('seed')}, {manifest.config.get('folds')} folds\n"
        f"- ensemble_deid {manifest.ensemble_deid}, {packages}"
    )
