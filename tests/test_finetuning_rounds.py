"""`research/finetuning_rounds.py`: rounds learn from other notes than they score, and go on where they stopped."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import tiny_stack

from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("finetuning_rounds", ROOT / "research" / "finetuning_rounds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def site(name: str, first: int) -> list[Document]:
    """Two patients of a site at which pain is PHI in some notes, so that every model errs."""
    made = []
    for k, note in enumerate(tiny_stack.notes(first, patients=2)):
        at = note.text.index("pain")
        pain = [Span(at, at + len("pain"), "CITY")] if k % 2 else []
        made.append(replace(note, text=f"{note.text}At {name}.", spans=(*note.spans, *pain), site=name))
    return made


def test_rounds_are_made_once_and_learn_only_from_the_pool(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, dev, run = tmp_path / "corpus.jsonl", tmp_path / "dev.jsonl", tmp_path / "run"
    sites = {f"S{k:02}": site(f"S{k:02}", 300 + 10 * k) for k in range(5)}
    write_corpus([note for notes in sites.values() for note in notes], corpus, "jsonl")
    write_corpus(site("S90", 900), dev, "jsonl")
    arguments = [str(corpus), str(dev), "--train-sites", "2", "--pool-sites", "2", "--out", str(run)]
    arguments += ["--rounds", "2", "--worst", "2", "--submodels", "regex,tbed"]
    chosen = tiny_stack.settings(tmp_path, **{"tbed.cv_folds": "0"})
    arguments += ["--set", "folds=2", *chosen[3:], "--jobs", "1"]
    assert script.main(arguments) == 0
    table = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        *("first model", "worst, round 1", "worst, round 2", "random, round 1", "random, round 2")
    ]
    learned = {place.parent.name: json.loads(place.read_text())["learned"] for place in run.glob("*/notes.json")}
    assert {name: len(ids) for name, ids in learned.items()} == {
        **{"worst-1": 2, "worst-2": 4},
        **{"random-1": 2, "random-2": 4},
    }
    assert set(learned["worst-1"]) < set(learned["worst-2"])
    pool = {note.id for notes in sites.values() for note in notes}
    assert set(learned["worst-2"]) <= pool
    log = (run / "log.txt").read_text()
    assert script.main(arguments) == 2
    assert "--resume continues it" in capsys.readouterr().err
    assert script.main([*arguments, "--resume"]) == 0
    assert capsys.readouterr().out == table
    assert (run / "log.txt").read_text() == log
