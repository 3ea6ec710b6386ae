"""The script that measures a model on notes of sites that it has not seen."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ensemble_deid import Deidentifier
from ensemble_deid.errors import ModelError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unseen_sites", ROOT / "research" / "unseen_sites.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "research" / "unseen_sites.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_row_of_operating_points_for_each_corpus(tiny_model: Path, tiny_dev: Path) -> None:
    done = run(tiny_model, tiny_dev, "--split-sites")
    assert done.returncode == 0, done.stderr
    # The notes have no sites, so all of them count as early ones.
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2
    assert rows[0].split("|")[2:] == rows[1].split("|")[2:]
    assert len(rows[0].split("|")) == 8
    assert done.stdout.count("strict F1") == 2


def test_what_is_released_has_the_repeats_and_no_withheld_note(script: ModuleType, tiny_model: Path) -> None:
    model = Deidentifier.load(tiny_model)
    notes = [
        Document("a", "Seen by Dr. Brandon in clinic.\n", patient_id="7"),
        Document("b", "Then Brandon rang.\n", patient_id="7"),
        Document("c", "a\0b"),
    ]
    assert [len(note.spans) for note in model.predict(notes[:2])] == [1, 0]
    out, system = script.released(model, notes)
    assert [note.id for note in out] == ["a", "b"]
    assert [note.text[span.start : span.end] for note in system for span in note.spans] == ["Brandon", "Brandon"]
    gold = [note.with_spans(spans) for note, spans in zip(out, [note.spans for note in system], strict=True)]
    line = script.released_line(gold, system)
    assert line == "100.00 at 0.0, 100.0% fully redacted, F1 100.00"
    assert script.released_line(gold, [note.with_spans([]) for note in out]).startswith("0.00 at 0.0, 0.0% fully")


def test_sites_are_split_by_their_names(script: ModuleType) -> None:
    notes = [Document(str(k), "x", site=site) for k, site in enumerate(["E01", "S01", None, "R12", "R43"])]
    whole = ("all", [0, 1, 2, 3, 4])
    assert list(script.parts(notes, split_sites=False)) == [whole]
    assert list(script.parts(notes, split_sites=True)) == [
        whole,
        ("sites of version 1", [0, 2]),
        ("sites of version 2", [1]),
        ("new registers", [3, 4]),
        ("new registers, writers of test alone", [4]),
        ("writers who also wrote training notes", [3]),
    ]
    assert [name for name, _ in script.parts(notes[1:2], split_sites=True)] == ["all", "sites of version 2"]


def test_intervals_resample_sites_and_need_ten(script: ModuleType) -> None:
    notes = [Document(str(k), "x x", (Span(0, 1, "ID"), Span(2, 3, "ID")), site=f"S{k}") for k in range(10)]
    half = [note.with_spans([Span(0, 1, "ID", 0.5)] if int(note.id) % 2 else []) for note in notes]
    assert script.interval_by_site(notes[:9], half[:9], 0.1) == ""
    low, high = map(float, script.interval_by_site(notes, half, 0.1).strip(" []").split(" to "))
    assert 0 <= low < 25 < high <= 50
    assert script.interval_by_site(notes, notes, 0.0) == " [100.00 to 100.00]"


def test_what_is_undefined_on_notes_without_phi_is_said_to_be(script: ModuleType) -> None:
    note = Document("a", "x x x x")
    row, rest = script.lines_of([note], [note.with_spans([Span(0, 1, "ID", 0.5)])], 0.1)
    # Nothing leaks where nothing is to be found.
    assert row == "undefined at 250.0 (100%) | - | - | - | -"
    assert rest == (
        "strict F1 0.00, best undefined; everything undefined at 250; false positives for a recall of "
        "98.5: undefined, 99: undefined, 99.5: undefined"
    )


def test_a_model_that_finds_nothing_has_figures(script: ModuleType) -> None:
    note = Document("a", "x x x x", (Span(0, 1, "ID"),))
    row, rest = script.lines_of([note], [note.with_spans([])], 0.1)
    assert row == "0.00 at 0.0 (0%) | - | - | - | -"
    assert rest.startswith("strict F1 0.00, best 0.00; everything 0.00 at 0; ")
    assert rest.endswith("98.5: not reached, 99: not reached, 99.5: not reached")


def test_a_missing_corpus_is_one_line(tiny_model: Path) -> None:
    done = run(tiny_model, "nowhere")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def test_the_test_notes_measure_a_model_once(script: ModuleType, tiny_model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("date\tfinal estimator\tcommand\n", encoding="utf-8")
    script.log_use(tiny_model, ["unseen_sites.py", "a model", "demo:test"], again=False, log=log)
    with pytest.raises(ModelError, match="was scored on demo:test before"):
        script.log_use(tiny_model, [], again=False, log=log)
    script.log_use(tiny_model, ["second"], again=True, log=log)
    commands = [line.split("\t")[2] for line in log.read_text(encoding="utf-8").splitlines()]
    assert commands == ["command", "unseen_sites.py 'a model' demo:test", "second"]


def test_the_shipped_model_is_on_the_log(script: ModuleType) -> None:
    model = ROOT / "models" / "ensemble_deid_en" / "ensemble_deid_en" / "model"
    with pytest.raises(ModelError, match="before"):
        script.log_use(model, [], again=False)
