"""The one writer of tables: every form of the same figures, and a picture that programs can read."""

import csv
import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.render.results import (
    Point,
    Results,
    Table,
    draw_points,
    result_files,
)
from ensemble_deid.note.counts import Counts
from ensemble_deid.training.ablate import AS_TRAINED, AblationRow
from ensemble_deid.training.reports import ablation_results

SVG = "{http://www.w3.org/2000/svg}"
TABLE = Table("F1 of A & B", ("system", "F1"), (("A & B", "0.5"), ("<C>", "-")))


def found(csv: str | None = None) -> Results:
    points = [Point("A & B", 0.5, 0.25, 0.75), Point("<C>", None), Point("D", 0.1)]
    blocks = [["2 notes", TABLE], ["Made by hand <today>."]]
    return Results(blocks, [{"F1": 0.5}], draw_points(points, measure="strict F1"), csv)


def test_every_form_is_written_whole_and_has_the_same_figures(tmp_path: Path) -> None:
    found().write_all(tmp_path, "table")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in result_files(tmp_path, "table"))
    assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8")) == [{"F1": 0.5}]
    rows = list(csv.reader((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert rows == [["system", "F1"], ["A & B", "0.5"], ["<C>", "-"]]
    assert r"A \& B & 0.5" in (tmp_path / "table.tex").read_text(encoding="utf-8")
    text = "2 notes\nF1 of A & B\nsystem   F1\n------  ---\nA & B   0.5\n<C>       -\n\nMade by hand <today>.\n"
    assert (tmp_path / "table.txt").read_text(encoding="utf-8") == text
    rows = "| system | F1 |\n| --- | --: |\n| A & B | 0.5 |\n| <C> | - |\n"
    markdown = f"2 notes\n\nF1 of A & B\n\n{rows}\nMade by hand <today>.\n"
    assert found().render(".md") == markdown
    page = found().render(".html")
    assert re.findall("<td>(.*?)</td>", page) == ["0.5", "-"]
    assert re.findall("<p>(.*?)</p>", page) == ["2 notes", "Made by hand &lt;today&gt;."]
    assert "default-src 'none'" in html.unescape(page)
    assert found("f1\n0.5\n").render(".csv") == "f1\n0.5\n"
    with pytest.raises(EvaluationError, match=r"not as \.pdf"):
        found().render(".pdf")
    with pytest.raises(EvaluationError, match="a file without suffix"):
        found().render("")


def test_the_picture_has_a_point_for_each_defined_figure_and_a_line_for_each_interval() -> None:
    drawing = ElementTree.fromstring(found().picture)
    circles = drawing.findall(f"{SVG}circle")
    assert len(circles) == 2
    thick = [line for line in drawing.findall(f"{SVG}line") if line.get("stroke-width") == "2"]
    (line,) = thick
    ends = [float(line.attrib[name]) for name in ("x1", "x2")]
    assert sum(ends) / 2 == float(circles[0].attrib["cx"])
    texts = [element.text for element in drawing.findall(f"{SVG}text")]
    assert {"A & B", "<C>", "undefined", "0.5000", "strict F1"} <= set(texts)


def test_an_ablation_and_corpus_statistics_have_pictures(tiny_train: Path, tmp_path: Path) -> None:
    rows = [
        AblationRow("ensemble", AS_TRAINED, 0.5, Counts(8, 1, 1), None),
        AblationRow("without crf", AS_TRAINED, None, None, None),
    ]
    drawing = ElementTree.fromstring(ablation_results(rows, None).render(".svg"))
    assert len(drawing.findall(f"{SVG}circle")) == 1
    out = tmp_path / "phi.svg"
    assert main(["corpus", "stats", str(tiny_train), "--out", str(out)]) == 0
    assert ElementTree.parse(out).getroot().findall(f"{SVG}circle")
    assert main(["corpus", "stats", str(tiny_train), "--out", str(out.with_suffix(".json"))]) == 0
    assert str(tiny_train) in json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert main(["corpus", "stats", str(tiny_train), "--out", str(out.with_suffix(".pdf"))]) == 2
