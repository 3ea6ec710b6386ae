"""What `from ensemble_deid import ...` gives: the names, their examples, and how little it imports."""

import ast
import doctest
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_stack

import ensemble_deid
from ensemble_deid import Config, CrfConfig, Deidentifier, DeidError, Document, Span, evaluate, read_corpus, train
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.parallel import Step

ROOT = Path(__file__).parents[1]
PUBLIC = [name for name in ensemble_deid.__all__ if name != "__version__"]
EXCEPT_HEAVY = ("torch", "sklearn", "scipy", "numpy", "pydantic", "rich", "joblib")


@pytest.fixture
def workplace(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a trained model and a corpus, as the examples name them."""
    shutil.copytree(tiny_model, tmp_path / "model")
    write_corpus(tiny_stack.notes(400, patients=2), tmp_path / "my" / "test", "i2b2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def examples(name: str) -> Iterator[doctest.DocTest]:
    """Yield the examples in the docstrings of a public name and of its own methods."""
    thing = getattr(ensemble_deid, name)
    finder = doctest.DocTestFinder()
    for found in finder.find(thing, name, module=inspect.getmodule(thing), globs={}):
        if found.examples:
            yield found


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_in_docstrings_run(workplace: Path, name: str) -> None:
    found = list(examples(name))
    assert any(example.name == name for example in found), f"the docstring of {name} has no example"
    for example in found:
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(example, out=said.append)
        assert not runner.failures, "".join(said)


def test_the_names_are_the_same_everywhere() -> None:
    """In `__all__`, in `dir`, in the imports that editors read, and in the table that imports on demand."""
    source = ast.parse((ROOT / "ensemble_deid" / "__init__.py").read_text(encoding="utf-8"))
    for_editors = {
        (alias.name, node.module)
        for block in source.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert for_editors == set(ensemble_deid._MODULE_OF.items())
    assert {name for name, _ in for_editors} == set(PUBLIC)
    assert set(ensemble_deid.__all__) <= set(dir(ensemble_deid))
    assert sorted(ensemble_deid.__all__) == list(ensemble_deid.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Surrogates'"):
        _ = ensemble_deid.Surrogates


def modules_after(code: str, where: Path) -> set[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sorted(sys.modules))"],
        cwd=where,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_is_quick(tmp_path: Path) -> None:
    assert not set(EXCEPT_HEAVY) & modules_after("import ensemble_deid; dir(ensemble_deid)", tmp_path)
    assert not {"torch", "sklearn", "scipy", "numpy"} & modules_after("import ensemble_deid.cli.main", tmp_path)
    light = "from ensemble_deid import Config, CorpusError, Document, Span, read_corpus"
    assert not {"torch", "sklearn", "scipy"} & modules_after(light, tmp_path)


def test_from_notes_to_scores(tmp_path: Path, tiny_train: Path, tiny_dev: Path) -> None:
    """The way that the package's docstring shows, over every public door."""
    (tmp_path / "tiny.toml").write_text(tiny_stack.PATTERNS, encoding="utf-8")
    options: dict[str, Any] = {"submodels": ["regex", "crf"], "folds": 2, "jobs": 1}
    config = Config(regex={"patterns": str(tmp_path / "tiny.toml")}, crf=CrfConfig(max_iterations=8), **options)
    corpus, dev = read_corpus(tiny_train), read_corpus(tiny_dev)
    steps: list[Step] = []
    trained = train(corpus, dev=dev, config=config, report=steps.append)
    assert steps[-1].message == "trained"
    assert train(list(corpus), iter(dev), config=config).manifest == trained.manifest
    trained.save(str(tmp_path / "model"))
    model = Deidentifier.load(str(tmp_path / "model"))
    assert model.predict(dev) == trained.deidentifier.predict(dev)
    by_corpus = evaluate(dev, model.predict(dev), resamples=0)
    assert by_corpus == evaluate(list(dev), iter(model.predict(dev)), resamples=0)
    assert by_corpus.score().counts == trained.dev_counts["ensemble"]
    with pytest.raises(DeidError, match="save this one, then load it"):
        trained.deidentifier.pipe(["x"], jobs=2)
    assert Document("a", "Anna", (Span(0, 4, "PATIENT"),)).spans[0].to_dict()["entity_group"] == "PATIENT"
