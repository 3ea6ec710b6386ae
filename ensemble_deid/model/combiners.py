"""The combiners: how the answers of a model's submodels become one answer, by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ensemble_deid.errors import ModelError
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.voting import BestMembers, claims_of_best_members, combine
from ensemble_deid.taggers.base import Proposals

SVM = "svm"
COMBINERS = (SVM, "union", "majority", "per-type")
"""The final estimator; what any submodel predicts; what more than half predict; for each label, what any of the
submodels predicts that are best at it.
"""
CHOICE = "best_members"
OUT_OF_FOLD, DEV = "the training notes, out of fold", "dev notes"
"""What the best submodels of a model were chosen on."""


def combine_named(
    combiner: str, proposals: Mapping[str, Proposals], *, labels: tuple[str, ...], members: BestMembers
) -> list[tuple[Span, ...]]:
    """Return the spans of each document by a combiner other than the final estimator, which was checked before."""
    if combiner == "per-type":
        return claims_of_best_members(proposals, labels=labels, members=members)
    return combine(proposals, labels=labels, method=combiner)


def members_record(members: BestMembers, *, chosen_on: str, notes: int) -> dict[str, Any]:
    """Return the entry of a manifest's `choices`: the submodels of each label, and what they were chosen on."""
    return {
        CHOICE: {
            "chosen_on": chosen_on,
            "notes": notes,
            "members": {label: list(names) for label, names in members.items()},
        }
    }


def best_members_of(manifest: Manifest, directory: Path) -> dict[str, tuple[str, ...]]:
    """Return the best submodels of each label, empty for a model that does not say. Raises ModelError if damaged."""
    record = manifest.choices.get(CHOICE)
    if record is None:
        return {}
    try:
        members = {str(label): tuple(names) for label, names in record["members"].items()}
    except (TypeError, KeyError, AttributeError):
        members = {}
    known = manifest.config["submodels"]
    if set(members) != set(manifest.labels) or not all(set(names) <= set(known) for names in members.values()):
        raise ModelError(f"{directory}: damaged: its best submodels are not those of its labels")
    return members
