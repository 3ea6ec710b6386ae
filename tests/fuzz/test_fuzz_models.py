"""Model files with anything in them and all hashes right: a ModelError or a model that works, in bounded time."""

import json
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

from bounded_work import no_hang
from budget import Budget
from hostile import MARKER, damaged
from hypothesis import strategies as st

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, CorpusError, ModelError
from ensemble_deid.model.directory import write_manifest
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.document import Document

_NOTE = Document("n", f"Patient: {MARKER}\nSeen by Dr. Kemp on 03/04/2019.\n")
_HOSTILE = (None, True, -1, 0, 10**9, 10**30, 1e308, float("nan"), "", "x" * 1000, [], {}, [[]], "../../etc/passwd")


def load_and_predict(model: Path) -> None:
    result: object
    with no_hang():
        try:
            (result,) = Deidentifier.load(model).predict_each([_NOTE])
        except (ModelError, ConfigError) as error:
            result = error
    assert isinstance(result, Document | CorpusError | ModelError | ConfigError)
    assert MARKER not in str(result)
    assert len(str(result)) < 2000


def test_damaged_files(tiny_model: Path, budget: Budget) -> None:
    def check(data: st.DataObject) -> None:
        with TemporaryDirectory() as folder:
            model = Path(copytree(tiny_model, Path(folder) / "model"))
            manifest = read_manifest(model)
            path = model / data.draw(st.sampled_from(sorted(manifest.files)))
            path.write_bytes(data.draw(damaged(path.read_bytes())))
            if data.draw(st.booleans()):
                write_manifest(model, manifest)
            load_and_predict(model)

    budget.every(st.data(), check)


def test_hostile_values(tiny_model: Path, budget: Budget) -> None:
    """A JSON value anywhere in a file is replaced."""
    names = sorted(path.name for path in tiny_model.glob("*.json"))

    def replace_one(data: st.DataObject, content: Any) -> Any:
        if not isinstance(content, dict | list) or not content or data.draw(st.integers(0, 5)) == 0:
            return data.draw(st.sampled_from(_HOSTILE))
        keys = sorted(content) if isinstance(content, dict) else range(len(content))
        key = data.draw(st.sampled_from(keys))
        changed = dict(content) if isinstance(content, dict) else list(content)
        changed[key] = replace_one(data, content[key])
        return changed

    def check(data: st.DataObject) -> None:
        with TemporaryDirectory() as folder:
            model = Path(copytree(tiny_model, Path(folder) / "model"))
            manifest = read_manifest(model)
            path = model / data.draw(st.sampled_from(names))
            content = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps(replace_one(data, content)), encoding="utf-8")
            if path.name != "manifest.json":
                write_manifest(model, manifest)
            load_and_predict(model)

    budget.every(st.data(), check)
