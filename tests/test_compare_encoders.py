"""`compare-encoders`: the tables against hand-counted figures, and a run that is resumed, refused or repaired."""

import json
from pathlib import Path
from typing import Any

import pytest
from every_command import main

from ensemble_deid.evaluation.render.results import result_files
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from research import encoder_runs
from research.encoder_report import encoder_results
from research.encoder_tables import KNOWN_WORDS, NEW_WORDS, REFERENCE, SEEN, encoder_tables

TRAIN = [
    Document("t1", "Ann Lee was seen.\nBell rang.", (Span(0, 7, "PATIENT"),), "1"),
    Document("t2", "On 4/2 well.", (Span(3, 6, "DATE"),), "2"),
]
GOLD = [
    Document("a", "ann lee on 4/2 by Bell", (Span(0, 7, "PATIENT"), Span(11, 14, "DATE"), Span(18, 22, "DOCTOR")), "7"),
    Document("b", "Ortiz on 5/9", (Span(0, 5, "PATIENT"), Span(9, 12, "DATE")), "8"),
    Document("c", "Nothing here", (), "9"),
]


def answer(**keys: list[tuple[int, int, str]]) -> tuple[Document, ...]:
    return tuple(d.with_spans(Span(*key) for key in keys.get(d.id, [])) for d in GOLD)


RIGHT = {"a": [(0, 7, "PATIENT"), (11, 14, "DATE"), (18, 22, "DOCTOR")], "b": [(0, 5, "PATIENT"), (9, 12, "DATE")]}


def test_figures_are_those_counted_by_hand() -> None:
    first = answer(a=[(0, 7, "PATIENT"), (18, 22, "PATIENT")], b=[(9, 12, "DATE")])
    second = answer(a=[(0, 3, "PATIENT"), (11, 14, "DATE")])
    answers = {REFERENCE: (first, second), "Transformer": (answer(**RIGHT), answer(**RIGHT))}
    tables = encoder_tables(TRAIN, GOLD, answers, seeds=(1, 2), resamples=50)
    assert tables.groups == {SEEN: 2, KNOWN_WORDS: 1, NEW_WORDS: 2}
    found, best = tables.networks[REFERENCE], tables.networks["Transformer"]
    # Seed 1: 2 right of 3 found and 5 in gold; seed 2: 1 of 2, of 5.
    assert found.micro.precision.mean == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert found.micro.recall.mean == pytest.approx((2 / 5 + 1 / 5) / 2)
    assert found.micro.recall.sd == pytest.approx(0.2 / 2**0.5)
    # Note c has nothing to find and nothing found: 0 in the macro figures, as the script has it.
    assert found.macro.recall.mean == pytest.approx(((1 / 3 + 1 / 2 + 0) / 3 + (1 / 3 + 0 + 0) / 3) / 2)
    assert best.macro.f1.mean == pytest.approx(2 / 3)
    assert best.micro.f1.mean == 1
    strict, token = found.by_category["NAME"]
    assert strict.recall.mean == pytest.approx((1 / 3 + 0) / 2)
    assert token.recall.mean == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert found.recall[SEEN].mean == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert found.recall[KNOWN_WORDS].mean == 0
    assert found.recall[NEW_WORDS].mean == pytest.approx((1 / 2 + 0) / 2)
    assert found.difference is None
    assert best.difference is not None
    # Pooled over seeds, the reference has 3 right, 2 wrong and 7 missed.
    assert best.difference.difference == pytest.approx(1 - 6 / (10 + 5))
    assert (tables.train.sentences, tables.train.phi, tables.train.phi_tokens) == (3, 2, 5)
    assert tables.dev.notes == 3
    text = encoder_results(tables).render(".txt")
    assert "0.3000 ±0.1414" in text
    assert "Ortiz" not in text
    assert json.loads(json.dumps(tables.to_json()))["seeds"] == [1, 2]


def test_without_the_reference_or_a_second_seed_the_tables_say_less() -> None:
    tables = encoder_tables(TRAIN, GOLD, {"BiLSTM": (answer(),)}, seeds=(1,), resamples=0)
    assert tables.networks["BiLSTM"].micro.precision.mean is None
    text = encoder_results(tables).render(".txt")
    assert "undefined" in text
    assert "±" not in text
    assert "F1 less BiLSTM-CRF  " not in text


SETTINGS = [
    *("--seeds=3,4", "--systems=BiLSTM,Transformer-CRF", "--quiet", "--resamples=20"),
    *(
        part
        for setting in ("epochs=1", "hidden=8", "word_dimension=8", "transformer_heads=2", "transformer_layers=1")
        for part in ("--set", f"neural.{setting}")
    ),
]


def test_runs_are_resumed_and_never_mixed(
    tiny_train: Path,
    tiny_dev: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["compare-encoders", str(tiny_train), "--dev", str(tiny_dev), "--out", str(tmp_path / "out"), *SETTINGS]
    trained: list[int] = []
    real = encoder_runs._train

    def count(*arguments: Any, **named: Any) -> Any:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(arguments[0])
        return real(*arguments, **named)

    monkeypatch.setattr(encoder_runs, "_train", count)
    assert main(command) == 130
    runs = sorted(path.name for path in (tmp_path / "out" / "runs").iterdir())
    assert runs == ["BiLSTM-seed3.json", "BiLSTM-seed4.json", "Transformer-CRF-seed3.json"]
    assert not (tmp_path / "out" / "tables.txt").exists()
    trained.clear()
    capsys.readouterr()
    assert main(command) == 0
    assert len(trained) == 1
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out" / "tables.txt").read_text(encoding="utf-8")
    assert "Transformer-CRF" in printed
    assert all(path.is_file() for path in result_files(tmp_path / "out", "tables"))
    tables = (tmp_path / "out" / "tables.json").read_bytes()

    trained.clear()
    assert main([*command, "--set", "neural.epochs=2"]) == 2
    assert "made from other settings; give another folder" in capsys.readouterr().err
    damaged = tmp_path / "out" / "runs" / "BiLSTM-seed4.json"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-40])
    assert main(command) == 2
    assert "BiLSTM-seed4.json: damaged; delete it" in capsys.readouterr().err
    damaged.unlink()
    assert main(command) == 0
    assert len(trained) == 1
    assert damaged.read_bytes() == whole
    assert (tmp_path / "out" / "tables.json").read_bytes() == tables


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--systems=GRU"], "there is no network 'GRU'; there are: BiLSTM, BiLSTM-CRF"),
        (["--seeds=1,x"], "--seeds 1,x: expected whole numbers"),
        (["--seeds=1,1"], "named twice"),
        (["--resamples=-1"], "--resamples is 0 or more"),
        (["--set", "neural.hidden=10"], "10 must be a multiple of neural.transformer_heads"),
    ],
)
def test_bad_options_are_refused_before_any_training(
    options: list[str],
    message: str,
    tiny_train: Path,
    tiny_dev: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["compare-encoders", str(tiny_train), "--dev", str(tiny_dev), "--out", str(tmp_path / "out"), *options]
    assert main([*command, "--quiet"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "runs").exists()


def test_notes_of_training_are_not_scored(tiny_train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare-encoders", str(tiny_train), "--dev", str(tiny_train), "--out", str(tmp_path), *SETTINGS]
    assert main(command) == 2
    assert "training" in capsys.readouterr().err
