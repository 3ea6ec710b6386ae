"""Exporting a model: everything that processing notes needs, and nothing else."""

import shutil
from pathlib import Path

from ensemble_deid.errors import ModelError
from ensemble_deid.pipeline.directory import beside, refuse_foreign_folder
from ensemble_deid.pipeline.manifest import FILE, read_manifest


def export_model(model: Path, out: Path) -> tuple[str, ...]:
    """Copy a model without its private files, and return the names of the files that were copied.

    The manifest is the same byte for byte, so that the copy is known as the same model. Raises ModelError for a damaged
    model, and where `out` is a folder that holds anything but a model.
    """
    manifest = read_manifest(model)
    if model.resolve() in (out.resolve(), *out.resolve().parents):
        raise ModelError(f"{out}: is the model itself or lies in its folder")
    refuse_foreign_folder(out)
    names = tuple(sorted((FILE, *manifest.files)))
    with beside(out) as scratch:
        for name in names:
            shutil.copyfile(model / name, scratch / name)
    return names
