"""Models that are installed as packages, and are used by name: `ensemble-deid deidentify en notes/`."""

import re
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from ensemble_deid.errors import ModelError

GROUP = "ensemble_deid.models"
"""The group of entry points in which a package of a model names its module."""
FOLDER = "model"
"""The folder of the model in its package."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""What a name of a model must look like."""


@dataclass(frozen=True, slots=True)
class InstalledModel:
    name: str
    package: str
    version: str
    directory: Path


def installed_models() -> dict[str, InstalledModel]:
    """Return the installed models by name, sorted; no code of their packages is run."""
    found = (_installed(point) for point in entry_points(group=GROUP))
    models = {model.name: model for model in found if model is not None}
    return {name: models[name] for name in sorted(models)}


def find_model(model: str | Path) -> Path:
    """Return the folder of a model that is given by its folder or, where no such folder exists, by its name.

    Raises ModelError for a name that no installed package has.
    """
    place = Path(model)
    if place.exists() or place.is_symlink() or not NAME.fullmatch(str(model)):
        return place
    models = installed_models()
    if str(model) in models:
        return models[str(model)].directory
    names = f"installed models are {', '.join(models)}" if models else "no model is installed"
    raise ModelError(f"{model}: there is no such folder, and no model of this name is installed ({names})")


def name_of_model(model: Path) -> str:
    """Return what a model's folder is called, of an installed one its name, package and version."""
    found = next((m for m in installed_models().values() if m.directory.resolve() == model.resolve()), None)
    return model.resolve().name if found is None else f"{found.name} ({found.package} {found.version})"


def model_of(name: str) -> Path | None:
    """Return the folder of the model that `name` is or names; None for anything else, which is read as a corpus."""
    place = Path(name)
    if not place.exists() and name in (models := installed_models()):
        return models[name].directory
    return place if (place / "manifest.json").is_file() else None


def _installed(point: EntryPoint) -> InstalledModel | None:
    """Return the model of an entry point; None where its package has no such folder."""
    if point.dist is None or not NAME.fullmatch(point.name) or "." in point.module:
        return None
    # A module at the top is found without being run.
    spec = find_spec(point.module)
    places = [] if spec is None else [Path(place) / FOLDER for place in spec.submodule_search_locations or ()]
    directory = next((place for place in places if place.is_dir()), None)
    if directory is None:
        return None
    return InstalledModel(point.name, point.dist.name, point.dist.version, directory)
