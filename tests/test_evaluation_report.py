"""The report as a string: what it holds, what it must not hold, and that no note can break out of it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ensemble_deid.cli import evaluation as evaluation_commands
from ensemble_deid.cli.main import main
from ensemble_deid.cli.sources import System
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.evaluation.curve import keep_above
from ensemble_deid.evaluation.operating_points import find_operating_points
from ensemble_deid.evaluation.pairs import EvaluationError, Pair
from ensemble_deid.evaluation.render.html import curves as curves_module
from ensemble_deid.evaluation.render.html import errors as errors_module
from ensemble_deid.evaluation.render.html import page as page_module
from ensemble_deid.evaluation.render.html.errors import marked, snippet
from ensemble_deid.evaluation.render.html.markup import Html, element, join
from ensemble_deid.evaluation.render.html.page import render_report
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey

TEXT = "Ada Gil saw Dr Bo Li on 1/2/31 in Rome & <b>London</b>"
NAME, DOCTOR, DATE, CITY = (0, 7, "PATIENT"), (15, 20, "DOCTOR"), (24, 30, "DATE"), (34, 38, "CITY")
WORDS = ("Ada", "Gil", "Bo Li", "1/2/31", "Rome", "London")


def note(id: str, *keys: SpanKey, text: str = TEXT) -> Document:
    return Document(id, text, tuple(Span(*key) for key in keys), None, {"kind": "letter"})


GOLD = [note("n1", NAME, DOCTOR, DATE, CITY), note("n2", NAME)]
SYSTEM = [
    replace(GOLD[0], spans=(Span(0, 3, "PATIENT", 0.8), Span(15, 20, "PATIENT", 0.7), Span(8, 11, "CITY", 0.4))),
    note("n2", NAME),
]


class Outline(HTMLParser):
    """The ids, text and addresses of a page, and whether its elements close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.opened: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []  # type: ignore[list-item]
        self.addresses += [value for key, value in attrs if key in ("src", "href", "action", "data") and value]
        if tag not in ("meta", "input", "br", "wbr"):
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for key, value in attrs if key == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened and self.opened[-1] not in ("style", "script"):
            self.text.append(data)


def test_the_page_needs_nothing_and_warns_first() -> None:
    page = render_report(GOLD, SYSTEM, resamples=20)
    outline = Outline(page)
    assert all(address.startswith("#") for address in outline.addresses)
    assert {address[1:] for address in outline.addresses} <= set(outline.ids)
    assert len(set(outline.ids)) == len(outline.ids)
    assert not re.search(r"url\(|@import|https?:", page)
    text = "".join(outline.text)
    assert text.index("contains protected health information") < text.index("Summary")
    for kind in ("Missed: 2 annotations", "Spurious: 1 annotation ", "Wrong label: 1", "Wrong boundary: 1"):
        assert kind in text


def test_without_text_no_word_of_a_note_is_in_the_page() -> None:
    page = render_report(GOLD, SYSTEM, include_text=False, resamples=20, votes={"crf": SYSTEM})
    assert not any(word in page for word in WORDS)
    assert "may still identify patients" in page
    assert "note n1" in page
    assert 'id="words"' not in page
    assert 'id="words"' in render_report(GOLD, SYSTEM, resamples=20)
    Outline(page)


def test_notes_cannot_break_out_of_the_page() -> None:
    hostile = '</script><script>alert(1)</script><!-- <img src=x onerror="x"> " \' & \ud83d \U0001f600 \r\n\x00'
    gold = [note("</title><i>", (0, 9, "<LABEL>"), text=hostile)]
    page = render_report(gold, [gold[0].with_spans([Span(2, 30, 'A"B', 0.5, "<src>")])], resamples=0, title="<b>&")
    outline = Outline(page)
    assert "img" not in outline.opened
    assert page.count("<script") == page.count("</script>") == 2
    data = re.search(r'<script type="application/json" id="notes">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])[0]["id"] == "</title><i>"
    page.encode("utf-8")


def test_the_same_input_gives_the_same_page_in_any_order() -> None:
    page = render_report(GOLD, SYSTEM, resamples=20)
    turned = [document.with_spans(document.spans[::-1]) for document in SYSTEM[::-1]]
    assert render_report(GOLD[::-1], turned, resamples=20) == page


def test_votes_of_the_submodels_stand_at_each_error() -> None:
    votes = {"crf": [note("n1", CITY), note("n2")], "tbed": [note("n1", (20, 31, "AGE"), CITY)]}
    text = "".join(Outline(render_report(GOLD, SYSTEM, resamples=0, votes=votes)).text)
    assert "crf: CITY, 1" in text
    assert "tbed: AGE at 20–31, 1" in text
    assert "crf: nothing" in text


def test_curves_need_scores_and_operating_points_say_where_they_come_from() -> None:
    plain = render_report(GOLD, GOLD, resamples=0)
    assert "does not score its annotations" in plain
    assert "There are no errors." in plain
    assert "No label is taken for another." in plain
    points = find_operating_points(GOLD, SYSTEM, oracle=True)
    assert "ORACLE" in render_report(GOLD, SYSTEM, resamples=0, operating=points)


def curve_thresholds(page: str) -> list[float]:
    data = re.search(r'<script type="application/json" id="curve-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    return [row[0] for row in json.loads(data[1])]


def test_the_curves_go_over_all_that_is_scored() -> None:
    answer = keep_above(SYSTEM, 0.5)
    page = render_report(GOLD, answer, scored=SYSTEM, threshold=0.5, resamples=0)
    assert curve_thresholds(page) == [1.0, 0.8, 0.7, 0.4]
    # The slider rises to the right and starts where the system works: at 0.7, the lowest score that it keeps.
    assert '<input id="threshold" type="range" min="0" max="3" step="1" value="1">' in page
    assert "the system's own threshold, 0.5" in page
    assert page.count('class="own"') == 2
    kept = render_report(GOLD, answer, resamples=0)
    assert curve_thresholds(kept) == [1.0, 0.8, 0.7]
    assert 'class="own"' not in kept
    # All else is of the answer alone.
    assert (
        page.partition('<section id="curves"')[0].partition("<body>")[2]
        == (kept.partition('<section id="curves"')[0].partition("<body>")[2])
    )
    some = render_report(GOLD, answer, scored=SYSTEM, threshold=0.5, labels=["PATIENT"], resamples=0)
    assert curve_thresholds(some) == [1.0, 0.8, 0.7]
    nothing = render_report(GOLD, keep_above(SYSTEM, 1.1), scored=SYSTEM, threshold=1.1, resamples=0)
    assert curve_thresholds(nothing) == [1.0, 0.8, 0.7, 0.4]
    assert 'class="own"' not in nothing


def test_the_point_of_the_systems_own_threshold_is_drawn_on_a_long_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves_module, "MOST_POINTS", 2)
    page = render_report(GOLD, keep_above(SYSTEM, 0.75), scored=SYSTEM, threshold=0.75, resamples=0)
    assert curve_thresholds(page) == [1.0, 0.8, 0.4]
    assert "all 4 distinct scores, from 1 down to 0.4, and are drawn at 3 of them." in page


def test_the_command_draws_a_models_curves_below_its_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(GOLD, tmp_path / "gold", "jsonl")
    system = System(keep_above(SYSTEM, 0.5), tuple(SYSTEM), 0.5)
    monkeypatch.setattr(evaluation_commands, "read_system", lambda name, gold, *, votes: system)
    out = tmp_path / "report.html"
    assert (
        main(["model", "report", str(tmp_path / "gold"), "model", "--out", str(out), "--resamples", "0", "--text"]) == 0
    )
    assert curve_thresholds(out.read_text(encoding="utf-8")) == [1.0, 0.8, 0.7, 0.4]
    assert "it contains PHI" in capsys.readouterr().out


def test_what_is_missed_is_counted_unit_by_unit() -> None:
    """In n1 the name is found but for its last word, the doctor is mislabelled, date and city are missed."""
    page = render_report(GOLD, SYSTEM, resamples=0)
    table = re.search(r"<table><caption><strong>Missed, unit by unit.*?</table>", page, re.DOTALL)
    assert table is not None
    rows = re.findall(r'<th scope="row">(.*?)<small[^>]*>(.*?)</small></th>(.*?)</tr>', table[0], re.DOTALL)
    assert {name: re.findall(r"<td>(.*?)</td>", cells) for name, _, cells in rows} == {
        "Annotations without an exact match": ["4", "5", "80.00%"],
        "Annotations without a counterpart": ["2", "5", "40.00%"],
        "Annotations with a leak": ["3", "5", "60.00%"],
        "Annotations that leak entirely": ["2", "5", "40.00%"],
        "PHI tokens": ["5", "10", "50.00%"],
        "Letters and digits": ["11", "24", "45.83%"],
    }
    assert all(definition for _, definition, _ in rows)


def test_long_lists_and_many_notes_are_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "MOST_ERRORS", 1)
    monkeypatch.setattr(page_module, "MOST_NOTE_TEXT", 10)
    page = render_report(GOLD, SYSTEM, resamples=0)
    assert "Missed: 2 annotations, the first 1 of them listed" in page
    assert "Whole note" not in page


def test_some_labels_only_and_notes_that_do_not_match() -> None:
    text = "".join(Outline(render_report(GOLD, SYSTEM, labels=["PATIENT"], resamples=0)).text)
    assert "Only the labels PATIENT." in text
    assert "DOCTOR" not in text
    with pytest.raises(EvaluationError):
        render_report(GOLD, SYSTEM[:1])


def test_empty_notes_give_a_page() -> None:
    page = render_report([note("a", text="")], [note("a", text="")], resamples=5)
    assert "undefined" in page
    Outline(page)


def test_overlapping_annotations_cut_the_text_where_they_begin_and_end() -> None:
    golds, systems = [Span(0, 4, "A"), Span(2, 6, "B")], [Span(3, 5, "A")]
    pieces = marked("abcdefgh", 0, 8, golds, systems, focus=(2, 3))
    assert pieces == [
        '<mark class="g" title="gold A">ab</mark>',
        '<mark class="g f" title="gold A; gold B">c</mark>',
        '<mark class="g s" title="gold A; gold B; system A">d</mark>',
        '<mark class="g s" title="gold B; system A">e</mark>',
        '<mark class="g" title="gold B">f</mark>',
        "gh",
    ]


def test_context_is_cut_between_words() -> None:
    text = "word " * 40 + "TARGET" + " word" * 40
    document = note("a", (200, 206, "ID"), text=text)
    context = snippet(Pair(document, document.with_spans(())), 200, 206)
    assert context.startswith('<div class="context" dir="auto">… word')
    assert context.endswith("word …</div>")


def test_markup_escapes_all_but_itself() -> None:
    assert element("p", "a<b", Html("<i>x</i>"), None, title='"', hidden=True, id=None) == (
        '<p title="&quot;" hidden>a&lt;b<i>x</i></p>'
    )
    assert join(["a", "", "b"], "<wbr>") == "a<wbr><wbr>b"
