"""What was changed in a model after its figures were measured: they are of the model as it was, not as it is."""

from collections.abc import Collection, Mapping, Sequence

from ensemble_deid.model.additions import INCLUSION, PATTERNS, PROPOSER
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.taggers.tbed.tagger import RULES

# The files that can be changed after training, what they are called, and whose proposals they change ("": all).
_CHANGEABLE = {
    RULES: ("rules", "tbed"),
    PATTERNS: ("added patterns", PROPOSER),
    INCLUSION: ("inclusion list", ""),
}


def changeable_files(manifest: Manifest) -> dict[str, str]:
    """Return the SHA-256 of each file that can be changed after training, to be stored beside what is measured."""
    return {name: manifest.files.get(name, "") for name in _CHANGEABLE}


def changes_since_training(manifest: Manifest, submodels: Collection[str]) -> tuple[str, ...]:
    """Return what differs from the model as it was trained, as far as these submodels are concerned."""
    return _differing(changeable_files(manifest), _of_training(manifest), submodels)


def changes_since(
    manifest: Manifest, measured: Mapping[str, str] | None, submodels: Collection[str]
) -> tuple[str, ...] | None:
    """Return what was changed since `changeable_files` were those in `measured`.

    None is for what is not known: no files were stored with the figure, and the model was changed at some time.
    """
    if measured is not None:
        return _differing(changeable_files(manifest), measured, submodels)
    history = (manifest.rules_replaced, manifest.choices.get("added_patterns"), manifest.choices.get("inclusion_list"))
    return None if any(history) or changes_since_training(manifest, submodels) else ()


def listed(changes: Sequence[str]) -> str:
    """Return the names of some changes as a text."""
    return " and ".join(filter(None, (", ".join(changes[:-1]), *changes[-1:])))


def _of_training(manifest: Manifest) -> dict[str, str]:
    """Return the files as training left them: with the rules before the first change, and without additions."""
    first = manifest.rules_replaced[0]["before"] if manifest.rules_replaced else manifest.files.get(RULES, "")
    return {RULES: first, PATTERNS: "", INCLUSION: ""}


def _differing(now: Mapping[str, str], then: Mapping[str, str], submodels: Collection[str]) -> tuple[str, ...]:
    return tuple(
        name
        for file, (name, submodel) in _CHANGEABLE.items()
        if now[file] != then.get(file, "") and (not submodel or submodel in submodels)
    )
