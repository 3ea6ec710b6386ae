"""Where members disagree, who is right, and the tables that say so."""

import csv
import io
import json
from pathlib import Path

import pytest
from every_command import main

from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.render.results import Table
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from research.disagreements import MemberRecord, find_disagreements, member_records, right_together

TEXT = "Seen by Ann Bell on 03/04, SVR of 1739, ward 7."
NAME, DATE, SVR, WARD = Span(8, 16, "DOCTOR"), Span(20, 25, "DATE"), Span(34, 38, "DATE"), Span(45, 46, "ID")


def note(*spans: Span) -> list[Document]:
    return [Document("n", TEXT, spans)]


GOLD = note(NAME, DATE)
MEMBERS = {
    # Alone right that 1739 is nothing.
    "tbed": note(NAME, DATE),
    "crf": note(NAME, SVR, WARD),
    "neural": note(Span(8, 16, "PATIENT"), DATE, SVR),
}
ENSEMBLE = note(NAME, DATE, WARD)


def test_places_and_who_is_right_there() -> None:
    cases = find_disagreements(GOLD, MEMBERS, ENSEMBLE)
    assert [(case.start, case.gold, case.ensemble, case.right) for case in cases] == [
        (8, "DOCTOR", "DOCTOR", ("tbed", "crf")),
        (20, "DATE", "DATE", ("tbed", "neural")),
        (34, "", "", ("tbed",)),
        (45, "", "ID", ("tbed", "neural")),
    ]
    assert [case.rescued_by("tbed") for case in cases] == [False, False, True, False]
    assert not any(case.rescued_by("crf") for case in cases)
    assert member_records(cases, list(MEMBERS)) == (
        MemberRecord("tbed", 4, 1, 1, 0, 0),
        MemberRecord("crf", 1, 0, 0, 2, 1),
        MemberRecord("neural", 2, 0, 0, 1, 0),
    )
    assert right_together(cases) == {("tbed", "neural"): (2, 1), ("tbed",): (1, 1), ("tbed", "crf"): (1, 1)}


def test_members_that_agree_have_no_places_and_one_cannot_disagree() -> None:
    assert find_disagreements(GOLD, {"a": ENSEMBLE, "b": ENSEMBLE}, GOLD) == ()
    with pytest.raises(EvaluationError, match="two members"):
        find_disagreements(GOLD, {"a": ENSEMBLE}, GOLD)


def test_a_table_in_each_form() -> None:
    table = Table("50% of A & B", ("x_1", "P"), (("a|b", "{1}"), ('say "c", d', "−2")))
    assert list(csv.reader(io.StringIO(table.to_csv()))) == [["x_1", "P"], ["a|b", "{1}"], ['say "c", d', "−2"]]
    assert "| a\\|b | {1} |" in table.to_markdown()
    latex = table.to_latex()
    assert r"\caption{50\% of A \& B}" in latex
    assert r"x\_1 & P \\" in latex
    assert r"a|b & \{1\} \\" in latex
    assert "$-$2" in latex
    with pytest.raises(EvaluationError, match="another number of cells"):
        Table("", ("a", "b"), (("1",),))


def test_the_command_counts_and_quotes_only_when_asked(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["disagreements", str(tiny_dev), str(tiny_model)]
    assert main([*arguments, "--out", str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr().out
    assert "where submodels disagree; the ensemble is right at" in printed
    assert "it contains no note text" in printed
    places = json.loads((tmp_path / "a.json").read_text())
    assert places
    assert all("text" not in place and len(set(place["members"].values())) > 1 for place in places)
    three = [*arguments, "--submodels", "tbed,crf,neural", "--text"]
    assert main([*three, "--out", str(tmp_path / "b.tex")]) == 0
    assert "it contains PHI" in capsys.readouterr().out
    assert r"\toprule" in (tmp_path / "b.tex").read_text()
    assert main([*three, "--rescued-by", "tbed", "--out", str(tmp_path / "c.csv")]) == 0
    (head, *rows) = csv.reader((tmp_path / "c.csv").read_text().splitlines())
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        assert cells["tbed"] == cells["ensemble"] == cells["gold"] not in (cells["crf"], cells["neural"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "places.txt"], "must end in one of .md, .csv, .tex, .json, .html, .svg"),
        (["--rescued-by", "transformer"], "no submodel 'transformer' here"),
        (["--submodels", "tbed,other"], "no submodel 'other' here"),
    ],
)
def test_bad_options_are_refused(
    tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["disagreements", str(tiny_dev), str(tiny_model), *options]) == 2
    assert message in capsys.readouterr().err


def test_corpus_statistics_are_written_as_a_table(tiny_train: Path, tiny_dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "phi.csv"
    assert main(["corpus", "stats", str(tiny_train), str(tiny_dev), "--out", str(out)]) == 0
    rows = {row[0]: row[1:] for row in csv.reader(out.read_text().splitlines())}
    assert rows["type"][:2] == [f"{tiny_train}: spans", f"{tiny_train}: share"]
    assert rows["DATE"][:2] == ["16", "40.0%"]
    assert rows["all"][:2] == ["40", "100.0%"]
