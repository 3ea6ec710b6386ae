"""`research/bpe_sizes.py`: a size is trained once, and each is compared with the first."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import tiny_stack

from ensemble_deid.corpora.write import write_corpus

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bpe_sizes", ROOT / "research" / "bpe_sizes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_size_is_trained_once_and_compared_with_the_first(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev, out = tmp_path / "train.jsonl", tmp_path / "dev.jsonl", tmp_path / "out"
    write_corpus(tiny_stack.notes(), train, "jsonl")
    write_corpus(tiny_stack.notes(400, patients=2), dev, "jsonl")
    arguments = [str(train), str(dev), "--out", str(out), "--sizes", "0,60"]
    arguments += tiny_stack.settings(tmp_path)[3:]
    assert script.main(arguments) == 0
    table = capsys.readouterr().out
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line
    ]
    assert tuple(head) == script.COLUMNS
    words, pieces = (dict(zip(head, row, strict=True)) for row in rows)
    assert (words["pieces"], words["tokens a word"], words["change"], words["p"]) == ("0", "1.00", "", "")
    assert pieces["pieces"] == "60"
    assert float(pieces["tokens a word"]) > 1.2
    assert float(pieces["change"]) == pytest.approx(float(pieces["F1"]) - float(words["F1"]), abs=0.011)
    assert float(words["F1"]) > 0
    # The stored answers hold offsets, and no text.
    files = sorted(out.iterdir())
    assert [path.name for path in files] == ["crf-0.json", "crf-60.json"]
    assert not any("Dr." in path.read_text(encoding="utf-8") for path in files)
    assert json.loads(files[1].read_text(encoding="utf-8"))["origin"]["settings"]["text"]["bpe_vocabulary"] == 60

    def never(name: str) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(script, "submodel_class", never)
    assert script.main(arguments) == 0
    assert capsys.readouterr().out == table
    assert script.main([*arguments, "--set", "seed=14"]) == 2
    assert "made from other settings" in capsys.readouterr().err
