"""The review page in a real Chromium, by keyboard and mouse, against a real server.

Names of controls and contrasts are checked here; tests/test_review_accessibility.py has axe-core judge the page, too.
"""

import json
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, running
from test_evaluation_browser import CHROMIUM, Browser, settle

from benchmarks.review_scale import note as long_note
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
from ensemble_deid.service.review.fill import add_note

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
TEXT = "Patient: Anna Bell\nDate: 03/04/2019\nSeen by Dr. Hunt"
HOSTILE = "\U0001f600\U0001f469 <img src=x onerror=\"document.title='broken'\"> & Zora Quill\r\n" + (
    "met e\u0301va <b>Zora Quill</b>."
)
NOTES = [
    Document("one", TEXT, patient_id="1"),
    Document("two", HOSTILE, patient_id="2"),
    Document("<i>three</i>", "Zora Quill was seen on 05/06/2019.", patient_id="3"),
]
_CODES = {"ArrowRight": 39, "ArrowLeft": 37, "Backspace": 8}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(NOTES, tmp_path_factory.mktemp("notes") / "notes.jsonl", "jsonl")[0]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driven = Browser(tmp_path_factory.mktemp("profile"))
    yield driven
    driven.close()


@pytest.fixture
def service(tiny_model: Path, notes: Path, tmp_path: Path) -> Iterator[Service]:
    with running(
        tiny_model, tmp_path, str(notes), "--store", str(tmp_path / "s.sqlite"), command="review start"
    ) as service:
        yield service


def until(browser: Browser, expression: str) -> None:
    """Wait for what the page is to show."""
    end = time.monotonic() + 30
    while not browser.run(f"Boolean({expression})"):
        state = browser.run("document.body?.innerText")
        assert time.monotonic() < end, f"{expression}\n{state}"
        time.sleep(0.05)


def content(browser: Browser, selector: str) -> str:
    said: str = browser.run(f"document.querySelector({selector!r}).textContent")
    return said


def visit(browser: Browser, service: Service) -> None:
    browser._events.clear()
    browser.call("Page.navigate", url=f"http://127.0.0.1:{service.port}/")
    until(browser, "document.readyState === 'complete' && document.getElementById('keys').children.length")


def enter(browser: Browser, service: Service, name: str = "kim") -> None:
    visit(browser, service)
    browser.run("document.getElementById('reviewer').value = ''; document.getElementById('reviewer').focus()")
    browser.call("Input.insertText", text=name)
    browser.press("Enter")
    until(browser, "!document.getElementById('work').hidden && document.activeElement.id === 'text'")


def open_note(browser: Browser, name: str) -> None:
    browser.run(
        "document.getElementById('said').textContent = '';"
        f"[...document.querySelectorAll('#notes button')].find(b => b.firstChild.data === {json.dumps(name)}).click()"
    )
    # The note may be open already: what it says comes once it was read again and a span is chosen.
    opened = f"document.getElementById('note-name').textContent.startsWith({json.dumps(name)})"
    until(browser, f"{opened} && document.getElementById('said').textContent")
    browser.run("document.getElementById('text').focus()")


def choose(browser: Browser, text: str) -> None:
    """Choose a span with the key j."""
    for _ in range(20):
        if content(browser, "#chosen-text") == text:
            return
        browser.press("j")
    for _ in range(20):
        browser.press("k")
        if content(browser, "#chosen-text") == text:
            return
    raise AssertionError(f"{text} is no span")


def arrow(browser: Browser, key: str, *, shift: bool = False) -> None:
    event = {"key": key, "windowsVirtualKeyCode": _CODES[key], "modifiers": 8 if shift else 0}
    browser.call("Input.dispatchKeyEvent", type="rawKeyDown", **event)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **event)


def press_and_store(browser: Browser, key: str, said: str = "Stored.") -> None:
    browser.run("document.getElementById('said').textContent = ''")
    browser.press(key)
    until(browser, f"document.getElementById('said').textContent.includes({said!r})")


def decided(service: Service, name: str, reviewer: str = "kim") -> list[tuple[str, str, str]]:
    listed: list[dict[str, Any]] = service.get(f"/api/notes?reviewer={reviewer}").json["lines"]
    (note,) = [line["id"] for line in listed if line["name"] == name]
    shown = service.get(f"/api/notes/{note}?reviewer={reviewer}").json
    spans = [s for s in shown["spans"] if s["status"] != "undecided"]
    # Offsets in code points, as Python counts.
    return [(shown["text"][s["start"] : s["end"]], s["label"], s["status"]) for s in spans]


def drag(browser: Browser, text: str) -> None:
    """Select the first occurrence of a string in the note with the mouse."""
    box = browser.run(
        "(() => { const walker = document.createTreeWalker(document.getElementById('text'), NodeFilter.SHOW_TEXT);"
        f"const wanted = {json.dumps(text)};"
        "while (walker.nextNode()) { const at = walker.currentNode.data.indexOf(wanted); if (at >= 0) {"
        "const range = document.createRange(); range.setStart(walker.currentNode, at);"
        "range.setEnd(walker.currentNode, at + wanted.length); document.getElementById('text').scrollIntoView();"
        "const boxes = [...range.getClientRects()]; const [a, b] = [boxes[0], boxes.at(-1)];"
        "return [a.left, (a.top + a.bottom) / 2, b.right, (b.top + b.bottom) / 2]; } } })()"
    )
    left, top, right, bottom = box
    mouse(browser, "mousePressed", left + 1, top)
    mouse(browser, "mouseMoved", left + 12, top)
    mouse(browser, "mouseMoved", right - 1, bottom)
    mouse(browser, "mouseReleased", right - 1, bottom)


def mouse(browser: Browser, kind: str, x: float, y: float) -> None:
    browser.call(
        "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=int(kind != "mouseMoved")
    )


def click(browser: Browser, selector: str) -> None:
    x, y = browser.run(
        f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
        f"return [(b.left + b.right) / 2, (b.top + b.bottom) / 2]; }})(document.querySelector({selector!r}))"
    )
    mouse(browser, "mousePressed", x, y)
    mouse(browser, "mouseReleased", x, y)


def finish_note(browser: Browser) -> None:
    """Finish the open note, also where the page asks for what is undecided, and wait until it is counted."""
    counted = "document.getElementById('progress-text').textContent.startsWith('1 of 3')"
    asked = "document.getElementById('finish-dialog').open"
    browser.press("f")
    until(browser, f"{counted} || {asked}")
    if browser.run(asked):
        click(browser, "#finish-anyway")
    until(browser, counted)


def test_a_review_by_keyboard(browser: Browser, service: Service) -> None:
    browser.look()
    enter(browser, service)
    open_note(browser, "one")
    assert content(browser, "#text") == TEXT
    choose(browser, "Anna Bell")
    press_and_store(browser, "y")
    choose(browser, "03/04/2019")
    press_and_store(browser, "x")
    choose(browser, "Hunt")
    browser.press("Escape")
    choose(browser, "Hunt")
    press_and_store(browser, "[")
    press_and_store(browser, "[")
    assert content(browser, "#chosen-text") == ". Hunt"
    press_and_store(browser, "{")
    press_and_store(browser, "{")
    press_and_store(browser, "}")
    press_and_store(browser, "]")
    assert ("Hunt", "DOCTOR", "accepted") in decided(service, "one")
    browser.press("e")
    until(browser, "document.getElementById('explanation').textContent.includes('probability')")
    # The label by its first letter in the list; the text gets the focus back with Escape.
    browser.press("l")
    browser.press("P")
    until(browser, "document.getElementById('chosen-facts').textContent.startsWith('PATIENT')")
    browser.press("Escape")
    assert browser.run("document.activeElement.id") == "text"
    assert ("Hunt", "PATIENT", "accepted") in decided(service, "one")
    press_and_store(browser, "z")
    assert ("Hunt", "DOCTOR", "accepted") in decided(service, "one")
    press_and_store(browser, "Z")
    assert ("03/04/2019", "DATE", "rejected") in decided(service, "one")
    browser.press("Escape")
    # Words by arrow keys: the first one, then to the next and one further.
    arrow(browser, "ArrowRight")
    assert content(browser, "#chosen-text") == "Patient"
    for _ in range(4):
        arrow(browser, "ArrowRight")
    assert content(browser, "#chosen-text") == "Date"
    arrow(browser, "ArrowRight", shift=True)
    assert content(browser, "#chosen-text") == "Date:"
    arrow(browser, "ArrowLeft", shift=True)
    press_and_store(browser, "a", "marked")
    assert "Date" in [text for text, _, status in decided(service, "one") if status == "accepted"]
    # What is undecided is asked for; nothing is finished by asking.
    choose(browser, "Anna Bell")
    press_and_store(browser, "u")
    browser.press("f")
    until(browser, "document.getElementById('finish-dialog').open")
    assert "1 found" in content(browser, "#finish-text")
    click(browser, "#finish-look")
    until(browser, "!document.getElementById('finish-dialog').open")
    assert content(browser, "#progress-text").startswith("0 of 3")
    finish_note(browser)
    until(browser, "!document.getElementById('note-name').textContent.startsWith('one')")
    assert browser.complaints == []
    assert all(url.startswith(f"http://127.0.0.1:{service.port}/") for url in browser.loaded)


def test_a_review_by_mouse(browser: Browser, service: Service) -> None:
    browser.look()
    enter(browser, service)
    open_note(browser, "two")
    # What a note holds is text and nothing else, and so are the names of notes.
    assert content(browser, "#text") == HOSTILE
    assert browser.run("document.querySelectorAll('#text img, #text b, #notes i').length") == 0
    drag(browser, "Zora Quill")
    until(browser, "document.getElementById('chosen-text').textContent === 'Zora Quill'")
    browser.run("document.getElementById('label').value = 'PATIENT'")
    click(browser, "#add")
    until(browser, "document.getElementById('said').textContent.includes('marked as PATIENT')")
    start = HOSTILE.index("Zora Quill")
    note = next(n for n in service.get("/api/notes?reviewer=kim").json["lines"] if n["name"] == "two")["id"]
    (span,) = [s for s in service.get(f"/api/notes/{note}?reviewer=kim").json["spans"] if s["kind"] == "added"]
    assert (span["start"], span["end"], span["label"]) == (start, start + 10, "PATIENT")
    assert content(browser, "mark.chosen") == "Zora Quill"
    click(browser, "#reject")
    until(browser, "document.querySelector('mark.rejected')")
    click(browser, "#undo")
    until(browser, "document.querySelector('mark.accepted')")

    browser.press("Escape")
    click(browser, "#text mark.accepted")
    until(browser, "document.getElementById('chosen-text').textContent === 'Zora Quill'")
    click(browser, "#search-chosen")
    until(browser, "document.getElementById('search-said').textContent.startsWith('3 occurrences in 2 notes')")
    browser.run("document.getElementById('mark-label').value = 'PATIENT'")
    click(browser, "#mark-all")
    until(browser, "document.getElementById('search-said').textContent.includes('Stored.')")
    browser.press("Escape")
    settle(browser)
    names = [("Zora Quill", "PATIENT", "accepted")]
    assert [entry for entry in decided(service, "two") if entry[2] == "accepted"] == names * 2
    assert names[0] in decided(service, "<i>three</i>")
    finish_note(browser)
    # A finished note offers to be opened again, and no decision.
    open_note(browser, "two")
    browser.press("j")
    assert content(browser, "#finish").startswith("Reopen")
    hidden = "['span-tools', 'edge-tools', 'label-field'].every((id) => document.getElementById(id).hidden)"
    assert browser.run(hidden)
    # Another order is asked for by the list, and the page goes on with the note that is open.
    browser.run(
        "const list = document.getElementById('order'); list.value = 'disagreement';"
        "list.dispatchEvent(new Event('change'))"
    )
    until(browser, "performance.getEntriesByType('resource').some((one) => one.name.includes('order=disagreement'))")
    settle(browser)
    assert browser.run("document.querySelectorAll('#notes button').length") == 3
    assert browser.run("document.getElementById('pages').hidden")
    click(browser, "#open-results")
    until(browser, "document.getElementById('results-dialog').open")
    assert "ensemble-deid review learn" in content(browser, "#then-command")
    browser.call("Page.setDownloadBehavior", behavior="deny")
    click(browser, "#export-jsonl")
    until(browser, "document.getElementById('export-said').textContent.startsWith('1 notes exported')")
    assert browser.run("document.title") == "Review of found PHI"
    assert browser.complaints == []


def test_a_long_list_is_turned_page_by_page(browser: Browser, tiny_model: Path, tmp_path: Path) -> None:
    many = [Document(f"n{number:03}", "Nothing is found here.", patient_id="1") for number in range(120)]
    (source,) = write_corpus(many, tmp_path / "many.jsonl", "jsonl")
    options = (str(source), "--store", str(tmp_path / "s.sqlite"))
    with running(tiny_model, tmp_path, *options, command="review start") as service:
        browser.look()
        enter(browser, service)
        until(browser, "document.querySelectorAll('#notes button').length === 100")
        assert content(browser, "#page-text") == "1 to 100 of 120"
        first = content(browser, "#note-name")
        click(browser, "#later")
        until(browser, "document.getElementById('page-text').textContent === '101 to 120 of 120'")
        assert content(browser, "#note-name") == first
        # The keys go from the open note to its neighbour, whatever page is shown.
        browser.press("J")
        until(browser, f"document.getElementById('note-name').textContent !== {first!r}")
        until(browser, "document.getElementById('page-text').textContent === '1 to 100 of 120'")
        browser.press("K")
        until(browser, f"document.getElementById('note-name').textContent === {first!r}")
        assert browser.complaints == []


_SAID = "document.getElementById('{}').textContent"
_STEPS = {
    "turn the list": (_SAID.format("page-text"), "document.getElementById('later').click()"),
    "open a note": (_SAID.format("note-name"), "document.querySelectorAll('#notes button')[70].click()"),
    "choose a span": (_SAID.format("chosen-facts"), "document.getElementById('next').click()"),
    "accept": ("document.querySelectorAll('#text mark.accepted').length", "document.getElementById('accept').click()"),
    "next note": (
        _SAID.format("note-name"),
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'J', bubbles: true}))",
    ),
}


def test_a_thousand_notes_without_lag(browser: Browser, tiny_model: Path, tmp_path: Path) -> None:
    """From the click to the next picture, with notes of 3,000 characters and ten spans: the best of five."""
    rng = random.Random(1)
    many = [long_note(number, rng) for number in range(1000)]
    (source,) = write_corpus([one.with_spans(()) for one in many], tmp_path / "many.jsonl", "jsonl")
    model = Deidentifier.load(tiny_model)
    file = ReviewFile(tmp_path / "s.sqlite", create=True)
    threshold = model.description.threshold
    settle_facts(file, Facts(read_manifest(tiny_model).checksum, threshold, tuple(model.labels)))
    with file.transaction() as database:
        for one in many:
            add_note(database, one, threshold, submodels=4)
    file.close()
    options = (str(source), "--store", str(tmp_path / "s.sqlite"))
    took: dict[str, list[float]] = {name: [] for name in _STEPS}
    with running(tiny_model, tmp_path, *options, command="review start") as service:
        browser.look()
        enter(browser, service)
        until(browser, "document.querySelectorAll('#notes button').length === 100")
        for _ in range(5):
            for name, (shown, action) in _STEPS.items():
                settle(browser)
                script = f"const before = {shown}, begun = performance.now(); {action};"
                script += f"while ({shown} === before && performance.now() < begun + 9000)"
                script += "await new Promise(requestAnimationFrame);"
                script += "await new Promise(requestAnimationFrame); return performance.now() - begun;"
                took[name].append(browser.run(f"(async () => {{ {script} }})()"))
    best = {name: round(min(times)) for name, times in took.items()}
    print(best)
    assert max(best.values()) < 500, best


def test_a_server_that_dies_loses_nothing(browser: Browser, tiny_model: Path, notes: Path, tmp_path: Path) -> None:
    browser.look()
    options = (str(notes), "--store", str(tmp_path / "s.sqlite"))
    with running(tiny_model, tmp_path, *options, command="review start") as first:
        enter(browser, first)
        open_note(browser, "one")
        choose(browser, "Anna Bell")
        press_and_store(browser, "x")
        first.stop(signal.SIGKILL)
        # What is read stays readable, and nothing is said to be lost.
        browser.run("[...document.querySelectorAll('#notes button')][1].click()")
        said = "The server does not answer: start it again."
        until(browser, f"document.getElementById('problem').textContent === {said!r}")
        choose(browser, "Hunt")
        browser.press("x")
        until(browser, "document.getElementById('problem').textContent.includes('was not stored')")
        # The page does not pretend.
        assert "undecided" in content(browser, "#chosen-facts")
    with running(tiny_model, tmp_path, *options, "--port", str(first.port), command="review start") as second:
        press_and_store(browser, "x")
        until(browser, "document.getElementById('problem').textContent === ''")
        assert [entry for entry in decided(second, "one") if entry[2] == "rejected"] == [
            ("Anna Bell", "PATIENT", "rejected"),
            ("Hunt", "DOCTOR", "rejected"),
        ]


LINES = [f"Line {number} says nothing.\n" for number in range(150)]
LONG = Document("long", "".join([*LINES[:75], "Date: 03/04/2019\n", *LINES[75:], "Seen by Dr. Hunt"]), patient_id="9")
IN_VIEW = """
['undo', 'open-search', 'open-guideline', 'accept', 'reject', 'next', 'finish'].filter((id) => {
  const box = document.getElementById(id).getBoundingClientRect();
  return !box.height || box.top < 0 || box.left < 0 || box.bottom > innerHeight || box.right > innerWidth;
})
"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (768, 1024), (390, 844)])
def test_tools_and_decisions_stay_in_view(
    browser: Browser, tiny_model: Path, tmp_path: Path, width: int, height: int
) -> None:
    (source,) = write_corpus([LONG, *NOTES], tmp_path / "notes.jsonl", "jsonl")
    options = (str(source), "--store", str(tmp_path / "s.sqlite"))
    with running(tiny_model, tmp_path, *options, command="review start") as service:
        browser.look(width=width, height=height)
        enter(browser, service)
        open_note(browser, "long")
        for text in ("03/04/2019", "Hunt"):
            choose(browser, text)
            settle(browser)
            assert browser.run(IN_VIEW) == []
            box = browser.run("(b => [b.top, b.bottom])(document.querySelector('mark.chosen').getBoundingClientRect())")
            assert 0 < box[0] < box[1] < height
        browser.press("g")
        until(browser, "document.getElementById('guideline').open")
        browser.screenshot(tmp_path / f"review-{width}.png")
        assert browser.run(IN_VIEW) == []
        assert browser.run("document.documentElement.scrollHeight") == height
        # The colours of two labels differ, and each span says its label.
        told = dict(
            browser.run(
                "[...document.querySelectorAll('#text mark')]"
                ".map((m) => [m.dataset.label, getComputedStyle(m).backgroundColor])"
            )
        )
        assert told["DATE"] != told["DOCTOR"]
        assert browser.complaints == []


CONTRAST = """
(() => {
  const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || e.disabled || e.closest('.skip, option, datalist')) continue;
    const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(`${e.tagName}.${e.className}: ${(a + 0.05) / (b + 0.05)}`);
  }
  return poor;
})()
"""
_NAMED_ROLES = {"button", "textbox", "combobox", "checkbox", "navigation", "dialog", "progressbar", "toolbar"}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 768, 390])
def test_everybody_can_use_it(browser: Browser, service: Service, width: int, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    visit(browser, service)
    judge(browser)
    enter(browser, service)
    open_note(browser, "two")
    drag(browser, "Zora Quill")
    until(browser, "document.getElementById('chosen-text').textContent === 'Zora Quill'")
    press_and_store(browser, "a", "marked")
    assert browser.run("document.documentElement.scrollWidth") == width
    light, ink = browser.run(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        ".map(c => c.match(/\\d+/g).reduce((sum, n) => sum + Number(n), 0))"
    )
    assert (light < ink) is dark
    judge(browser)
    for opener, dialog in (("open-search", "search"), ("open-results", "results"), ("open-help", "help")):
        browser.run(f"document.getElementById('{opener}').click()")
        until(browser, f"document.getElementById('{dialog}-dialog').open")
        judge(browser)
        browser.press("Escape")
        until(browser, "!document.querySelector('dialog[open]')")
    assert browser.complaints == []


def judge(browser: Browser) -> None:
    """Check names of controls and contrasts."""
    settle(browser)
    time.sleep(0.3)
    assert browser.run(CONTRAST) == []
    browser.call("Accessibility.enable")
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    nameless = [
        node
        for node in tree
        if not node["ignored"]
        and node.get("role", {}).get("value") in _NAMED_ROLES
        and not node.get("name", {}).get("value", "").strip()
    ]
    assert nameless == []


def test_rules_as_cards(browser: Browser, tiny_model: Path, tiny_dev: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    with running(model, tmp_path, "--corpus", str(tiny_dev), command="rules review") as service:
        browser._events.clear()
        browser.call("Page.navigate", url=f"http://127.0.0.1:{service.port}/")
        until(browser, "document.readyState === 'complete' && document.getElementById('reviewer')")
        browser.run("document.getElementById('reviewer').focus()")
        browser.call("Input.insertText", text="A. Berg")
        browser.press("Enter")
        until(browser, "document.querySelectorAll('article').length === 4")
        assert content(browser, "#rule-3 h3").startswith("3. where the second word before is 'patient'")
        assert content(browser, "#cards h2") == "CITY: finds words"
        browser.run("document.querySelector('#rule-3 .tools button').click()")
        until(browser, "document.querySelector('#rule-3 .soft').textContent.startsWith('approved by A. Berg')")
        browser.run("document.querySelector('#rule-4 .tools button:nth-child(3)').click()")
        browser.run("document.querySelector('#rule-4 textarea').value = 'change O'")
        browser.run("document.querySelector('#rule-4 form button').click()")
        until(browser, "document.getElementById('rules-problem').textContent.includes(\"expected 'to'\")")
        assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
