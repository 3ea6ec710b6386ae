"""Wheels in one folder, with the checksums by which pip refuses a wheel that was exchanged."""

import hashlib
from pathlib import Path

import pytest

from ensemble_deid.errors import ConfigError
from tools import bundle
from tools.__main__ import build_parser

ROOT = Path(__file__).parents[1]


def test_requirements_name_every_wheel_with_its_checksum(tmp_path: Path) -> None:
    wheels = [tmp_path / "b_c-1.0+cpu-py3-none-any.whl", tmp_path / "a-2.0-py3-none-any.whl"]
    for wheel in wheels:
        wheel.write_bytes(wheel.name.encode())
    digests = [hashlib.sha256(wheel.name.encode()).hexdigest() for wheel in wheels]
    expected = f"a==2.0 --hash=sha256:{digests[1]}\nb-c==1.0+cpu --hash=sha256:{digests[0]}\n"
    assert bundle.requirements(wheels) == expected


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="holds files already"):
        bundle.make_bundle(tmp_path, root=ROOT, extras=(), models=())


def test_what_pip_refuses_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "constraints.txt").write_text("")
    with pytest.raises(ConfigError, match="pip wheel failed"):
        bundle.make_bundle(tmp_path / "out", root=root, extras=(), models=())


def test_sources_are_copied_without_what_building_left(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("package/build/kept.py", "build/lib.py", ".venv/x", "x.egg-info/y", "package/a.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    copied = bundle._copy(source, tmp_path / "copy")
    found = sorted(str(path.relative_to(copied)) for path in copied.rglob("*") if path.is_file())
    assert found == ["package/a.py", "package/build/kept.py"]


def test_the_command_names_the_extras(tmp_path: Path) -> None:
    options = build_parser().parse_args(["bundle", str(tmp_path)])
    assert options.extras == "service,tables,sql"
