"""`report` for those who decide: the first page says what was scored, and `--summary` keeps the errors apart."""

import argparse
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.cli.report_facts import read_name_lists, report_day, report_facts
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.installed import InstalledModel
from ensemble_deid.model.manifest import fingerprint, read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

DAY = ["--date", "2026-01-05"]


def report(gold: Path, system: Path, out: Path, *more: object) -> str:
    arguments = [
        "model",
        "report",
        str(gold),
        str(system),
        "--out",
        str(out),
        "--resamples",
        "50",
        *DAY,
    ]
    assert main([*arguments, *map(str, more)]) == 0
    return out.read_text(encoding="utf-8")


def span_of(note: Document, words: str) -> Span:
    start = note.text.index(words)
    return Span(start, start + len(words), "PATIENT")


def facts(page: str) -> dict[str, str]:
    """Return the rows of the first table."""
    table = page[page.index('id="front"') :].partition("</table>")[0]
    rows = re.findall(r'<th scope="row">(.*?)</th><td[^>]*>(.*?)</td>', table)
    plain = re.compile("<[^>]+>")
    return {plain.sub("", name): plain.sub("", value) for name, value in rows}


def test_the_first_page_says_what_was_scored(tmp_path: Path, tiny_model: Path, tiny_dev: Path) -> None:
    page = report(tiny_dev, tiny_model, tmp_path / "r.html", "--annotators", "two nurses", "--agreement", "kappa 0.9")
    manifest = read_manifest(tiny_model)
    found = facts(page)
    assert found["Date"] == "2026-01-05"
    assert found["Model"] == "model"
    assert found["Checksum of the model"] == manifest.checksum
    assert found["SHA-256 of the rule list"] == manifest.files["tbed.rules"]
    assert found["Approved rules"].startswith("0 of ")
    assert found["Threshold"].endswith(": the best strict F1 by cross-validation on the training notes")
    assert found["Trained on"] == "8 notes of 4 patients"
    assert found["Fingerprint of the training notes"] == manifest.fingerprint
    assert found["Fingerprint of the scored notes"] == fingerprint(read_corpus(tiny_dev).documents)
    assert found["Annotated by"] == "two nurses"
    assert found["Agreement of the annotators"] == "kappa 0.9"
    assert manifest.packages["numpy"] in found["Made with"]
    assert "Python 3." in found["Software"]
    assert page.index('id="front"') < page.index('id="summary"')
    assert "Sign-off." in page
    assert "Patients with a leak" in page


def test_the_first_page_follows_the_model(tmp_path: Path, tiny_model: Path, tiny_dev: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    assert main(["rules", "approve", str(model), "--rule", "1", "--by", "Ada", "--date", "2026-01-02"]) == 0
    assert main(["model", "threshold", str(model), str(tiny_dev), "--few", "--max-false-positives", "7"]) == 0
    found = facts(report(tiny_dev, model, tmp_path / "r.html"))
    assert "1 by Ada on 2026-01-02" in found["Approved rules"]
    assert "chosen on 4 notes for the highest token recall at 7 false positives in 1000" in found["Threshold"]
    assert found["Annotated by"] == found["Agreement of the annotators"] == "not stated"
    assert main(["model", "threshold", str(model), "--reset"]) == 0
    assert "the best strict F1" in facts(report(tiny_dev, model, tmp_path / "r.html"))["Threshold"]


def test_the_report_finds_out_what_the_notes_were_used_for(
    tmp_path: Path, tiny_model: Path, tiny_train: Path, tiny_dev: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)

    def used(gold: Path, system: Path = model) -> str:
        return facts(report(gold, system, tmp_path / "r.html", "--summary"))["Used before"]

    other = tmp_path / "other.jsonl"
    write_corpus([tiny_stack.note("z", "Seen by ", ("Zed Quill", "DOCTOR"), ".", patient="600")], other, "jsonl")
    assert used(other) == "no use on record"
    assert used(tiny_train).startswith("8 of 8 notes and 4 of 4 patients were training notes")
    dev = len(read_corpus(tiny_dev).documents)
    assert main(["model", "threshold", str(model), str(tiny_dev), "--few", "--sensitivity", "0.5"]) == 0
    assert f"the threshold was chosen on {dev} of them" in used(tiny_dev)
    # A changed order of notes is the same corpus; the fingerprint tells.
    assert ("the dev notes of training" in used(tiny_dev)) == (
        read_manifest(model).dev_fingerprint == fingerprint(read_corpus(tiny_dev).documents)
    )
    part = tmp_path / "part.jsonl"
    write_corpus(read_corpus(tiny_dev).documents[:1], part, "jsonl")
    assert used(part) == "the threshold was chosen on 1 of them; 1 of them were dev notes of training"
    exported = tmp_path / "exported"
    assert main(["model", "export", str(model), "--out", str(exported)]) == 0
    assert "not on record for training and the choice of the threshold" in used(other, exported)
    project = tmp_path / "project"
    package = ["model", "package", str(model), "--name", "open", "--version", "1.0", "--out", str(project)]
    assert main([*package, "--public-notes", str(other)]) == 2
    assert main([*package, "--public-notes", str(tiny_train), "--public-notes", str(tiny_dev)]) == 0
    packaged = project / "ensemble_deid_open" / "model"
    assert used(tiny_train, packaged) == "8 of 8 notes were training notes"
    assert used(tiny_dev, packaged) == used(tiny_dev)
    assert used(other, packaged) == "no use on record"
    # The threshold that it came with comes back, not that of training.
    came = read_manifest(packaged).checksum
    assert main(["model", "threshold", str(packaged), str(tiny_dev), "--few", "--max-false-positives", "7"]) == 0
    assert main(["model", "threshold", str(packaged), "--reset"]) == 0
    assert read_manifest(packaged).checksum == came


def test_an_installed_model_has_the_first_page_of_its_folder(
    tmp_path: Path, tiny_model: Path, tiny_dev: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = InstalledModel("ours", "ensemble_deid_ours", "1.0.0", tiny_model)
    monkeypatch.setattr("ensemble_deid.model.installed.installed_models", lambda: {"ours": found})
    options = argparse.Namespace(gold=str(tiny_dev), date="2026-01-05", annotators=None, agreement=None)
    pages = []
    for system in ("ours", str(tiny_model)):
        options.system = system
        pages.append(report_facts(options, read_corpus(tiny_dev)))
    assert pages[0] == pages[1]
    assert dict(pages[0])["Model"] == "ours (ensemble_deid_ours 1.0.0)"


def test_models_without_rules_and_annotations_from_a_folder(
    tmp_path: Path, tiny_model: Path, tiny_train: Path, tiny_dev: Path
) -> None:
    model = tmp_path / "model"
    arguments = [*tiny_stack.settings(tmp_path), "--submodels=regex", "--recall-first"]
    assert main(["train", str(tiny_train), "--out", str(model), *arguments]) == 0
    found = facts(report(tiny_dev, model, tmp_path / "r.html"))
    assert found["Rule list"] == "none: trained without tbed"
    assert "highest token recall at up to 15 false positives" in found["Threshold"]
    found = facts(report(tiny_dev, tiny_dev, tmp_path / "r.html"))
    assert found["System"] == f"{tiny_dev} (annotations)"
    assert "Model" not in found


def test_the_same_report_on_the_same_day(
    tmp_path: Path, tiny_model: Path, tiny_dev: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = report(tiny_dev, tiny_model, tmp_path / "a.html")
    assert report(tiny_dev, tiny_model, tmp_path / "b.html") == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert report_day(None) == "1970-01-02"
    assert report_day("2026-02-03") == "2026-02-03"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH is 'soon'"):
        report_day(None)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", report_day(None))
    with pytest.raises(ConfigError, match="--date tomorrow: expected YYYY-MM-DD"):
        report_day("tomorrow")


def test_the_summary_keeps_the_errors_apart(
    tmp_path: Path, tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = tmp_path / "gold.jsonl"
    notes = [note.with_spans([*note.spans, span_of(note, "chest pain")]) for note in read_corpus(tiny_dev)]
    write_corpus(notes, gold, "jsonl")
    page = report(gold, tiny_model, tmp_path / "r.html", "--summary", "--text")
    said = capsys.readouterr().out
    errors = (tmp_path / "r-errors.html").read_text(encoding="utf-8")
    assert f"the report is {tmp_path / 'r.html'}; it contains no note text" in said
    assert f"the list of errors is {tmp_path / 'r-errors.html'}; it contains PHI" in said
    for name in ("front", "summary", "leaks", "subgroups", "labels"):
        assert f'<section id="{name}"' in page
        assert f'<section id="{name}"' not in errors
    for name in ("confusion", "curves", "errors", "guide"):
        assert f'<section id="{name}"' not in page
        assert f'<section id="{name}"' in errors
    # Every link leads somewhere, and no surname of the notes is in what is printed.
    for text in (page, errors):
        assert set(re.findall(r'href="#([^"]+)"', text)) <= set(re.findall(r'id="([^"]+)"', text))
    phi = {note.text[s.start : s.end] for note in notes for s in note.spans}
    assert not [string for string in phi if string in page]
    assert "chest pain" in errors


def test_groups_of_names_and_seen_strings(tmp_path: Path, tiny_model: Path, tiny_dev: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("# from a census\nAnna\n\nBell  # also a bell\n", encoding="utf-8")
    assert read_name_lists([f"British={names}"]) == {"British": frozenset({"anna", "bell"})}
    page = report(tiny_dev, tiny_model, tmp_path / "r.html", "--name-list", f"British={names}")
    part = page[page.index('id="subgroups"') : page.index('id="labels"')]
    assert '<th scope="row">British</th>' in part
    assert '<th scope="row">on no list</th>' in part
    assert '<th scope="row">unseen</th>' in part
    plain = report(tiny_dev, tiny_dev, tmp_path / "r.html")
    assert "No lists of names by origin were given" in plain
    assert "The system is not a model" in plain


@pytest.mark.parametrize("content", [None, b"\xff", b"# none\n"])
def test_lists_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "names.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"names\.txt: (cannot be read|not UTF-8|has no name)"):
        read_name_lists([f"x={path}"])


@pytest.mark.parametrize("entries", [["x"], ["=f"], ["x="], ["x=/dev/null", "x=/dev/null"]])
def test_lists_are_named_once(entries: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_name_lists(entries)


def test_labels_restrict_the_groups_too(tmp_path: Path, tiny_model: Path, tiny_dev: Path) -> None:
    page = report(tiny_dev, tiny_model, tmp_path / "r.html", "--labels", "CITY")
    part = page[page.index('id="subgroups"') : page.index('id="labels"')]
    cities = sum(span.label == "CITY" for note in read_corpus(tiny_dev) for span in note.spans)
    assert cities == 4
    counts = re.findall(r'<th scope="row">mixed</th><td>(\d+)</td>', part)
    assert set(counts) == {"4"}


def test_a_manifest_without_choices_is_told_as_it_is(tmp_path: Path, tiny_model: Path, tiny_dev: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    update_model(model, lambda directory, m: replace(m, choices={"patterns": m.choices["patterns"]}))
    assert facts(report(tiny_dev, model, tmp_path / "r.html"))["Threshold"].endswith("as training left it")
    assert json.loads((model / "manifest.json").read_text(encoding="utf-8"))["choices"]["patterns"]
