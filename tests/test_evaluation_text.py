"""What `evaluate` prints: a summary of one screen, every table with --full, and files that are the same with both."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.evaluation import bootstrap
from ensemble_deid.evaluation.bootstrap import clopper_pearson_upper
from ensemble_deid.evaluation.evaluate import Evaluation, evaluate
from ensemble_deid.evaluation.operating_points import find_operating_points
from ensemble_deid.evaluation.render.blocks import MOST_LABELS, evaluation_results
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

TEXT = "Ada Gil saw Dr Bo Li on 1/2/31 in Rome."
SPANS = (Span(0, 7, "PATIENT"), Span(15, 20, "DOCTOR", 0.9), Span(24, 30, "DATE", 0.8), Span(34, 38, "CITY", 0.7))


def notes(*, without_city: tuple[int, ...] = ()) -> list[Document]:
    """Return six notes of three patients; in those so numbered the city is not annotated."""
    return [
        Document(f"n{k}", TEXT, SPANS[:3] if k in without_city else SPANS, f"p{k // 2}", {"kind": "letter"})
        for k in range(6)
    ]


def render_summary(result: Evaluation, **more: Any) -> str:
    return evaluation_results(result, **more).render(".txt")


def render_full(result: Evaluation, **more: Any) -> str:
    return evaluation_results(result, full=True, **more).render(".txt")


GOLD, SYSTEM = notes(), notes(without_city=(1, 2))


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch) -> Evaluation:
    # The notes are of three patients.
    monkeypatch.setattr(bootstrap, "LEAST_CLUSTERS", 2)
    return evaluate(GOLD, SYSTEM, resamples=200)


def test_the_summary_has_the_figures_that_matter_most(result: Evaluation) -> None:
    lines = render_summary(result).splitlines()
    assert lines[:3] == ["6 notes of 3 patients, 72 tokens", "gold: 24 annotations", "system: 22 annotations"]
    interval = result.score().f1.interval
    assert interval is not None
    (entities,) = (line for line in lines if line.startswith("entities"))
    assert entities.endswith(f"{44 / 46:.4f} [{interval.low:.4f}, {interval.high:.4f}]")
    assert f" {22 / 24:.4f} [" in entities
    tokens = [line for line in lines if line.startswith("tokens")]
    assert [line.partition(":")[2].split()[0] for line in tokens] == ["type", "PHI"]
    assert all(f" {46 / 48:.4f} [" in line for line in tokens)
    least = 100 * (1 - clopper_pearson_upper(2, 6))
    assert f"  notes fully redacted: 4 of 6 (66.67%), at least {least:.2f}% (one-sided 95% bound)" in lines
    assert any(line.startswith("  patients with all notes fully redacted: 1 of 3 (33.33%)") for line in lines)
    assert "  letters and digits of PHI left: 8 of 108 (7.41%)" in lines
    at = lines.index("By label (strict), most frequent first")
    assert [line.split() for line in lines[at + 3 :]] == [
        ["CITY", "6", "1.0000", "0.6667", "0.8000"],
        ["DATE", "6", "1.0000", "1.0000", "1.0000"],
        ["DOCTOR", "6", "1.0000", "1.0000", "1.0000"],
        ["PATIENT", "6", "1.0000", "1.0000", "1.0000"],
    ]


def test_intervals_by_site_and_direct_identifiers() -> None:
    """Twelve sites of two patients: the sites are drawn, and are fewer than the patients."""
    gold = [Document(f"n{k}", TEXT, SPANS, f"p{k}", site=f"s{k // 2}") for k in range(24)]
    system = [note.with_spans(SPANS[1:] if k in (0, 1) else SPANS[:3]) for k, note in enumerate(gold)]
    found = evaluate(gold, system, resamples=500)
    assert found.by_site is not None
    assert found.sites == 12
    interval = found.by_site.recall.interval
    assert interval is not None
    assert (
        interval
        == evaluate([replace(n, patient_id=n.site) for n in gold], system, resamples=500)
        .score("token-binary")
        .recall.interval
    )
    lines = render_summary(found).splitlines()
    (line,) = [line for line in lines if line.startswith("Recall of PHI tokens")]
    assert line.endswith(f"by site [{interval.low:.4f}, {interval.high:.4f}] (12 sites)")
    # Everybody's city leaks, and the names of two patients.
    assert found.leaks.total.patients.count == 24
    assert (found.leaks.direct.patients.count, found.leaks.direct.notes.count) == (2, 2)
    (line,) = [line for line in lines if "patients without a direct identifier left" in line]
    assert "22 of 24" in line
    assert evaluate(GOLD, SYSTEM, resamples=0).by_site is None


def test_of_many_labels_the_most_frequent_are_listed_and_the_others_counted() -> None:
    def with_labels(counts: dict[str, int]) -> list[Document]:
        spans = [Span(k, k + 1, label) for label, n in counts.items() for k in range(n)]
        return [Document("a", "x" * 40, tuple(spans), "p")]

    many = {f"L{k:02}": k + 1 for k in range(30)}
    lines = render_summary(evaluate(with_labels(many), with_labels({"L00": 1, "L29": 3}), resamples=0)).splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("L")]
    assert listed == [f"L{k:02}" for k in range(29, 29 - MOST_LABELS, -1)]
    assert lines[-1] == f"and {30 - MOST_LABELS} more"
    assert 25 <= len(lines) <= 40


def test_without_annotations_the_summary_says_undefined() -> None:
    text = render_summary(evaluate([Document("a", "x")], [Document("a", "x")], resamples=20))
    assert text.count("undefined") == 10
    assert "notes fully redacted: 1 of 1 (100.00%), at least 5.00%" in text
    assert "By label" not in text


def test_operating_points_close_both_forms(result: Evaluation) -> None:
    operating = find_operating_points(GOLD, SYSTEM, oracle=True)
    for render in (render_summary, render_full):
        last = render(result, operating=operating).split("\n\n")[-1]
        assert last.startswith("Operating points (token-binary) - ORACLE")
        assert "Operating points" not in render(result)


@pytest.fixture
def corpora(tmp_path: Path) -> tuple[str, str]:
    write_corpus(GOLD, tmp_path / "gold", "jsonl")
    write_corpus(SYSTEM, tmp_path / "system", "jsonl")
    return str(tmp_path / "gold"), str(tmp_path / "system")


def test_the_command_prints_one_screen_and_all_with_full(
    corpora: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], result: Evaluation
) -> None:
    printed: dict[str, str] = {}
    files: dict[str, tuple[bytes, bytes]] = {}
    for name, options in (("summary", ()), ("full", ("--full",))):
        out = tmp_path / f"{name}.json", tmp_path / f"{name}.csv"
        command = ["evaluate", *corpora, "--resamples", "200", "--out", str(out[0]), "--out", str(out[1]), *options]
        assert main(command) == 0
        printed[name] = capsys.readouterr().out
        files[name] = out[0].read_bytes(), out[1].read_bytes()
    assert files["summary"] == files["full"]
    assert printed["summary"] == render_summary(result) + (
        "\nEvery table: --full. All figures as data: --out FILE.json, FILE.csv.\n"
    )
    assert len(printed["summary"].splitlines()) <= 40
    assert printed["full"] == render_full(result)
    assert printed["full"].startswith(printed["summary"].partition("By label")[0])
    for title in ("Views", "All annotations", "Macro:", "By category (strict)", "Subsets (strict)", "Leaks by label"):
        assert f"\n\n{title}" in printed["full"]
        assert title not in printed["summary"]


def test_full_and_a_tasks_own_table_exclude_each_other(
    corpora: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for option in (("--scheme", "meddocan"), ("--scheme", "i2b2")):
        assert main(["evaluate", *corpora, "--full", *option]) != 0
        said = capsys.readouterr()
        assert said.out == ""
        assert "--full" in said.err
    assert main(["evaluate", *corpora, "--scheme", "meddocan", "--resamples", "0"]) == 0
    assert capsys.readouterr().out.startswith("Subtrack 1 [NER]")
