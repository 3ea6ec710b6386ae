"""Commands run as a user runs them, with what they print and write."""

import itertools
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import Deidentifier
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.evaluation.curve import keep_above
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model import options as options_module
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.options import threshold_factor
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import read
from ensemble_deid.note.span import Span
from ensemble_deid.training.thresholds import freeze_threshold

Said = pytest.CaptureFixture[str]
Run = Callable[..., str]


@pytest.fixture
def run(capsys: Said) -> Run:
    """Run a command that is to succeed, and return what it prints."""

    def command(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return command


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A model that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def by_regex(tiny_model: Path, tiny_dev: Path, tmp_path: Path) -> Path:
    """What the patterns alone find in the dev notes: the dates."""
    out = tmp_path / "by_regex"
    assert main(["predict", str(tiny_model), str(tiny_dev), "--out", str(out), "--submodel", "regex", "--quiet"]) == 0
    return out


def files(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def manifest(model: Path) -> dict[str, dict[str, object]]:
    loaded: dict[str, dict[str, object]] = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("factor", [0.001, 0.3, 1.0])
def test_a_model_is_scored_by_what_it_predicts(
    model: Path, tmp_path: Path, run: Run, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in notes whose form lowers the threshold, as capitals do."""
    monkeypatch.setattr(options_module, "LOWERED", {"capitals": factor})
    notes = tiny_stack.notes(400, patients=6)
    gold = [note if k % 2 else replace(note, text=note.text.upper()) for k, note in enumerate(notes)]
    write_corpus(gold, tmp_path / "gold.jsonl", "jsonl")
    run("predict", model, tmp_path / "gold.jsonl", "--out", tmp_path / "found.jsonl")
    figures = []
    for number, system in enumerate((model, tmp_path / "found.jsonl")):
        out = tmp_path / f"{number}.json"
        run("evaluate", tmp_path / "gold.jsonl", system, "--resamples", 0, "--out", out)
        figures.append(json.loads(out.read_text(encoding="utf-8"))["scores"])
    assert figures[0] == figures[1]


def tokens_found(model: Path, gold: Path, threshold: float) -> Counts:
    """Count PHI tokens the slow way: predict with the threshold, then score."""
    notes = read_corpus(gold).documents
    return count_view(notes, Deidentifier.load(model).predict(notes, threshold=threshold), "token-binary").total


def with_unlearned_span(note: Document) -> Document:
    """Mark a word that was never marked in training, so that no submodel proposes it."""
    start = note.text.index("BP")
    return note.with_spans([*note.spans, Span(start, start + 2, "CITY")])


def with_unlearned_words(note: Document) -> Document:
    """Add and mark more words that no submodel proposes than a note may have single tokens."""
    starts = range(len(note.text), len(note.text) + 60 * 6, 6)
    spans = [*note.spans, *(Span(start, start + 5, "CITY") for start in starts)]
    return Document(note.id, note.text + "quiet " * 60, tuple(spans), note.patient_id)


# threshold


@pytest.mark.parametrize(("option", "wanted"), [("--sensitivity", 1.0), ("--precision", 0.9)])
def test_a_threshold_is_frozen_and_reset(
    model: Path, tiny_dev: Path, tmp_path: Path, capsys: Said, run: Run, option: str, wanted: float
) -> None:
    before = files(model)
    capsys.readouterr()
    said = run("model", "threshold", model, "--few", option, wanted, tiny_dev)
    figures = manifest(model)["figures"]
    record = figures["threshold"]
    assert isinstance(record, dict)
    threshold = record["threshold"]
    assert Deidentifier.load(model).ensemble.stacker.threshold == threshold
    assert threshold != figures["training_threshold"]
    counts = tokens_found(model, tiny_dev, threshold)
    assert said == (
        f"threshold {threshold:.4g} is now in {model}\n"
        f"on {tiny_dev}: token recall {100 * (counts.recall or 0):.2f}, precision {100 * (counts.precision or 0):.2f}, "
        "0.00 false positives in 1000 tokens\n"
    )
    assert (counts.recall if option == "--sensitivity" else counts.precision) == pytest.approx(1.0)
    trained = figures["training_threshold"]
    assert (
        run("model", "threshold", model, "--reset")
        == f"threshold {trained:.4g}, which training chose, is now in {model}\n"
    )
    assert files(model) == before
    run("model", "threshold", model, "--reset")
    assert files(model) == before


def test_a_sensitivity_out_of_reach_names_the_highest(
    model: Path, tiny_dev: Path, tmp_path: Path, capsys: Said
) -> None:
    before = files(model)
    gold = tmp_path / "gold.jsonl"
    notes = [with_unlearned_words(note) for note in read_corpus(tiny_dev)]
    write_corpus(notes, gold, "jsonl")
    assert main(["model", "threshold", str(model), str(gold), "--few", "--sensitivity", "0.99"]) == 2
    said = capsys.readouterr().err
    found = re.fullmatch(
        rf"ensemble-deid: {model}: no threshold reaches sensitivity 0\.99 on these notes: the highest is (0\.\d{{4}}), "
        r"at threshold ([\d.e-]+), with precision (\d\.\d{4}); the model is as it was\n",
        said,
    )
    assert found, said
    highest, at, precision = map(float, found.groups())
    scored = Deidentifier.load(model).predict(notes, threshold=0.0)
    scores = sorted({span.score for note in scored for span in note.spans})
    by_score = {score: count_view(notes, keep_above(scored, score), "token-binary").total for score in scores}
    recall = max(counts.recall or 0 for counts in by_score.values())
    threshold = max(score for score, counts in by_score.items() if counts.recall == recall)
    assert (highest, at) == pytest.approx((recall, threshold), abs=5e-5)
    assert precision == pytest.approx(by_score[threshold].precision, abs=5e-5)
    assert files(model) == before


def test_a_threshold_chosen_on_capitals_works_there_as_it_was_chosen(model: Path, tmp_path: Path) -> None:
    """In them the model lowers its threshold, so the scores that one is chosen on must be raised as much."""
    notes = [replace(n, text=n.text.upper()) for n in map(with_unlearned_words, tiny_stack.notes(400, patients=10))]
    assert all(threshold_factor(read(note.text)) < 1 for note in notes)
    chosen = freeze_threshold(model, notes, rule="false-positives", wanted=3.0).chosen_at
    assert chosen is not None
    found = count_view(notes, Deidentifier.load(model).predict(notes), "token-binary").total
    assert (found.tp, found.fp, found.fn) == (chosen.counts.tp, chosen.counts.fp, chosen.counts.fn)


def test_few_notes_choose_no_threshold(model: Path, tmp_path: Path, capsys: Said) -> None:
    before = files(model)
    for patients, said in ((4, "8 notes of 4 patients are too few"), (9, "18 notes of 9 patients are too few")):
        write_corpus(tiny_stack.notes(400, patients=patients), tmp_path / f"{patients}.jsonl", "jsonl")
        assert main(["model", "threshold", str(model), str(tmp_path / f"{patients}.jsonl"), "--precision", "0.9"]) == 2
        assert said in capsys.readouterr().err
    assert files(model) == before
    write_corpus(tiny_stack.notes(400, patients=10), tmp_path / "enough.jsonl", "jsonl")
    assert main(["model", "threshold", str(model), str(tmp_path / "enough.jsonl"), "--precision", "0.9"]) == 0


def test_an_exported_model_is_reset_to_what_it_came_with(model: Path, tiny_dev: Path, tmp_path: Path, run: Run) -> None:
    run("model", "threshold", model, "--few", "--sensitivity", 1.0, tiny_dev)
    shipped = tmp_path / "shipped"
    run("model", "export", model, "--out", shipped)
    came = files(shipped)
    run("model", "threshold", shipped, "--reset")
    assert files(shipped) == came
    for rule, wanted in (("--precision", 0.9), ("--max-false-positives", 1000)):
        run("model", "threshold", shipped, "--few", rule, wanted, tiny_dev)
    assert "which the model came with" in run("model", "threshold", shipped, "--reset")
    assert files(shipped) == came


def test_a_threshold_needs_a_target_or_none(model: Path, tiny_dev: Path, capsys: Said) -> None:
    assert main(["model", "threshold", str(model), "--reset", str(tiny_dev)]) == 2
    assert "--reset takes no DEV" in capsys.readouterr().err
    for arguments in ([], [str(tiny_dev)], ["--reset", "--precision=1"], ["--precision=1", "--sensitivity=1"]):
        with pytest.raises(SystemExit) as stopped:
            main(["model", "threshold", str(model), *arguments])
        assert stopped.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err
    for value, dev in itertools.product(("0", "1.5", "nan"), ([str(tiny_dev)], [])):
        assert main(["model", "threshold", str(model), *dev, "--sensitivity", value]) == 2
        assert "a wanted sensitivity must be above 0 and at most 1" in capsys.readouterr().err


def test_a_model_without_a_record_is_left_as_it_is(model: Path, capsys: Said) -> None:
    from dataclasses import replace

    update_model(model, lambda _, manifest: replace(manifest, figures={}))
    assert main(["model", "threshold", str(model), "--reset"]) == 2
    assert "has no record of the threshold of its training; the model is as it was" in capsys.readouterr().err


def test_a_threshold_on_the_command_line_is_for_that_run(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, run: Run, capsys: Said
) -> None:
    for threshold in ("0", "1"):
        run("predict", tiny_model, tiny_dev, "--out", tmp_path / threshold, "--threshold", threshold)
    expected = Deidentifier.load(tiny_model).predict(read_corpus(tiny_dev), threshold=0.0)
    found = [[span.key for span in note.spans] for note in read_corpus(tmp_path / "0")]
    assert found == [[span.key for span in note.spans] for note in expected]
    assert not any(note.spans for note in read_corpus(tmp_path / "1"))
    assert main(["deidentify", str(tiny_model), str(tiny_dev), "--out", str(tmp_path / "x"), "--threshold", "nan"]) == 2
    assert "a threshold must be a number from 0 to 1, not nan" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


# compare, annotations, report


def test_two_systems_are_compared(tiny_model: Path, tiny_dev: Path, by_regex: Path, tmp_path: Path, run: Run) -> None:
    as_json, as_csv = tmp_path / "c.json", tmp_path / "c.csv"
    files = ("--out", as_json, "--out", as_csv)
    said = run("research", "compare", tiny_dev, tiny_model, by_regex, "--resamples", 200, *files)
    lines = said.splitlines()
    assert lines[0] == "4 notes of 2 patients"
    spans = 20
    dates = 8
    assert f"  by both {dates}; only by {tiny_model} {spans - dates}; only by {by_regex} 0; by neither 0" in lines
    content = json.loads(as_json.read_text(encoding="utf-8"))
    (strict,) = [d for d in content["differences"] if (d["view"], d["measure"]) == ("strict", "f1")]
    assert strict["a"] == 1.0
    assert strict["b"] == pytest.approx(2 * dates / (spans + dates))
    assert strict["difference"] == pytest.approx(1 - strict["b"])
    # Two patients are too few for an interval.
    assert strict["difference_low"] is strict["difference_high"] is None
    # With two patients there are four exchanges, so p cannot be small.
    assert strict["p"] > 0.2
    assert as_csv.read_text(encoding="utf-8").startswith("section,view,part,name,figure,value,low,high\n")
    other = json.loads(as_json.read_text(encoding="utf-8"))
    run("research", "compare", tiny_dev, by_regex, tiny_model, "--resamples", 0, "--out", as_json)
    swapped = json.loads(as_json.read_text(encoding="utf-8"))
    assert [-d["difference"] for d in swapped["differences"]] == pytest.approx(
        [d["difference"] for d in other["differences"]]
    )


def test_two_annotators_are_compared(tiny_dev: Path, by_regex: Path, tmp_path: Path, run: Run) -> None:
    as_json = tmp_path / "a.json"
    said = run("corpus", "agreement", tiny_dev, tiny_dev, "--resamples", 0, "--out", as_json)
    assert "Cohen's kappa per token" in said
    same = json.loads(as_json.read_text(encoding="utf-8"))
    assert {kappa["kappa"] for kappa in same["kappas"]} == {1.0}
    run("corpus", "agreement", tiny_dev, by_regex, "--resamples", 0, "--out", as_json)
    apart = json.loads(as_json.read_text(encoding="utf-8"))
    (strict,) = [s for s in apart["scores"] if (s["view"], s["part"]) == ("strict", "total")]
    assert (strict["tp"], strict["fn"], strict["fp"]) == (8, 12, 0)
    assert all(kappa["kappa"] < 1 for kappa in apart["kappas"])


@pytest.mark.parametrize("options", [("--text",), ()])
def test_a_report_has_every_error_and_text_only_on_request(
    tiny_dev: Path, by_regex: Path, tmp_path: Path, run: Run, options: tuple[str, ...]
) -> None:
    page = tmp_path / "report.html"
    said = run("model", "report", tiny_dev, by_regex, "--out", page, "--resamples", 0, *options)
    contains = "PHI: keep it where the notes are kept" if options else "no note text"
    assert said == f"the report is {page}; it contains {contains}\n"
    html = page.read_text(encoding="utf-8")
    missed = [note.text[s.start : s.end] for note in read_corpus(tiny_dev) for s in note.spans if s.label == "CITY"]
    assert missed
    for surface in missed:
        assert (surface in html) == bool(options)
    for note in read_corpus(tiny_dev):
        assert note.id in html


def test_a_report_of_a_model_has_its_submodels_votes(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, run: Run
) -> None:
    page, gold = tmp_path / "report.html", tmp_path / "gold.jsonl"
    write_corpus([with_unlearned_span(note) for note in read_corpus(tiny_dev)], gold, "jsonl")
    run("model", "report", gold, tiny_model, "--out", page, "--resamples", 0, "--oracle", "--text")
    html = page.read_text(encoding="utf-8")
    assert 'aria-label="Votes of the submodels"' in html
    for name in ("regex", "tbed", "crf", "neural"):
        assert name in html
    assert "ORACLE" in html.upper()


# corpus


@pytest.mark.parametrize("format", ["i2b2", "brat", "jsonl", "plain"])
def test_a_corpus_is_converted(tiny_train: Path, tmp_path: Path, run: Run, format: str) -> None:
    out = tmp_path / "out"
    count = {"brat": 16, "jsonl": 1}.get(format, 8)
    said = run("corpus", "convert", tiny_train, "--out", out, "--format", format)
    assert said == f"8 notes written to {out} in {count} file{'' if count == 1 else 's'}\n"
    assert len(files(out)) == count
    given, written = read_corpus(tiny_train), read_corpus(out)
    assert written.format == format
    for before, after in zip(given, written, strict=True):
        assert (after.id, after.patient_id, after.text) == (before.id, before.patient_id, before.text)
        assert after.spans == (() if format == "plain" else before.spans)


def test_labels_that_a_format_lacks_stop_a_conversion(tiny_train: Path, tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "out"
    assert main(["corpus", "convert", str(tiny_train), "--out", str(out), "--format", "meddocan"]) == 2
    assert "no place in the meddocan format" in capsys.readouterr().err
    assert not out.exists() or not list(out.iterdir())


def test_a_corpus_is_resampled(tiny_train: Path, tmp_path: Path, run: Run) -> None:
    one, again, other = tmp_path / "one", tmp_path / "again", tmp_path / "other"
    options = ("--copies", 2, "--format", "i2b2")
    for out, seed in ((one, 5), (again, 5), (other, 6)):
        said = run("corpus", "resample", tiny_train, "--out", out, "--seed", seed, *options)
        assert said == f"16 resampled notes written to {out}\n"
    assert files(one) == files(again)
    assert files(one) != files(other)
    given = {note.id: note for note in read_corpus(tiny_train)}
    copies = read_corpus(one)
    assert len(copies) == 16
    for copy in copies:
        note = given[copy.id.rpartition("-")[0]]
        assert copy.group == note.group
        assert [span.label for span in copy.spans] == [span.label for span in note.spans]
        assert outside(copy) == outside(note)
        assert not surfaces(note) & surfaces(copy)


def outside(note: Document) -> list[str]:
    """Return the text between the spans."""
    ends = [0, *(span.end for span in note.spans)]
    starts = [*(span.start for span in note.spans), len(note.text)]
    return [note.text[end:start] for end, start in zip(ends, starts, strict=True)]


def surfaces(note: Document) -> set[str]:
    return {note.text[span.start : span.end] for span in note.spans}
