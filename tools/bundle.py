"""Gather the package, its models and all they need in one folder, to install where no network is.

The folder holds wheels, `requirements.txt` with the SHA-256 of each, and `INSTALL.txt`. Everything is installed by

    pip install --no-index --find-links FOLDER --require-hashes -r FOLDER/requirements.txt

so a wheel that was exchanged on its way is refused. Versions are those of `constraints.txt`, which the tests pass with.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import ConfigError

_INSTALL = """Install ensemble_deid and its models, en and es, without a network
=================================================================

This folder was made on {platform} with Python {python}; it installs on machines of that kind with that Python.

  python -m venv deid
  deid/bin/pip install --no-index --find-links . --require-hashes -r requirements.txt
  deid/bin/ensemble-deid deidentify en NOTES --out CLEAN

On Windows the programs are in deid\\Scripts. pip refuses a wheel whose checksum differs from requirements.txt.
"""


def make_bundle(out: Path, *, root: Path, extras: Sequence[str], models: Sequence[Path]) -> list[Path]:
    """Build and download all wheels into `out`, write the requirements, and return the wheels.

    `extras` are those of the package, `models` the folders of model packages. Raises ConfigError where `out` holds
    files already, or where pip fails: what pip said goes to standard error.
    """
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out}: holds files already; choose another folder")
    out.mkdir(parents=True, exist_ok=True)
    chosen = f"[{','.join(extras)}]" if extras else ""
    with TemporaryDirectory() as folder:
        # Building leaves files beside the sources, so copies are built.
        sources = [_copy(root, Path(folder) / "package"), *(_copy(m, Path(folder) / m.name) for m in models)]
        package, *packaged = sources
        _pip("wheel", "--wheel-dir", out, "-c", root / "constraints.txt", f"{package}{chosen}")
        for model in packaged:
            _pip("wheel", "--wheel-dir", out, "--no-deps", model)
    wheels = sorted(out.glob("*.whl"))
    write_text_atomically(out / "requirements.txt", requirements(wheels))
    text = _INSTALL.format(platform=sys.platform, python=".".join(map(str, sys.version_info[:2])))
    write_text_atomically(out / "INSTALL.txt", text)
    return wheels


def requirements(wheels: Sequence[Path]) -> str:
    """Return a line `name==version --hash=sha256:...` for each wheel, sorted by name."""
    lines = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name.replace('_', '-').lower()}=={version} --hash=sha256:{digest}")
    return "".join(f"{line}\n" for line in sorted(lines))


def _copy(folder: Path, to: Path) -> Path:
    ignored = shutil.ignore_patterns(".*", "build", "dist", "out", "model", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(folder, to, ignore=lambda where, names: ignored(where, names) if Path(where) == folder else set())
    return to


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise ConfigError(f"pip {arguments[0]} failed; its message is above")
