"""`rules learn`: a rule list by itself, from patterns, from nothing, and from the spans of another system."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.resources import rules_directory
from ensemble_deid.taggers.tbed.rule_words import rule_in_words
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.training.rules import CurvePoint, curve_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `train.jsonl`, `dev.jsonl` of other patients, and the patterns `tiny.toml`."""
    write_corpus(tiny_stack.notes(), tmp_path / "train.jsonl", "jsonl")
    write_corpus(tiny_stack.notes(400, patients=2), tmp_path / "dev.jsonl", "jsonl")
    (tmp_path / "tiny.toml").write_text(tiny_stack.PATTERNS, encoding="utf-8")
    return tmp_path


def learn(folder: Path, start: object, *more: str, status: int = 0) -> Path:
    out = folder / "list.rules"
    places = (folder / "train.jsonl", "--dev", folder / "dev.jsonl", "--start", start, "--out", out)
    assert main(["rules", "learn", *map(str, places), *more]) == status
    return out


@pytest.mark.parametrize("start", ["none", "tiny.toml"])
def test_the_list_is_that_of_a_model_of_rules_alone(
    folder: Path, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a model de-identifies by itself."""
    patterns = "none" if start == "none" else str(folder / start)
    out = learn(folder, patterns)
    table = capsys.readouterr().out.splitlines()
    model = folder / "model"
    given = [f"regex.patterns={patterns}", f"tbed.initial={'none' if start == 'none' else 'regex'}"]
    options = [part for value in given for part in ("--set", value)]
    train = ["train", str(folder / "train.jsonl"), "--dev", str(folder / "dev.jsonl"), "--out", str(model)]
    assert main([*train, "--submodels=tbed", "--quiet", "--jobs=1", *options]) == 0
    assert out.read_bytes() == (model / "tbed.rules").read_bytes()
    capsys.readouterr()
    assert main(["rules", "curve", str(model)]) == 0
    assert capsys.readouterr().out.splitlines() == table[:-1]
    found = folder / "found.jsonl"
    assert main(["predict", str(model), str(folder / "dev.jsonl"), "--submodel=tbed", "--out", str(found)]) == 0
    gold, answer = read_corpus(folder / "dev.jsonl").documents, read_corpus(found).documents
    strict, tokens = (count_view(gold, answer, view).total for view in ("strict", "token-binary"))
    figures = f"strict F1 {100 * (strict.f1 or 0):.2f}, token recall {100 * (tokens.recall or 0):.2f} on dev"
    assert figures in table[-1]
    assert [f"{100 * x:.2f}" for x in (strict.f1 or 0, tokens.recall or 0)] == table[-2].split()[-2:]
    note = folder / "note.txt"
    note.write_text(gold[0].text, encoding="utf-8")
    assert main(["deidentify", str(model), str(note), "--out", str(folder / "out.txt"), "--accept-unfit"]) == 0


def test_dev_notes_in_lower_case_are_read_in_capitals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By `rules learn` and by `train`: what was learned of notes in capitals is found in them."""
    capitals = [replace(note, text=note.text.upper()) for note in read_corpus(folder / "train.jsonl")]
    write_corpus(capitals, folder / "train.jsonl", "jsonl")
    prose = " the patient was seen on the ward by the team and went home. "
    low = [replace(note, text=note.text.lower() + prose) for note in read_corpus(folder / "dev.jsonl")]
    write_corpus(low, folder / "dev.jsonl", "jsonl")
    settings = ("--set", "tbed.cv_folds=0", "--set", "tbed.templates=small.toml")
    (folder / "small.toml").write_text('name = "small"\ntemplates = ["shape[0] & word[-1]"]\n', encoding="utf-8")
    settings = tuple(part.replace("small.toml", str(folder / "small.toml")) for part in settings)
    learn(folder, "none", *settings)
    table = capsys.readouterr().out.splitlines()
    assert float(table[-2].split()[-1]) > 50
    assert f"token recall {table[-2].split()[-1]} on dev" in table[-1]
    model = folder / "model"
    train = ["train", str(folder / "train.jsonl"), "--dev", str(folder / "dev.jsonl"), "--out", str(model)]
    start = ("--set", "regex.patterns=none", "--set", "tbed.initial=none")
    assert main([*train, "--submodels=tbed", "--quiet", "--jobs=1", *start, *settings]) == 0
    capsys.readouterr()
    assert main(["rules", "curve", str(model)]) == 0
    assert capsys.readouterr().out.splitlines() == table[:-1]


@pytest.mark.parametrize("rules", [1, 2, 4, 9])
def test_the_curve_ends_where_the_whole_list_does(folder: Path, rules: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Also with marks, other letters and spans that begin inside a token, and where only a part is found."""
    told = tiny_stack.note(
        "900-01",
        "Patient: ",
        ("Jürgen Öz-Bell", "PATIENT"),
        " of S",
        ("Westport", "CITY"),
        "\nDate: ",
        ("01 / 12 / 2019", "DATE"),
        "\nSeen by Dr. Bell",
        (", Diaz", "DOCTOR"),
        " on 02/1",
        ("0/2019", "DATE"),
        patient="900",
    )
    write_corpus([*tiny_stack.notes(400, patients=2), told], folder / "dev.jsonl", "jsonl")
    learn(folder, folder / "tiny.toml", "--set", "tbed.cv_folds=0", "--set", f"tbed.max_rules={rules}")
    *_, last, said = capsys.readouterr().out.splitlines()
    number, _, f1, recall = last.split()
    assert f"{number} rule" in said
    assert f"strict F1 {f1}, token recall {recall} on dev" in said


@pytest.mark.parametrize(
    ("start", "more", "said"),
    [
        ("none", ("--set", "tbed.initial=regex"), "--set tbed.initial: --start says what the rules start from"),
        ("rooms.jsonl", (), "rooms.jsonl: none of its labels is among those of the notes: CITY, "),
    ],
)
def test_what_cannot_be_started_from(
    folder: Path, start: str, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = [*read_corpus(folder / "train.jsonl"), *read_corpus(folder / "dev.jsonl")]
    rooms = [note.with_spans([Span(0, 7, "ROOM")]) for note in notes]
    write_corpus(rooms, folder / "rooms.jsonl", "jsonl")
    learn(folder, start if start == "none" else folder / start, *more, status=2)
    assert said in capsys.readouterr().err


def test_notes_learned_from_measure_nothing_unless_that_is_meant(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tiny_stack.notes(), folder / "dev.jsonl", "jsonl")
    learn(folder, "none", status=2)
    assert "--allow-overlap if this is meant" in capsys.readouterr().err
    learn(folder, "none", "--allow-overlap")


def test_a_list_for_people_is_short_and_quotes_no_name(folder: Path) -> None:
    rules = RuleList.load(learn(folder, "none", "--for-people", "--set", "tbed.cv_folds=0"))
    assert 0 < len(rules) <= 60
    assert rules.header["templates"] == "plain"
    seen = {condition.window.column for rule in rules for condition in rule.conditions}
    assert seen <= {"tag", "lower", "case", "digits", "field", "line_prefix", "section", "in_note"}
    said = {c.value for rule in rules for c in rule.conditions if c.window.column == "lower"}
    notes = read_corpus(folder / "train.jsonl").documents
    names = {word.lower() for note in notes for span in note.spans for word in note.text[span.start : span.end].split()}
    assert not said & names
    assert all(rule.fixed >= 0.9 * (rule.fixed + rule.broken) for rule in rules)


def test_the_committed_list_for_people_is_short_and_plain() -> None:
    """Made by `rules learn` with `--for-people`; see research/reports/2026-11-rules-for-people.md."""
    rules = RuleList.load(rules_directory() / "learned" / "people.rules")
    assert 0 < len(rules) <= 60
    assert all(rule.fixed >= 0.9 * (rule.fixed + rule.broken) for rule in rules)
    assert not any(" column " in rule_in_words(rule) for rule in rules)


def confused(document: Document) -> Document:
    """Return what another system finds: doctors it takes for patients, and it knows a label that the notes lack."""
    spans = [replace(span, label={"DOCTOR": "PATIENT"}.get(span.label, span.label)) for span in document.spans]
    return document.with_spans([*spans, Span(0, 1, "ROOM")])


def test_rules_correct_the_spans_of_another_system(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, dev = (read_corpus(folder / name).documents for name in ("train.jsonl", "dev.jsonl"))
    given = [confused(document) for document in (*train, *dev)]
    write_corpus(given, folder / "other.jsonl", "jsonl")
    rules = RuleList.load(learn(folder, folder / "other.jsonl"))
    assert rules.header["initial tagger"] == "spans of other.jsonl"
    assert [set(rule.labels) for rule in rules] == [{"DOCTOR", "PATIENT"}]
    lines = capsys.readouterr().out.splitlines()
    before = count_view(dev, [confused(document) for document in dev]).total
    assert 0 < (before.f1 or 0) < 1
    assert lines[-1].startswith("1 rule: strict F1 100.00, token recall 100.00 on dev")
    assert lines[1].split()[0] == "0"
    assert lines[1].split()[-1] == "100.00"


def test_a_model_is_another_system(folder: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = RuleList.load(learn(folder, tiny_model))
    assert rules.header["initial tagger"] == "spans of model"
    assert "among the model's training notes" in capsys.readouterr().err


def test_what_cannot_be_learned_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, dev = (read_corpus(folder / name).documents for name in ("train.jsonl", "dev.jsonl"))
    write_corpus([confused(document) for document in train], folder / "half.jsonl", "jsonl")
    for start, message in (
        (folder / "half.jsonl", "400-01: recognizer half.jsonl: the file has no line with the text of this note"),
        ("nothing", "--start: expected none, patterns (.toml), spans (.jsonl) or a model, not 'nothing'"),
        (folder / "no.toml", "no.toml"),
    ):
        learn(folder, start, status=2)
        assert message in capsys.readouterr().err
    write_corpus(train[:2], folder / "dev.jsonl", "jsonl")
    learn(folder, "none", status=2)
    assert "for dev" in capsys.readouterr().err
    write_corpus([document.with_spans(()) for document in dev], folder / "dev.jsonl", "jsonl")
    learn(folder, "none", status=2)
    assert "no annotated PHI to measure the rules by" in capsys.readouterr().err
    assert not (folder / "list.rules").exists()


def test_the_curve_as_text() -> None:
    points = [CurvePoint(k, k / 12, None, k / 24) for k in range(13)]
    assert curve_lines(points) == [
        "rules  F1 on train  F1 on dev  token recall on dev",
        "    0         0.00  undefined                 0.00",
        "    1         8.33  undefined                 4.17",
        "    2        16.67  undefined                 8.33",
        "    5        41.67  undefined                20.83",
        "   10        83.33  undefined                41.67",
        "   12       100.00  undefined                50.00",
    ]
