"""`ensemble-deid rules`, each action as a user runs it."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import tiny_stack
from fastapi.testclient import TestClient

from ensemble_deid.cli.main import main
from ensemble_deid.cli.report_facts import model_facts
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.render.html import markup
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.rules import RuleDesk, make_rules_app
from ensemble_deid.service.settings import ServiceSettings
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.training.rule_approvals import Approval, rule_approvals
from ensemble_deid.training.rule_replacement import keep_approved_rules
from ensemble_deid.training.rule_review import review_rules
from ensemble_deid.training.rules import RuleModel
from research.rules_in_stack import answers, rows

HEADER = 'ensemble-deid rule list, version 1\ncorpus: "by hand"\ntemplates: "none"\ninitial tagger: "regex"\n\n'
# What the lexicon says, then its opposite for one town.
LEXICON_RULES = """change O to B-CITY if the lexicon is "B-CITY"
change B-CITY to O if the lower is "westport"
"""


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the model, to be changed."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `rules ...`, check its exit status, and return what it printed (what it complained of, for status 2)."""

    def run_rules(*arguments: object, status: int = 0) -> str:
        assert main(["rules", *map(str, arguments)]) == status
        said = capsys.readouterr()
        assert (said.out if status == 2 else said.err) == ""
        return said.err if status == 2 else said.out

    return run_rules


def write_rules(path: Path, rules: str, header: str = HEADER) -> Path:
    path.write_text(header + rules, encoding="utf-8")
    return path


def learned(model: Path) -> str:
    return (model / "tbed.rules").read_text(encoding="utf-8")


def towns() -> list[Document]:
    """Return notes of two patients: one town that training knows, and one that only the first note's gold tells."""
    return [
        tiny_stack.note("a", "From ", ("Lyndale", "CITY"), " and ", ("Newville", "CITY"), ".", patient="a"),
        tiny_stack.note("b", "Newville and Lyndale are far from ", ("Westport", "CITY"), ".", patient="b"),
    ]


def found_towns(folder: Path) -> list[list[str]]:
    return [[note.text[span.start : span.end] for span in note.spans] for note in read_corpus(folder)]


def test_show_chooses_rules_by_label_template_and_number(tiny_model: Path, run: Callable[..., str]) -> None:
    lines = learned(tiny_model).splitlines(keepends=True)
    header, rules = "".join(lines[:5]), lines[5:]
    assert len(rules) == 4
    assert run("show", tiny_model) == learned(tiny_model)
    assert run("show", tiny_model, "--labels", "CITY") == header + rules[0] + rules[2]
    assert run("show", tiny_model, "--labels", "CITY", "--top", 1) == header + rules[0]
    assert run("show", tiny_model, "--template", "tag[-1]&short_shape[0]") == header + rules[3]
    assert run("show", tiny_model, "--labels", "DATE, CITY") == run("show", tiny_model, "--labels", "DATE,CITY")
    assert "--template, column 5" in run("show", tiny_model, "--template", "word", status=2)
    assert "the model has no label 'TOWN'; it has: " in run("show", tiny_model, "--labels", "TOWN", status=2)
    assert "--top: at least 1, not -1" in run("show", tiny_model, "--top", "-1", status=2)


def test_rules_see_a_note_as_the_model_does(tiny_model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    """A note in lower case is read in capitals."""
    prose = "the patient came from lyndale with chest pain and was seen on the ward by the team in the morning. "
    rules = write_rules(tmp_path / "my.rules", 'change O to B-CITY if the word is "LYNDALE"\n')
    start = prose.index("lyndale")
    spans = [Span(k * len(prose) + start, k * len(prose) + start + len("lyndale"), "CITY") for k in range(6)]
    write_corpus([Document("a", 6 * prose, tuple(spans))], tmp_path / "low.jsonl", "jsonl")
    checked = run("check", tiny_model, tmp_path / "low.jsonl", "--rules", rules).splitlines()
    assert checked[1].split()[:4] == ["1", "6", "0", "6"]


def test_explain_tells_the_places_that_apply_finds(model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    """A span over the end of a reversed run stands in two places of the note."""
    rules = 'change O to B-CITY if the word is "Bell"\nchange O to I-CITY if the tag 1 before is "B-CITY"\n'
    run("replace", model, write_rules(tmp_path / "my.rules", rules))
    write_corpus([Document("a", "For \u202elleB annA\u202c of Lyndale.\n")], tmp_path / "turned.jsonl", "jsonl")
    run("apply", model, tmp_path / "turned.jsonl", "--out", tmp_path / "found")
    (note,) = read_corpus(tmp_path / "found").documents
    places = [f"{span.start}-{span.end} {span.label}" for span in note.spans]
    assert len(places) == 2
    explained = run("explain", model, tmp_path / "turned.jsonl").splitlines()
    assert [line for line in explained if line.endswith(" CITY")] == places


def test_show_puts_rules_into_words(tiny_model: Path, run: Callable[..., str]) -> None:
    assert run("show", tiny_model, "--words", "--labels", "CITY") == (
        "approved: 0 of 4 rules\n"
        "   1  where the word before is ':' and the word has the shape Xx (capitals, then small letters): "
        "tag the untagged word as the beginning of a CITY (fixed 8, broken 0)\n"
        "   3  where the second word before is 'patient' and the word before is ':': "
        "tag the word as the beginning of a PATIENT, no longer as the beginning of a CITY (fixed 8, broken 0)\n"
    )
    assert len(run("show", tiny_model, "--words").splitlines()) == 5


def test_check_counts_each_rule_at_its_turn(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    lines = run("check", tiny_model, tiny_dev).splitlines()
    assert [line.split()[:4] for line in lines[:5]] == [
        ["rule", "fixed", "broken", "score"],
        *([str(number), "4", "0", "4"] for number in (1, 2, 3, 4)),
    ]
    assert lines[5:] == ["rules that never fire here: none", "rules that hurt here: none"]
    rules = """change O to B-CITY if the lower is "nowhere"
change B-DATE to O if any shape from here to here is "dd/dd/dddd"
change B-DATE to O if the lower 1 before is "on"
change O to B-DATE if the lower 1 before is "on"
"""
    lines = run("check", tiny_model, tiny_dev, "--rules", write_rules(tmp_path / "my.rules", rules)).splitlines()
    assert [line.split()[:4] for line in lines[1:5]] == [
        ["1", "0", "0", "0"],
        ["2", "0", "0", "0"],
        ["3", "0", "4", "-4"],
        ["4", "4", "0", "4"],
    ]
    assert lines[5:] == ["rules that never fire here: 1, 2", "rules that hurt here: 3"]


def test_a_label_that_the_model_does_not_know_cannot_be_put_right(
    tiny_model: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    rules = write_rules(tmp_path / "my.rules", 'change O to B-CITY if the lower is "ward"\n')
    note = tiny_stack.note("a", "In ", ("ward", "UNIT"), " of the ward.")
    write_corpus([note], tmp_path / "notes.jsonl", "jsonl")
    row = run("check", tiny_model, tmp_path / "notes.jsonl", "--rules", rules).splitlines()[1]
    assert row.split()[:4] == ["1", "0", "1", "-1"]


def test_diff_tells_the_lists_apart(tiny_model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    lines = learned(tiny_model).splitlines(keepends=True)
    other = tmp_path / "other.rules"
    other.write_text("".join([*lines[:5], lines[6], 'change O to B-CITY if the word is "Elm"\n', *lines[7:]]))
    said = run("diff", tiny_model / "tbed.rules", other, status=1)
    assert said == f'- 1: {lines[5]}+ 2: change O to B-CITY if the word is "Elm" (fixed 0, broken 0)\n2 differences\n'
    assert run("diff", other, other) == "the lists apply the same rules in the same order\n"


def test_explain_names_pattern_and_rules_of_each_span(
    tiny_model: Path, tiny_train: Path, run: Callable[..., str]
) -> None:
    rules = learned(tiny_model).splitlines()[5:]
    said = run("explain", tiny_model, tiny_train / "300-01.xml")
    assert said.splitlines()[:6] == [
        "9-19 PATIENT",
        "    started by no pattern",
        *(f"    rule {number}: {rules[number - 1]}" for number in (1, 3, 4)),
        "26-36 DATE",
    ]
    assert "    started by the pattern slashed date\n" in said
    assert said.endswith("\n5 spans\n")
    assert "Maria" not in said
    assert "9-19 PATIENT 'Maria Hunt'\n" in run("explain", tiny_model, tiny_train / "300-01.xml", "--text")
    assert "expected one note, not 8" in run("explain", tiny_model, tiny_train, status=2)


@pytest.mark.parametrize("format", ["i2b2", "jsonl"])
def test_apply_writes_what_the_tbed_submodel_finds(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, run: Callable[..., str], format: str
) -> None:
    """With its own rules, and with the same rules from a file: the very bytes of `predict --submodel tbed`."""
    outputs = [tmp_path / name for name in ("predicted", "own", "same")]
    arguments = ["predict", str(tiny_model), str(tiny_dev), "--submodel", "tbed", "--format", format]
    assert main([*arguments, "--out", str(outputs[0])]) == 0
    (tmp_path / "same.rules").write_text(learned(tiny_model), encoding="utf-8")
    for out, more in ((outputs[1], ()), (outputs[2], ("--rules", tmp_path / "same.rules"))):
        assert main([*map(str, ("rules", "apply", tiny_model, tiny_dev, "--out", out, "--format", format, *more))]) == 0
    contents = [{path.name: path.read_bytes() for path in out.iterdir()} for out in outputs]
    assert contents[0] == contents[1] == contents[2]
    assert sum(len(note.spans) for note in read_corpus(outputs[1])) == 20


def test_rules_see_the_lexicon_of_the_model_and_not_the_notes_own_annotations(
    tiny_model: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    """A town that only one patient's annotations tell is not found in another patient's note."""
    rules = write_rules(tmp_path / "lexicon.rules", LEXICON_RULES)
    for name, notes in (("gold", towns()), ("bare", [note.with_spans(()) for note in towns()])):
        write_corpus(notes, tmp_path / f"{name}.jsonl", "jsonl")
        said = run("apply", tiny_model, tmp_path / f"{name}.jsonl", "--rules", rules, "--out", tmp_path / name)
        assert said == f"2 notes written to {tmp_path / name}\n"
        assert found_towns(tmp_path / name) == [["Lyndale"], ["Lyndale"]]
    rows = run("check", tiny_model, tmp_path / "gold.jsonl", "--rules", rules).splitlines()
    assert [row.split()[:4] for row in rows[1:3]] == [["1", "2", "1", "1"], ["2", "0", "1", "-1"]]


def test_a_list_from_a_file_finds_what_it_will_find_in_the_model(
    model: Path, tiny_dev: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    rules = tmp_path / "my.rules"
    lines = learned(model).splitlines(keepends=True)
    rules.write_text("".join([*lines[:7], *LEXICON_RULES.splitlines(keepends=True), lines[8], lines[5]]))
    run("apply", model, tiny_dev, "--rules", rules, "--out", tmp_path / "trial")
    assert run("replace", model, rules) == f"{model} now has 6 rules: 3 as learned, 3 new; the change is on record\n"
    arguments = ["predict", str(model), str(tiny_dev), "--submodel", "tbed", "--out", str(tmp_path / "after")]
    assert main(arguments) == 0
    trial, after = (tmp_path / name / "corpus.jsonl" for name in ("trial", "after"))
    assert trial.read_bytes() == after.read_bytes()


@pytest.mark.parametrize("action", ["check", "apply"])
def test_a_rule_list_without_its_model_is_refused(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, run: Callable[..., str], action: str
) -> None:
    rules = tiny_model / "tbed.rules"
    more = ("--out", tmp_path / "out") if action == "apply" else ()
    said = run(action, rules, tiny_dev, *more, status=2)
    assert said == (
        f"ensemble-deid: {rules}: a file, not a model directory; rules need the model that they are for: "
        f"rules {action} MODEL CORPUS --rules {rules}\n"
    )
    assert not (tmp_path / "out").exists()


def test_results_never_go_into_the_model(model: Path, tiny_dev: Path, run: Callable[..., str]) -> None:
    before = {path.name for path in model.iterdir()}
    assert "the output folder is the model" in run("apply", model, tiny_dev, "--out", model, status=2)
    assert {path.name for path in model.iterdir()} == before


@pytest.mark.parametrize("action", ["check", "apply", "replace"])
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            'change O to B-CITY if the word is "a"\nchange O to B-CITY if the wrod 1 before is "b"\n',
            "my.rules: rule 2 reads the column 'wrod', which the model's table does not have; it has: case, ",
        ),
        ('change O to B-CITY if the pos is "PROPN"\n', "rule 1 reads the column 'pos', which the model's table"),
        (
            'change O to B-TOWN if the word is "a"\n',
            "my.rules: rule 1 has the tag 'B-TOWN'; the model knows O, and B- ",
        ),
        (
            'change X-CITY to O if the word is "a"\n',
            "my.rules: rule 1 has the tag 'X-CITY'; the model knows O, and B- ",
        ),
        ("change O\n", "my.rules:6:9: expected 'to'"),
    ],
)
def test_rules_that_do_not_fit_the_model_are_refused(
    model: Path, tiny_dev: Path, tmp_path: Path, run: Callable[..., str], action: str, rules: str, expected: str
) -> None:
    path = write_rules(tmp_path / "my.rules", rules)
    before = {path.name: path.read_bytes() for path in model.rglob("*.*")}
    arguments = {
        "check": (model, tiny_dev, "--rules", path),
        "apply": (model, tiny_dev, "--rules", path, "--out", tmp_path / "out"),
        "replace": (model, path),
    }
    said = run(action, *arguments[action], status=2)
    assert expected in said
    assert said.count("\n") == 1
    assert {path.name: path.read_bytes() for path in model.rglob("*.*")} == before
    assert not (tmp_path / "out").exists()


def test_a_list_for_another_initial_tagger_is_refused(model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    rules = write_rules(tmp_path / "my.rules", "", HEADER.replace('"regex"', '"none"'))
    said = run("replace", model, rules, status=2)
    assert f"{rules}: the list starts from the initial tagger 'none', the model from 'regex'\n" in said


def records(model: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((model / "manifest.json").read_text(encoding="utf-8"))["rules_replaced"]
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_replace_is_on_record(model: Path, tiny_model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    rules = write_rules(tmp_path / "my.rules", LEXICON_RULES)
    said = run("replace", model, rules, "--remark", "read by A. Berg")
    assert said == f"{model} now has 2 rules: 0 as learned, 2 new; the change is on record\n"
    assert learned(model) == run("show", model)
    assert run("diff", model / "tbed.rules", rules) == "the lists apply the same rules in the same order\n"
    (record,) = records(model)
    assert record == {
        "before": digest(tiny_model / "tbed.rules"),
        "after": digest(model / "tbed.rules"),
        "kept": "tbed.1.rules",
        "rules": "2",
        "remark": "read by A. Berg",
    }
    kept = model / "private" / record["kept"]
    assert kept.read_bytes() == (tiny_model / "tbed.rules").read_bytes()
    # The kept list is one of the model's files: it cannot be changed unnoticed.
    kept.write_text("change O to B-CITY\n", encoding="utf-8")
    assert "tbed.1.rules: truncated or edited since the model was saved" in run("restore", model, status=2)


def test_restore_brings_each_list_back_in_turn(model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    def state() -> dict[str, bytes]:
        return {name: (model / name).read_bytes() for name in ("tbed.rules", "tbed.json")}

    first, trained = write_rules(tmp_path / "1.rules", LEXICON_RULES), state()
    second = write_rules(tmp_path / "2.rules", "")
    run("replace", model, first)
    once = state()
    run("replace", model, second)
    said = run("restore", model, "--remark", "too bare")
    assert said == f"{model} has the 2 rules again that it had before change 2; this change is on record\n"
    assert state() == once != trained
    assert records(model)[-1] == {
        "before": digest(model / "private" / "tbed.3.rules"),
        "after": digest(model / "tbed.rules"),
        "kept": "tbed.3.rules",
        "rules": "2",
        "remark": "too bare",
        "restored": "2",
    }
    # What was restored can be replaced, and that undone, too.
    run("replace", model, second)
    assert "before change 4" in run("restore", model)
    assert "before change 1" in run("restore", model)
    assert state() == trained
    assert f"{model}: the rule list is the one of training: there is nothing to restore" in run(
        "restore", model, status=2
    )
    assert [record.get("restored") for record in records(model)] == [None, None, "2", None, "4", "1"]


def test_a_list_that_was_not_kept_cannot_be_restored(model: Path, run: Callable[..., str]) -> None:
    """As in a model whose rules were replaced before old lists were kept."""
    old = {"before": "0" * 64, "after": "1" * 64, "rules": "4", "remark": ""}
    update_model(model, lambda _, manifest: replace(manifest, rules_replaced=(old,)))
    assert "the rule list before change 1 was not kept" in run("restore", model, status=2)


def test_curve_is_drawn_from_what_training_measured(tiny_model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "curve.png"
    lines = run("curve", tiny_model, "--out", path).splitlines()
    assert lines[0].split()[0] == "rules"
    assert lines[-2].split() == ["4", "100.00", "100.00", "100.00"]
    assert lines[-1] == f"the picture is {path}"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_is_written_into_a_model(model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that its manifest does not name would make it unreadable."""
    for command in (
        ["rules", "curve", model, "--out", model / "out.png"],
        ["rules", "learn", tiny_dev, "--start", "none", "--dev", tiny_dev, "--out", model / "out.rules"],
        ["predict", model, tiny_dev, "--out", model.parent / "found", "--html", model / "out.html"],
    ):
        assert main(list(map(str, command))) == 2
        assert "lies in a folder that is read: a model may hold no other files" in capsys.readouterr().err
    assert main(["rules", "show", str(model)]) == 0


def test_a_curve_of_other_rules_says_so(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    warning = "ensemble-deid: the curve is that of the rules as trained; other rules are in the model now\n"
    commands = {"replace": (write_rules(tmp_path / "my.rules", ""),), "restore": ()}
    for command, expected in (("replace", warning), ("restore", "")):
        assert main(["rules", command, str(model), *map(str, commands[command])]) == 0
        assert main(["rules", "curve", str(model), "--out", str(tmp_path / "curve.png")]) == 0
        assert capsys.readouterr().err == expected


def test_approvals_are_kept_with_the_rules_that_they_are_for(model: Path, run: Callable[..., str]) -> None:
    assert rule_approvals(model).summary() == "0 of 4 rules"
    said = run("approve", model, "--rule", "1,2,4", "--by", "A. Berg", "--date", "2026-03-02")
    assert said == f"{model} has approvals of 3 of 4 rules: 1-2, 4 by A. Berg on 2026-03-02\n"
    run("approve", model, "--rule", " 4 ", "--by", "C. Díaz", "--date", "2026-03-01")
    approvals = rule_approvals(model)
    assert approvals.of_rule(4) == (Approval(4, "A. Berg", "2026-03-02"), Approval(4, "C. Díaz", "2026-03-01"))
    assert approvals.of_rule(3) == ()
    assert approvals.approved == {1, 2, 4}
    assert approvals.sha256 == digest(model / "tbed.rules")
    # The same person again: the later day counts.
    run("approve", model, "--all", "--by", "A. Berg", "--date", "2026-04-01")
    summary = "4 of 4 rules: 4 by C. Díaz on 2026-03-01; 1-4 by A. Berg on 2026-04-01"
    assert rule_approvals(model).summary() == summary
    shown = run("show", model)
    assert shown == learned(model).replace('"regex"\n', f'"regex"\napproved: "{summary}"\n')
    assert run("show", model, "--words").startswith(f"approved: {summary}\n   1  where ")


def test_another_list_has_no_approvals_until_the_old_one_is_back(
    model: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    run("approve", model, "--all", "--by", "A. Berg", "--date", "2026-03-02")
    shown = tmp_path / "shown.rules"
    shown.write_text(run("show", model), encoding="utf-8")
    before = learned(model)
    # Shown and put back unchanged it is the same list, and what the text says of approvals is not believed.
    run("replace", model, shown)
    assert learned(model) == before
    assert rule_approvals(model).approved == {1, 2, 3, 4}
    shown.write_text(shown.read_text(encoding="utf-8").replace("(fixed 8,", "(fixed 9,", 1), encoding="utf-8")
    run("replace", model, shown)
    assert "approved" not in learned(model)
    assert rule_approvals(model).approvals == ()
    run("approve", model, "--rule", 2, "--by", "C. Diaz", "--date", "2026-03-03")
    run("restore", model)
    assert rule_approvals(model).summary() == "4 of 4 rules: 1-4 by A. Berg on 2026-03-02"


def test_only_approved_rules_stay_with_their_approvals(model: Path, run: Callable[..., str]) -> None:
    said = run("replace", model, "--approved-only", status=2)
    assert "no rule is approved" in said
    before = RuleList.load(model / "tbed.rules").rules
    run("approve", model, "--rule", "2,4", "--by", "A. Berg", "--date", "2026-03-02")
    run("approve", model, "--rule", "4", "--by", "C. Diaz", "--date", "2026-03-03")
    said = run("replace", model, "--approved-only")
    assert said == f"{model} now has the approved rules alone, 2, 4 of 4; the change is on record\n"
    assert RuleList.load(model / "tbed.rules").rules == (before[1], before[3])
    approvals = rule_approvals(model)
    assert approvals.summary() == "2 of 2 rules: 1-2 by A. Berg on 2026-03-02; 2 by C. Diaz on 2026-03-03"
    facts = dict(model_facts(model))
    assert facts["Rules in force"] == "only those approved: 2, 4 of 4"
    run("restore", model)
    assert RuleList.load(model / "tbed.rules").rules == before
    assert rule_approvals(model).approved == {2, 4}
    assert "Rules in force" not in dict(model_facts(model))


def test_an_approval_without_a_date_is_of_today(model: Path, run: Callable[..., str]) -> None:
    days = {date.today().isoformat()}
    run("approve", model, "--rule", 1, "--by", "A. Berg")
    days.add(date.today().isoformat())
    (approval,) = rule_approvals(model).approvals
    assert approval.date in days


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--rule", "5", "--by", "A"), "there is no rule 5: the list has 4"),
        (("--rule", "0", "--by", "A"), "there is no rule 0: the list has 4"),
        (("--rule", "1,x", "--by", "A"), "--rule: expected rule numbers such as 3,5"),
        (("--rule", "", "--by", "A"), "--rule: expected rule numbers such as 3,5"),
        (("--all", "--by", " "), "an approval needs the name of who gives it"),
        (("--all", "--by", "A\nB"), "an approval needs the name of who gives it"),
        (("--all", "--by", "A", "--date", "2026-02-30"), "'2026-02-30': expected a date as YYYY-MM-DD"),
        (("--all", "--by", "A", "--date", "20260203"), "'20260203': expected a date as YYYY-MM-DD"),
    ],
)
def test_an_approval_that_says_nothing_is_refused(
    model: Path, run: Callable[..., str], arguments: tuple[str, ...], expected: str
) -> None:
    assert expected in run("approve", model, *arguments, status=2)
    assert rule_approvals(model).approvals == ()


def test_edited_approvals_are_noticed(model: Path, run: Callable[..., str]) -> None:
    run("approve", model, "--rule", 1, "--by", "A. Berg", "--date", "2026-03-02")
    path = model / "rule_approvals.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"rule": 1', '"rule": 2'), encoding="utf-8")
    assert "rule_approvals.json: truncated or edited since the model was saved" in run("show", model, status=2)


@pytest.mark.parametrize("content", ["[]", '{"x": 3}', '{"x": [{"rule": 1}]}', "{", "OTHER"])
def test_forged_approvals_are_refused(model: Path, content: str) -> None:
    """Approvals that no program wrote, with a manifest that fits them."""
    unknown = json.dumps({digest(model / "tbed.rules"): [{"rule": 5, "by": "A. Berg", "date": "2026-03-02"}]})

    def forge(directory: Path, manifest: Manifest) -> Manifest:
        (directory / "rule_approvals.json").write_text(content.replace("OTHER", unknown), encoding="utf-8")
        return manifest

    update_model(model, forge)
    with pytest.raises(ModelError, match=r"rule_approvals\.json: damaged"):
        rule_approvals(model)


def test_the_review_page_shows_each_rule_with_examples(model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    rules = """change O to B-CITY if the lexicon is "B-CITY"
change O to I-CITY if the lower 1 before is "<b>&"
change O to B-CITY if the lower is "ward"
"""
    run("replace", model, write_rules(tmp_path / "my.rules", rules))
    run("approve", model, "--rule", 1, "--by", "A. <Berg>", "--date", "2026-03-02")
    more = tiny_stack.note("c", "2 < 3 Lyndale " * 9 + "2 < 3 ward ", ("ward", "UNIT"), patient="c")
    write_corpus([*towns(), more], tmp_path / "notes.jsonl", "jsonl")
    out = tmp_path / "review.html"
    said = run("review", model, "--corpus", tmp_path / "notes.jsonl", "--out", out)
    assert said == f"the page is {out}; it contains PHI: keep it where the notes are kept\n"
    page = out.read_text(encoding="utf-8")
    assert page.index("This page contains protected health information (PHI)") < page.index("<h1>")
    assert "<script" not in page
    assert 'http-equiv="Content-Security-Policy" content="default-src &#x27;none&#x27;' in page
    first, second, third = page.split("<article ")[1:]
    assert "1. where the word begins a phrase that the training notes annotate as CITY: tag the" in first
    assert 'change O to B-CITY if the lexicon is "B-CITY" (fixed 0, broken 0)</code>' in first
    assert 'In these notes: fixed 2, broken 10, tags changed 12<b class="hurts"> (hurts here)</b>' in first
    assert re.findall(r"<b>(\w+)</b> in (\w), (\d+)-", first) == [
        ("fixed", "a", "5"),
        ("broken", "b", "13"),
        ("fixed", "b", "34"),
    ]
    assert "From <mark>Lyndale</mark> and Newville." in first
    assert "Approved by A. &lt;Berg&gt;, 2026-03-02." in first
    assert "(never fires here)" in second
    assert "'&lt;b&gt;&amp;'" in second
    assert "Not approved." in second
    assert re.findall(r"<b>([\w ]+)</b> in", third) == ["broken", "still wrong"]
    assert "&lt; 3 <mark>ward</mark> ward" in third
    assert "Approved: 1 of 3 rules: 1 by A. &lt;Berg&gt; on 2026-03-02" in page
    assert review_rules(model, read_corpus(tmp_path / "notes.jsonl").documents) == page


def test_the_review_page_tells_wrong_labels_that_became_other_wrong_labels(
    model: Path, tmp_path: Path, run: Callable[..., str]
) -> None:
    rules = """change O to B-DOCTOR if the lower is "lyndale"
change B-DOCTOR to B-PATIENT if the lower is "lyndale"
"""
    run("replace", model, write_rules(tmp_path / "my.rules", rules))
    _, _, second = review_rules(model, towns()).split("<article ")
    assert "tags changed 2, turned from one wrong label into another 2 (they are: CITY 1, no PHI 1)" in second
    # A label that was right before or is right after is not wrong twice, though the border is wrong.
    notes = [tiny_stack.note(label, "From ", ("Old Lyndale", label), ".") for label in ("DOCTOR", "PATIENT")]
    _, _, second = review_rules(model, notes).split("<article ")
    assert "tags changed 2" in second
    assert "turned from" not in second


def test_what_starts_without_patterns_is_started_by_none(
    tiny_train: Path, tmp_path: Path, run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = tiny_stack.settings(tmp_path, **{"tbed.initial": "none", "tbed.cv_folds": "0"})
    model = tmp_path / "model"
    assert main(["train", str(tiny_train), "--out", str(model), "--submodels=regex,tbed", *arguments]) == 0
    capsys.readouterr()
    said = run("explain", model, tiny_train / "300-01.xml")
    assert "-36 DATE\n    started by no pattern\n" in said


def test_no_caption_is_left_alone_on_paper(tiny_model: Path) -> None:
    """Every static page has these rules; the report has its own."""
    assert "caption,h2,h3{break-after:avoid}" in review_rules(tiny_model, None)
    report = (Path(markup.__file__).parent / "report.css").read_text(encoding="utf-8")
    assert "caption { position: static; max-width: none; break-after: avoid; }" in report.partition("@media print")[2]


def test_a_review_without_notes_has_no_counts(tiny_model: Path, tmp_path: Path, run: Callable[..., str]) -> None:
    run("review", tiny_model, "--out", tmp_path / "review.html")
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    assert page.count("<article ") == 4
    assert "This page contains protected health information (PHI)" in page
    assert "In these notes" not in page


@pytest.mark.parametrize("action", ["show", "check", "explain", "replace", "review", "approve"])
def test_a_model_without_rules_says_so(
    tiny_train: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    model = tmp_path / "model"
    arguments = ["train", str(tiny_train), "--out", str(model), *tiny_stack.settings(tmp_path), "--submodels", "regex"]
    assert main(arguments) == 0
    more = {
        "show": (),
        "check": (tiny_dev,),
        "explain": (tiny_train / "300-01.xml",),
        "replace": (tmp_path / "m.rules",),
        "review": ("--out", tmp_path / "review.html"),
        "approve": ("--all", "--by", "A. Berg"),
    }
    write_rules(tmp_path / "m.rules", "")
    capsys.readouterr()
    assert main(["rules", action, str(model), *map(str, more[action])]) == 2
    assert "the model has no rule list: it was trained without tbed" in capsys.readouterr().err


def test_rules_are_judged_on_a_page(model: Path, tiny_dev: Path) -> None:
    """Cards with what each rule did; approve, reject and edit go into the record that `--approved-only` uses."""
    app = make_rules_app(RuleDesk(model, read_corpus(tiny_dev).documents), ServiceSettings(model))
    service = TestClient(app, base_url="http://localhost")
    assert "rules.js" in service.get("/").text
    shown = service.get("/api/rules").json()
    card = shown["cards"][2]
    assert card["purpose"] == "PATIENT: takes words from CITY"
    assert card["effect"] == "In these notes: fixed 4, broken 0, tags changed 4"
    assert {one["effect"] for one in card["examples"]} == {"fixed"}
    who = {"reviewer": "A. Berg", "sha256": shown["sha256"]}
    for number, rejected in ((1, False), (2, True), (3, False), (4, False)):
        answer = service.post(f"/api/rules/{number}/decision", json={**who, "rejected": rejected})
    today = date.today().isoformat()
    assert answer.json()["cards"][1]["decisions"] == [{"by": "A. Berg", "date": today, "rejected": True}]
    refused = service.post("/api/rules/4/text", json={**who, "text": 'change O to B-TOWN if the lower is "elm"'})
    assert (refused.status_code, "has the tag 'B-TOWN'" in refused.json()["error"]) == (409, True)
    edited = service.post("/api/rules/4/text", json={**who, "text": 'change O to B-CITY if the lower is "elm"'}).json()
    assert (edited["cards"][3]["verdict"], edited["cards"][3]["decisions"]) == ("never fires here", [])
    late = service.post("/api/rules/1/decision", json={**who, "rejected": True})
    assert (late.status_code, late.json()["error"].startswith("the list has changed")) == (409, True)
    assert records(model)[-1]["remark"] == "rule 4 edited by A. Berg"
    by = f"by A. Berg on {today}"
    assert rule_approvals(model).summary() == f"2 of 4 rules: 1, 3 {by}; rejected 2 {by}"
    assert keep_approved_rules(model) == "1, 3 of 4"


def test_lists_are_compared_in_the_stack(tiny_model: Path, tiny_dev: Path) -> None:
    loaded, dev = RuleModel.load(tiny_model), read_corpus(tiny_dev).documents
    lists = {"own": loaded.rules, "same": loaded.rules, "none": loaded.rules.with_rules([])}
    own, same, none = answers(loaded, dev, lists)
    assert own == same
    assert own != none
    first, second, _ = rows(dev, [own, same, none])
    assert first == second
    assert "+0.00 [" in first
