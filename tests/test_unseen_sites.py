"""The script that measures a model on notes of sites that it has not seen."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "unseen_sites.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_row_of_operating_points_for_each_corpus(tiny_model: Path, tiny_dev: Path) -> None:
    done = run(tiny_model, tiny_dev, "--split-sites")
    assert done.returncode == 0, done.stderr
    # The notes have no sites, so all of them count as early ones.
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2
    assert rows[0].split("|")[2:] == rows[1].split("|")[2:]
    assert len(rows[0].split("|")) == 8
    assert done.stdout.count("best strict F1") == 2


def test_a_missing_corpus_is_one_line(tiny_model: Path) -> None:
    done = run(tiny_model, "nowhere")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
