"""axe-core, the accessibility checker: fetched from npm for the test run, never part of this project.

`AXE_CORE=.../axe.min.js` names a copy that lies on this machine.
"""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

PACKAGE = "axe-core@4.14.1"
# The registry's `dist.integrity`: what runs in the page is what was looked at.
_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="


def find_axe(folder: Path) -> str:
    """Return axe-core's source, from `AXE_CORE` or packed by npm into `folder`; without npm, the test is skipped."""
    if own := os.environ.get("AXE_CORE"):
        return Path(own).read_text(encoding="utf-8")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{PACKAGE} comes from npm, and there is no npm on this machine")
    done = subprocess.run([npm, "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot fetch {PACKAGE}: {done.stderr.strip().splitlines()[-1:]}")
    packed = next(folder.glob("*.tgz")).read_bytes()
    assert base64.b64encode(hashlib.sha512(packed).digest()).decode() == _SHA512, f"this is not {PACKAGE}"
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()
