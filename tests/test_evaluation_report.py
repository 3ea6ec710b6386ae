"""The report as a string: what it holds, what it must not hold, and that no note can break out of it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ensemble_deid.evaluation.operating_points import find_operating_points
from ensemble_deid.evaluation.pairs import EvaluationError, Pair
from ensemble_deid.evaluation.render.html import errors as errors_module
from ensemble_deid.evaluation.render.html import page as page_module
from ensemble_deid.evaluation.render.html.context import marked, snippet
from ensemble_deid.evaluation.render.html.markup import Html, element, join
from ensemble_deid.evaluation.render.html.page import render_report
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, SpanKey

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
    for kind in ("Missed: 2", "Spurious: 1", "Wrong label: 1", "Wrong boundary: 1"):
        assert kind in text


def test_without_text_no_word_of_a_note_is_in_the_page() -> None:
    page = render_report(GOLD, SYSTEM, include_text=False, resamples=20, votes={"crf": SYSTEM})
    assert not any(word in page for word in WORDS)
    assert "may still identify patients" in page
    assert "note n1" in page
    assert 'id="forms"' not in page
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
    assert "crf: CITY, 1.000" in text
    assert "tbed: AGE at 20–31, 1.000" in text
    assert "crf: nothing" in text


def test_curves_need_scores_and_operating_points_say_where_they_come_from() -> None:
    plain = render_report(GOLD, GOLD, resamples=0)
    assert "does not score its annotations" in plain
    assert "There are no errors." in plain
    assert "No label is taken for another." in plain
    points = find_operating_points(GOLD, SYSTEM, oracle=True)
    assert "ORACLE" in render_report(GOLD, SYSTEM, resamples=0, operating=points)


def test_long_lists_and_many_notes_are_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "MOST_ERRORS", 1)
    monkeypatch.setattr(page_module, "MOST_NOTE_TEXT", 10)
    page = render_report(GOLD, SYSTEM, resamples=0)
    assert "Missed: 2, the first 1 of them listed" in page
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
