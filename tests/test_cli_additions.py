"""Patterns and inclusion lists in a trained model: added, used, recorded, taken out again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_stack
from tiny_notes import PATTERNS, SCHEME, plain

from ensemble_deid.cli.main import main
from ensemble_deid.config import RegexConfig
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import plain_batch, select_documents
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.model.additions import check_proposer
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.package import export_model
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.regex import RegexTagger

PAIN = """
[[pattern]]
name = "pain"
label = "CITY"
regex = 'for (chest pain)'
group = 1
confidence = 0.9
positive = ["seen for «chest pain»"]
"""


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the model, to be changed."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command, check its exit status, and return what it printed (what it complained of, for status 2)."""

    def run_command(*arguments: object, status: int = 0) -> str:
        assert main([*map(str, arguments)]) == status
        said = capsys.readouterr()
        complained = said.out if status == 2 else said.err
        assert all("measured before the model was changed" in line for line in complained.splitlines())
        return said.err if status == 2 else said.out

    return run_command


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_matches_of_added_patterns_are_candidates_of_the_regex_submodel() -> None:
    train = [Document("1", "100 mg 4711", (Span(7, 11, "ID"),)), Document("2", "10/10", (Span(0, 5, "DATE"),))]
    tagger = RegexTagger.fit(plain(train), None, FitOptions(SCHEME, RegexConfig(), seed=13))
    added = parse_patterns(
        "[[pattern]]\nname='long'\nlabel='ID'\nregex='no \\d+'\nconfidence=0.9\n"
        "[[pattern]]\nname='unmeasured'\nlabel='NAME'\nregex='Lee'"
    )
    notes = [Document("3", "11/12 is a date"), Document("4", "Lee has no 5678")]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True, added=added)
    without = plain_batch(notes, patterns=PATTERNS, split_lines=True)
    assert {name: batch.table[name].strings() for name in batch.table.names} == {
        name: without.table[name].strings() for name in without.table.names
    }
    proposals = tagger.propose(batch, n_best=1)
    long, lee = Span(8, 15, "ID", 0.9, "long"), Span(0, 3, "NAME", 0.5, "unmeasured")
    assert proposals.best[1] == (lee, long)
    assert proposals.candidates[1] == (Span(11, 15, "ID", 2 / 4, "number"), long, lee)
    assert proposals.best[0] == tagger.propose(without, n_best=1).best[0]
    assert tagger.propose(select_documents(batch, [1]), n_best=1).best == proposals.best[1:]


def test_patterns_are_added_used_shown_and_removed(model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    note = tiny_stack.note("a", "Seen for chest pain.", patient="a")
    before = Deidentifier.load(model)
    assert "no pattern was added" in run("model", "patterns", "show", model)
    file = write(tmp_path / "pain.toml", PAIN)
    assert "1 added pattern; " in run("model", "patterns", "add", model, file, "--remark", "a trial")
    shown = run("model", "patterns", "show", model)
    assert parse_patterns(shown).patterns == parse_patterns(PAIN).patterns

    changed = Deidentifier.load(model)
    (found,) = changed.predict([note], submodel="regex")
    assert [(span.key, span.score, span.source) for span in found.spans] == [((9, 19, "CITY"), 0.9, "pain")]
    assert before.predict([note], submodel="regex")[0].spans == ()
    # The final estimator has it before it, as a candidate.
    assert (9, 19, "CITY") in {span.key for span in changed.predict([note], threshold=0.0)[0].spans}

    assert "has a pattern of this name" in run("model", "patterns", "add", model, file, status=2)
    assert "no added pattern is named 'slashed date'" in run(
        "model", "patterns", "remove", model, "slashed date", status=2
    )
    assert "0 added patterns" in run("model", "patterns", "remove", model, "pain")
    records = read_manifest(model).choices["added_patterns"]
    assert [set(record) for record in records] == [
        {"before", "after", "added", "remark"},
        {"before", "after", "removed", "remark"},
    ]
    assert records[0]["after"] == records[1]["before"] != ""
    assert (records[0]["before"], records[1]["after"], records[0]["remark"]) == ("", "", "a trial")
    assert not (model / "added_patterns.toml").exists()
    assert Deidentifier.load(model).predict([note], threshold=0.0) == before.predict([note], threshold=0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("CITY", "PLANET"), "the model has no label 'PLANET'; it has: CITY"),
        (('"pain"', '"slashed date"'), "the model has a pattern of this name"),
        (("seen for «chest", "seen with «chest"), "pain: positive example 1"),
        (("for (chest pain)", "((?:a|aa|a)+[bc])"), "takes more than"),
    ],
)
def test_patterns_that_do_not_fit_change_nothing(
    model: Path, tmp_path: Path, run: Callable[..., str], change: tuple[str, str], message: str
) -> None:
    before = (model / "manifest.json").read_bytes()
    file = write(tmp_path / "my.toml", PAIN.replace(*change))
    said = run("model", "patterns", "add", model, file, status=2)
    assert f"{file}: " in said
    assert message in said
    assert (model / "manifest.json").read_bytes() == before


def test_added_patterns_need_the_submodel_that_proposes_them(tmp_path: Path) -> None:
    check_proposer(tmp_path, None, ("crf",))
    check_proposer(tmp_path, PATTERNS, ("crf", "regex"))
    with pytest.raises(ConfigError, match="the submodel regex must be loaded, too"):
        check_proposer(tmp_path, PATTERNS, ("crf",))


def test_check_counts_hits_and_writes_the_precision(tmp_path: Path, run: Callable[..., str]) -> None:
    notes = [
        tiny_stack.note("a", "From ", ("Lyndale", "CITY"), ", seen for chest pain", patient="a"),
        tiny_stack.note("b", "seen for ", ("chest pain", "CITY"), patient="b"),
    ]
    write_corpus(notes, tmp_path / "notes.jsonl", "jsonl")
    file, out = write(tmp_path / "pain.toml", PAIN), tmp_path / "measured.toml"
    lines = run("model", "patterns", "check", file, tmp_path / "notes.jsonl", "--out", out).splitlines()
    assert [line.split() for line in lines[1:]] == [["pain", "CITY", "2", "1", "1"], ["all", "2", "1", "1"]]
    assert parse_patterns(out.read_text()).patterns[0].confidence == 0.5
    assert "the output is the input" in run(
        "model", "patterns", "check", file, tmp_path / "notes.jsonl", "--out", file, status=2
    )


def test_harvest_and_inclusion_list_go_into_a_model(
    model: Path, tiny_train: Path, tiny_dev: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    patterns, sentences = tmp_path / "patterns.toml", tmp_path / "sentences.toml"
    counts = ("--min-patients", 3, "--min-occurrences", 4, "--sentence-patients", 3)
    said = run("corpus", "harvest", tiny_train, "--out", patterns, "--sentences", sentences, *counts).splitlines()
    # Patient, date, town, the doctor's sentence, and the date at the end.
    assert said[0].startswith("5 patterns of 5 templates written")
    assert said[1] == "on notes held out such patterns found 40 spans, 0 of them wrong"
    assert said[2].startswith("1 sentence written")
    assert "sentences = [\n    'BP 120/80.',  # 4 patients\n]" in sentences.read_text()
    assert run("model", "patterns", "check", patterns, tiny_dev).splitlines()[-1].split() == ["all", "20", "20", "0"]
    run("model", "patterns", "add", model, patterns)
    assert len(read_corpus(tiny_dev).documents) == 4

    assert run("model", "inclusion", "check", sentences, tiny_dev).splitlines() == [
        "4 sentences of 24 are on the list",
        "0 spans would be dropped; 0 of them overlap an annotation",
    ]
    assert "inclusion list" in run("model", "inclusion", "remove", model, status=2)
    listed = write(tmp_path / "listed.toml", "sentences = ['Date: 01/10/2019']")
    text = "Date: 01/10/2019\nBack on 01/10/2019."
    whole = Deidentifier.load(model).predict([Document("a", text)], threshold=0.0)[0].spans
    run("model", "inclusion", "put", model, listed)
    deidentifier = Deidentifier.load(model)
    assert "Date: 01/10/2019" in run("model", "inclusion", "show", model)
    first = [span for span in whole if span.end <= 16]
    assert first
    kept = deidentifier.predict([Document("a", text)], threshold=0.0)[0].spans
    assert kept == tuple(span for span in whole if span not in first)
    (each,) = deidentifier.predict_each([Document("a", text)], threshold=0.0)
    assert isinstance(each, Document)
    assert each.spans == kept
    (known,) = deidentifier.predict_each([Document("a", text)], threshold=0.0, must_stay=lambda _: [Span(0, 16, "ID")])
    assert isinstance(known, Document)
    assert known.spans == whole

    (tmp_path / "notes").mkdir()
    write(tmp_path / "notes" / "a.txt", text)
    said = [run("deidentify", model, tmp_path / "notes", "--out", tmp_path / "clean", "--threshold", 0, "--quiet")]
    assert f"{len(first)} span" in said[0] or f"{len(first)} spans" in said[0]
    assert "spans dropped in sentences of the inclusion list" in said[0]
    with pytest.raises(ModelError, match="was added after training"):
        export_model(model, tmp_path / "shared", shareable=True)
    run("model", "inclusion", "remove", model)
    records = json.loads((model / "manifest.json").read_text())["choices"]["inclusion_list"]
    assert [record["sentences"] for record in records] == ["1", "0"]
