"""A wheel, away from the checkout, has everything that the package needs; nothing here uses a network."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ensemble_deid.corpora.read import DEMO_SPLITS

ROOT = Path(__file__).parents[1]

LOOK_AROUND = """
import json, sys
import ensemble_deid
from ensemble_deid.corpora.read import DEMO_SPLITS, read_corpus
from ensemble_deid.features.patterns import read_patterns
from ensemble_deid.resources import data_directory, rules_directory
from ensemble_deid.taggers.tbed.tagger import find_templates

print(json.dumps({
    "package": ensemble_deid.__file__,
    "rules": str(rules_directory()),
    "data": str(data_directory()),
    "notes": {part: len(read_corpus(f"demo:{part}")) for part in DEMO_SPLITS},
    "demo": len(read_corpus("demo")),
    "patterns": {p.stem: len(read_patterns(p).patterns) for p in sorted((rules_directory() / "patterns").iterdir())},
    "templates": find_templates("default").name,
}))
"""


def run(*command: str | Path, where: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=where, env=kept | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an sdist, and a wheel from it, of a copy: a build folder left in the checkout has no say."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("ensemble_deid", "rules", "data", "docs", "tests", "benchmarks", "research", "tools"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in {".py", ".cfg", ".toml", ".in", ".txt", ".md", ""} and path.name[0] != ".":
            shutil.copy(path, copy / path.name)
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, where=out)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into a folder of its own."""
    target = tmp_path_factory.mktemp("installed")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "install", *quiet, "--target", target, wheel, where=target)
    return target


@pytest.mark.long
def test_the_wheel_finds_its_rules_and_data(installed: Path, tmp_path: Path) -> None:
    seen = json.loads(run(sys.executable, "-c", LOOK_AROUND, where=tmp_path, PYTHONPATH=str(installed)))
    assert Path(seen["package"]).parent == installed / "ensemble_deid"
    assert Path(seen["rules"]) == installed / "ensemble_deid" / "_rules"
    assert Path(seen["data"]) == installed / "ensemble_deid" / "_data"
    in_checkout = {part: len(list((ROOT / "data" / "demo" / part).glob("*.xml"))) for part in DEMO_SPLITS}
    assert seen["notes"] == in_checkout
    assert seen["demo"] == in_checkout["train"]
    assert set(seen["patterns"]) == {path.stem for path in (ROOT / "rules" / "patterns").glob("*.toml")}
    assert all(seen["patterns"].values())
    assert seen["templates"] == "default"


@pytest.mark.long
def test_the_wheel_has_the_command(installed: Path, tmp_path: Path) -> None:
    for door in ((sys.executable, installed / "bin" / "ensemble-deid"), (sys.executable, "-m", "ensemble_deid")):
        out = run(*door, "corpus", "stats", "demo:dev", where=tmp_path, PYTHONPATH=str(installed))
        assert "PATIENT" in out


@pytest.mark.long
def test_the_wheel_writes_the_report(installed: Path, tmp_path: Path) -> None:
    """The page's style and script are files of the package, not modules."""
    arguments = ("model", "report", "demo:dev", "demo:dev", "--out", "report.html", "--resamples", "0")
    run(sys.executable, "-m", "ensemble_deid", *arguments, where=tmp_path, PYTHONPATH=str(installed))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name in ("report.css", "report.js"):
        source = ROOT / "ensemble_deid" / "evaluation" / "render" / "html" / name
        assert source.read_text(encoding="utf-8") in page


@pytest.mark.long
def test_what_the_wheel_holds(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "ensemble_deid").rglob("*.py")}
    assert modules <= names
    assert {"ensemble_deid/py.typed", "ensemble_deid/_core.pyi"} <= names
    cores = [name for name in names if name.startswith("ensemble_deid/_core.") and name.endswith((".so", ".pyd"))]
    # Without a compiler the core is left out.
    assert cores or shutil.which("gcc") is None
    report = "ensemble_deid/evaluation/render/html/report"
    assert {f"{report}.css", f"{report}.js"} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert "ensemble_deid/_data/LICENSE" in names, "the notes have a licence of their own"
    strangers = {name.split("/")[0] for name in names} - {"ensemble_deid"}
    assert all(name.endswith(".dist-info") for name in strangers)
    assert not [name for name in names if name.endswith(".note")], "sources of the notes are for the checkout"


@pytest.mark.long
def test_the_source_distribution_holds_what_development_needs(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "constraints.txt", "LICENSE", "CHANGELOG.md", "docs/architecture.md"} <= names
    assert {"ensemble_deid/core/layer.c", "ensemble_deid/core/layer_steps.h"} <= names
    assert {"data/demo/src/101-01.note", "rules/templates/default.toml", "tests/test_package.py"} <= names


def test_pins_and_ranges_name_no_place() -> None:
    """Nobody else has this machine's folders, and an index is the user's choice."""
    for name in ("constraints.txt", "setup.cfg", "pyproject.toml", "Makefile"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            assert "://" not in line, f"{name}: {line}"
            assert "index-url" not in line, f"{name}: {line}"
            assert "find-links" not in line, f"{name}: {line}"


def test_every_requirement_is_pinned() -> None:
    from configparser import ConfigParser

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pins[canonicalize_name(name)] = version
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    lists = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    for line in "\n".join(lists).split("\n"):
        if line:
            requirement = Requirement(line)
            version = pins.get(canonicalize_name(requirement.name))
            assert version is not None, f"constraints.txt has no {requirement.name}"
            assert requirement.specifier.contains(version), f"{requirement} does not allow the pinned {version}"
