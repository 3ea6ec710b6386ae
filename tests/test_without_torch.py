"""Prediction in an environment that has nothing to train with: the same answers, and one clear error for the rest."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from scipy import stats
from tiny_encoder import tiny_encoder

from ensemble_deid.cli.main import main
from ensemble_deid.evaluation.bootstrap import beta_quantile, binomial_cdf, fisher_greater, t_quantile

ROOT = Path(__file__).parents[1]
TO_TRAIN = {
    "torch",
    "torchcrf",
    "transformers",
    "sklearn",
    "scipy",
    "sklearn_crfsuite",
    "pycrfsuite",
    "huggingface_hub",
}
BLOCKED = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(TO_TRAIN)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from ensemble_deid.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def model_with_encoder(tiny_train: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with_encoder")
    small = {"transformer.encoder": tiny_encoder(), "transformer.epochs": "1", "transformer.window": "40"}
    settings = tiny_stack.settings(folder, **small, **{"transformer.overlap": "8"})
    arguments = ["train", str(tiny_train), *settings, "--submodels=crf,transformer", "--quiet"]
    assert main([*arguments, "--out", str(folder / "model")]) == 0
    return folder / "model"


@pytest.mark.parametrize("kind", ["tiny_model", "model_with_encoder"])
def test_notes_are_read_and_scored_as_with_torch(
    kind: str, request: pytest.FixtureRequest, tiny_dev: Path, tmp_path: Path
) -> None:
    model: Path = request.getfixturevalue(kind)
    for out, run in (("here", main), ("there", lambda arguments: without_torch(*arguments).returncode)):
        assert run(["predict", str(model), str(tiny_dev), "--out", str(tmp_path / f"{out}.jsonl"), "--quiet"]) == 0
    found = (tmp_path / "here.jsonl").read_text(encoding="utf-8")
    assert found == (tmp_path / "there.jsonl").read_text(encoding="utf-8")
    scored = without_torch("evaluate", tiny_dev, model)
    assert scored.returncode == 0, scored.stderr
    assert "recall" in scored.stdout.lower()


@pytest.mark.parametrize("submodels", ["crf", "neural", "transformer"])
def test_training_names_the_extra(tiny_train: Path, tmp_path: Path, submodels: str) -> None:
    settings = tiny_stack.settings(tmp_path)
    failed = without_torch("train", tiny_train, *settings, f"--submodels={submodels}", "--out", tmp_path / "model")
    assert failed.returncode == 2, failed.stderr
    assert "pip install 'ensemble_deid[train]'" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_distributions_are_those_of_scipy() -> None:
    random = np.random.default_rng(3)
    for _ in range(60):
        a, b, freedom = 10 ** random.uniform(-0.5, 4, 3)
        p = float(random.uniform(0.01, 0.99))
        assert beta_quantile(p, a, b) == pytest.approx(stats.beta.ppf(p, a, b), rel=1e-8, abs=1e-12)
        assert t_quantile(p, 1 + freedom) == pytest.approx(stats.t.ppf(p, 1 + freedom), rel=1e-8)
        n = int(random.integers(1, 3000))
        k = int(random.integers(0, n + 1))
        assert binomial_cdf(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-8, abs=1e-12)
        (w, x), (y, z) = random.integers(0, 30, (2, 2)).tolist()
        expected = stats.fisher_exact([[w, x], [y, z]], alternative="greater").pvalue
        assert fisher_greater(((w, x), (y, z))) == pytest.approx(expected, rel=1e-9)
