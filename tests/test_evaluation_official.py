"""The official schemes, held against what the official scripts print."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.official import (
    OfficialScores,
    render_official,
    score_i2b2,
    score_meddocan,
    to_official_json,
)
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey

SHARED = Path(__file__).parents[1].parent / "shared"
needs_parity = pytest.mark.skipif(
    not (SHARED / "parity").is_dir(), reason="the outputs of the official scripts are not on this machine"
)


def assert_same_figures(scores: OfficialScores, expected: dict[str, dict[str, float]]) -> None:
    found = to_official_json(scores)
    assert sorted(found) == sorted(expected)
    for name, figures in expected.items():
        assert sorted(found[name]) == sorted(figures), name
        for figure, value in figures.items():
            if isinstance(value, int):
                assert found[name][figure] == value, (name, figure)
            else:
                assert found[name][figure] == pytest.approx(value, rel=1e-12, abs=1e-15), (name, figure)


@needs_parity
@pytest.mark.parametrize("which", ["a", "b", "c"])
def test_every_row_of_the_i2b2_script(which: str) -> None:
    folder = SHARED / "parity" / "i2b2" / which
    gold, system = read_corpus(folder / "gold").documents, read_corpus(folder / "system").documents
    expected = json.loads((folder / "expected.json").read_text())
    assert len(expected) == 42
    assert_same_figures(score_i2b2(gold, system), expected)
    assert_same_figures(score_i2b2(gold[::-1], turned_round(system)), expected)


@needs_parity
def test_every_row_of_the_meddocan_script() -> None:
    folder = SHARED / "parity" / "meddocan"
    system = read_corpus(folder / "system").documents
    ids = {document.id for document in system}
    gold = [d for d in read_corpus(SHARED / "corpora" / "meddocan" / "dev").documents if d.id in ids]
    expected = json.loads((folder / "expected.json").read_text())
    assert_same_figures(score_meddocan(gold, system), expected)
    assert_same_figures(score_meddocan(gold[::-1], turned_round(system)), expected)


def turned_round(documents: tuple[Document, ...]) -> list[Document]:
    return [document.with_spans(document.spans[::-1]) for document in documents]


def note(text: str, *keys: SpanKey) -> list[Document]:
    return [Document("a", text, tuple(Span(*key) for key in keys))]


def test_tokens_are_ascii_runs_and_a_tag_without_any_is_one_empty_token() -> None:
    text = "J. José-Li ..."
    gold = note(text, (3, 10, "DOCTOR"), (11, 14, "ID"))
    row = score_i2b2(gold, note(text, (3, 6, "DOCTOR"), (13, 14, "ID"))).row("Token")
    # gold: "Jos", "Li", and nothing at 14; system: "Jos", and nothing at 14
    assert row.total == Counts(2, 0, 1)


def test_case_of_labels_does_not_matter_and_unknown_ones_count_in_totals_only() -> None:
    scores = score_i2b2(note("x" * 9, (0, 2, "Date"), (3, 5, "ROOM")), note("x" * 9, (0, 2, "DATE")))
    assert scores.row("Strict").total == Counts(1, 0, 1)
    assert scores.row("DATE Strict").total == Counts(1, 0, 0)
    assert sum(row.total.fn for row in scores.rows if row.name.endswith("ATION Strict")) == 0
    assert scores.row("Binary Strict").total == Counts(1, 0, 1)
    with pytest.raises(KeyError):
        scores.row("ROOM Strict")


def test_binary_rows_count_a_place_once() -> None:
    scores = score_i2b2(note("x" * 9, (0, 2, "DATE")), note("x" * 9, (0, 2, "AGE"), (0, 2, "DATE")))
    assert scores.row("Strict").total == Counts(1, 1, 0)
    assert scores.row("Binary Strict").total == Counts(1, 0, 0)


@dataclass
class FuzzyTag:
    """The relaxed equality as the script has it, in the language's own sets."""

    start: int
    end: int
    type: str

    def __eq__(self, other: Any) -> bool:
        return (self.start, self.type) == (other.start, other.type) and abs(self.end - other.end) <= 2

    def __hash__(self) -> int:
        return hash((self.start, self.type))


keys = st.tuples(st.integers(0, 1), st.integers(1, 8), st.sampled_from(["DATE", "AGE"])).map(
    lambda t: (t[0], t[0] + t[1], t[2])
)


@settings(max_examples=80)
# No more than four: the sets' own short cut for lopsided differences takes away one of several partners only.
@given(st.lists(keys, max_size=4, unique=True), st.lists(keys, max_size=4, unique=True))
def test_relaxed_counts_as_sets_with_a_fuzzy_end_do(golds: list[SpanKey], systems: list[SpanKey]) -> None:
    gold, system = ({FuzzyTag(*key) for key in sorted(side)} for side in (golds, systems))
    expected = Counts(len(gold & system), len(system - gold), len(gold - system))
    text = "x" * 20
    assert score_i2b2(note(text, *golds), note(text, *systems)).row("Relaxed").total == expected


def test_meddocan_merges_over_what_is_not_alphanumeric() -> None:
    text = "Ana - Gil 12 y"
    gold = note(text, (0, 3, "N"), (6, 9, "N"), (10, 12, "A"))
    system = note(text, (0, 9, "N"), (10, 12, "B"))
    scores = score_meddocan(gold, system)
    assert scores.row("Subtrack 1 [NER]").total == Counts(0, 2, 3)
    assert scores.row("Subtrack 2 [strict]").total == Counts(1, 1, 2)
    # (0, 12) merged on both sides and (10, 12) itself are found; all other spans lie inside
    assert scores.row("Subtrack 2 [merged]").total == Counts(2, 0, 0)


def test_the_tables_are_laid_out_as_the_scripts_lay_them_out() -> None:
    gold, system = note("x" * 9, (0, 2, "DATE"), (3, 5, "AGE")), note("x" * 9, (0, 2, "DATE"))
    lines = render_official(score_i2b2(gold, system)).splitlines()
    assert lines[6:11] == [
        "Strict (1)               Measure        Macro (SD)     Micro (Primary)",
        "-" * 75,
        "Total                    Precision      1.0 (0.0)      1.0",
        "                         Recall         0.5 (0.0)      0.5",
        "                         F1             0.6667         0.6667",
    ]
    assert render_official(score_meddocan(gold, system)).splitlines()[:3] == [
        "Subtrack 1 [NER]                   Measure        Micro",
        "-" * 70,
        "Total (1 docs)                     Precision      1.0",
    ]


def test_undefined_is_zero_in_the_official_figures_only() -> None:
    scores = score_i2b2(note("x"), note("x"))
    assert to_official_json(scores)["Strict"]["micro_f1"] == 0.0
    assert scores.row("Strict").total.f1 is None
