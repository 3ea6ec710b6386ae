"""The report in a real browser: Chromium without a window, driven over its debugging pipe."""

import base64
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensemble_deid.evaluation.curve import keep_above
from ensemble_deid.evaluation.operating_points import find_operating_points
from ensemble_deid.evaluation.render.html.page import render_report
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import Span

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


def _high_pipe() -> tuple[int, int]:
    """Return a pipe for reading and writing that stays clear of the descriptors 3 and 4."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]


class Browser:
    """One page of a headless Chromium; `complaints` gathers what its console and its policies complain of."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._out = _high_pipe()
        self._in, from_browser = _high_pipe()
        arguments = [str(CHROMIUM), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"]
        arguments += ["--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}"]
        # The browser listens on its descriptor 3 and answers on 4.
        launch = (
            f"import os, sys; os.dup2({to_browser}, 3); os.dup2({from_browser}, 4); os.execv(sys.argv[1], sys.argv[1:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", launch, *arguments, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, /, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], 60)
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 16)
            assert piece, "the browser went away"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, path: Path) -> None:
        self._events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read())

    def run(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, scale: float = 1) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        event = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    @property
    def complaints(self) -> list[dict[str, Any]]:
        bad = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [event for event in self._events if event.get("method") in bad]

    @property
    def loaded(self) -> list[str]:
        sent = (event for event in self._events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def close(self) -> None:
        self._session = None
        os.write(self._out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driven = Browser(tmp_path_factory.mktemp("profile"))
    yield driven
    driven.close()


NOTE = "Ada Gil \U0001f600 saw Dr Bo Li on 1/2/31 in Rome, and on 3/4/31 she went home. "


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spans = (Span(0, 7, "PATIENT"), Span(17, 22, "DOCTOR"), Span(26, 32, "DATE"), Span(36, 40, "CITY"))
    gold = [Document(f"n{i}", NOTE * 3, spans, None, {"kind": ("letter", "visit")[i % 2]}) for i in range(6)]
    given = (
        (Span(0, 7, "DOCTOR", 0.9), Span(17, 22, "DOCTOR", 0.8), Span(26, 29, "DATE", 0.6), Span(10, 13, "CITY", 0.3)),
        (Span(0, 7, "PATIENT", 0.95), Span(36, 40, "CITY", 0.5)),
    )
    system = [document.with_spans(given[i % 2]) for i, document in enumerate(gold)]
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(gold, system, votes={"crf": system}, resamples=100), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def wide_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with all labels of i2b2, so that its tables are wide, and hundreds of errors, so that it is long."""
    labels = sorted(I2B2_TYPES)
    text = " ".join(f"word{k:02}" for k in range(len(labels))) + "\n" * 12 + "end"
    gold, scored = [], []
    for n in range(12):
        places = [(7 * k, 7 * k + 6) for k in range(len(labels))]
        spans = [Span(*place, label) for place, label in zip(places, labels, strict=True)]
        # Some are right, some mislabelled, some cut, some given below the threshold alone, and the last is missed.
        given = [
            Span(
                span.start,
                span.end - (k % 5 == n % 5),
                labels[(k + n) % len(labels)] if k % 7 == n % 7 else span.label,
                0.1 + 0.9 * ((13 * k + 5 * n) % 100) / 100,
            )
            for k, span in enumerate(spans[:-1])
        ]
        document = Document(f"n{n:02}", text, tuple(spans), f"p{n // 2}", {"kind": ("letter", "visit")[n % 2]})
        gold.append(document)
        scored.append(document.with_spans(given))
    answer = keep_above(scored, 0.5)
    operating = find_operating_points(gold, scored, oracle=True, threshold=0.5)
    page = render_report(gold, answer, scored=scored, threshold=0.5, operating=operating, resamples=100)
    path = tmp_path_factory.mktemp("report") / "wide.html"
    path.write_text(page, encoding="utf-8")
    return path


def settle(browser: Browser) -> None:
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_renders_wide_and_narrow_light_and_dark(browser: Browser, report: Path, width: int, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    browser.open(report)
    assert browser.complaints == []
    assert browser.loaded == [report.as_uri()]
    # wide tables scroll on their own; the page itself does not
    assert browser.run("document.documentElement.scrollWidth") == width
    light, ink = browser.run(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        ".map(c => c.match(/\\d+/g).reduce((sum, n) => sum + Number(n), 0))"
    )
    assert (light < ink) is dark
    assert browser.run("document.querySelector('.warning').getBoundingClientRect().top") < 100
    assert browser.run("document.querySelectorAll('svg polyline').length") == 4
    for tile in browser.run("[...document.querySelectorAll('.tile b')].map(b => b.textContent)"):
        assert tile[0].isdigit()


def shown(browser: Browser) -> list[str]:
    kinds: list[str] = browser.run(
        "[...document.querySelectorAll('.error')].filter(e => e.offsetParent !== null).map(e => e.dataset.kind)"
    )
    return kinds


def choose(browser: Browser, field: str, value: str) -> None:
    browser.run(
        f"(f => {{f.value = '{value}'; f.dispatchEvent(new Event('input'))}})(document.getElementById('{field}'))"
    )


def test_filters_narrow_the_list_and_say_so(browser: Browser, report: Path) -> None:
    browser.look()
    browser.open(report)
    everything = shown(browser)
    assert sorted(set(everything)) == ["missed", "spurious", "wrong boundary", "wrong label"]
    choose(browser, "f-kind", "missed")
    assert set(shown(browser)) == {"missed"}
    choose(browser, "f-note", "visit")
    assert len(shown(browser)) == 6
    choose(browser, "f-label", "DATE")
    assert len(shown(browser)) == 3
    assert browser.run("document.getElementById('shown').textContent") == (
        f"3 of {len(everything)} listed errors shown"
    )
    choose(browser, "f-words", "note n5")
    assert len(shown(browser)) == 1
    choose(browser, "f-words", "nowhere")
    assert shown(browser) == []
    browser.run("document.getElementById('clear').click()")
    assert shown(browser) == everything
    assert browser.complaints == []


def test_the_keyboard_reaches_errors_and_notes(browser: Browser, report: Path) -> None:
    browser.look()
    browser.open(report)
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Skip to the content"
    focused = "document.activeElement.id"
    for key, expected in (("j", "e1"), ("j", "e2"), ("k", "e1")):
        browser.press(key)
        assert browser.run(focused) == expected
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Whole note"
    browser.press("Enter")
    settle(browser)
    assert browser.run("document.getElementById('note-dialog').open")
    # the emoji before it must not shift what is marked
    assert browser.run("document.querySelector('#note-text .f').textContent") == "Rome"
    assert browser.run("document.getElementById('note-text').textContent") == NOTE * 3
    browser.press("Escape")
    settle(browser)
    assert not browser.run("document.getElementById('note-dialog').open")
    assert browser.complaints == []


def test_the_threshold_can_be_moved(browser: Browser, report: Path) -> None:
    browser.look()
    browser.open(report)
    read = "['r-threshold', 'r-recall'].map(id => document.getElementById(id).textContent)"
    lowest = browser.run(read)
    assert lowest[0] == "0.3"
    browser.run("document.getElementById('threshold').focus()")
    browser.run("(s => {s.value = s.max; s.dispatchEvent(new Event('input'))})(document.getElementById('threshold'))")
    highest = browser.run(read)
    assert highest[0] == "0.95"
    assert float(highest[1]) < float(lowest[1])
    assert browser.complaints == []


def test_the_curves_reach_below_the_systems_own_threshold(browser: Browser, wide_report: Path) -> None:
    browser.look()
    browser.open(wide_report)
    read = "['r-threshold', 'r-recall'].map(id => Number(document.getElementById(id).textContent))"
    threshold, recall = browser.run(read)
    assert 0.5 <= threshold < 0.52
    # The dot of the reader lies in the ring of the system's own threshold.
    centre = "(c => [c.cx.baseVal.value, c.cy.baseVal.value])"
    dot, ring = browser.run(f"['#pr-dot', 'circle.own'].map(s => {centre}(document.querySelector(s)))")
    assert dot == pytest.approx(ring, abs=0.1)
    line = browser.run("document.querySelector('line.own').x1.baseVal.value")
    lefts = browser.run(
        "[...document.querySelectorAll('figure:has(line.own) polyline')]"
        ".map(line => Math.min(...[...line.points].map(point => point.x)))"
    )
    assert len(lefts) == 3
    assert all(left < line - 100 for left in lefts)
    browser.run("(s => {s.value = 0; s.dispatchEvent(new Event('input'))})(document.getElementById('threshold'))")
    lowest = browser.run(read)
    assert lowest[0] == 0.1
    assert lowest[1] > recall
    assert browser.complaints == []


def test_what_is_missed_always_has_its_unit(browser: Browser, wide_report: Path) -> None:
    browser.look()
    browser.open(wide_report)
    places = "h2, p:not(.facts, .legend), summary, caption, th, .tile, .readout span, figcaption"
    said: list[str] = browser.run(f"[...document.querySelectorAll('{places}')].map(e => e.textContent)")
    missed = [text for text in said if re.search(r"\bmissed\b|\bFN\b", text, re.IGNORECASE)]
    assert len(missed) > 10
    without = [
        text for text in missed if not re.search(r"annotation|PHI token|letters|unit|words", text, re.IGNORECASE)
    ]
    # Columns of a table: its caption or its rows name the unit.
    assert set(without) <= {"FN", "Missed", "FN per 1000"}
    for header in ("FN", "Missed", "FN per 1000"):
        captions: list[str] = browser.run(
            f"[...document.querySelectorAll('th')].filter(e => e.textContent === '{header}')"
            ".map(e => e.closest('section').querySelector('p').textContent + e.closest('table').caption.textContent)"
        )
        assert captions
        assert all(re.search(r"annotation|PHI tokens|unit", caption) for caption in captions)


def at_rest(browser: Browser) -> None:
    """Wait until the page has not moved for a while."""
    browser.run(
        "new Promise(done => {let last = -1, same = 0; const look = () => {same = scrollY === last ? same + 1 : 0;"
        " last = scrollY; same > 20 ? done() : requestAnimationFrame(look)}; look()})"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_links_land_on_their_sections(browser: Browser, wide_report: Path, width: int) -> None:
    browser.look(width=width)
    browser.open(wide_report)
    assert browser.run("document.querySelectorAll('.error').length") > 200
    names: list[str] = browser.run("[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1))")
    assert {"words", "guide"} < set(names)
    for name in [*names, *reversed(names)]:
        browser.run(f"document.querySelector('nav a[href=\"#{name}\"]').click()")
        at_rest(browser)
        top, rest, height = browser.run(
            f"[document.getElementById('{name}-title').getBoundingClientRect().top,"
            " document.documentElement.scrollHeight - innerHeight - scrollY, innerHeight]"
        )
        bar = browser.run("document.querySelector('nav').getBoundingClientRect().bottom")
        # At its end the page cannot be scrolled further.
        assert bar <= top < (bar + 60 if rest > 1 else height), name


def columns_out_of_sight(browser: Browser) -> dict[str, tuple[float, bool]]:
    """Return, for every table, the pixels that are cut off and whether a line above it says so."""
    found: list[tuple[str, float, bool]] = browser.run(
        "[...document.querySelectorAll('table')].map(t => {const box = t.closest('.scroll'), cue = "
        "box.parentElement.querySelector('.cue'); return [box.getAttribute('aria-label'),"
        " t.getBoundingClientRect().right - box.getBoundingClientRect().right, cue.offsetHeight > 0]})"
    )
    return {name: (cut, said) for name, cut, said in found}


def test_all_columns_of_all_labels_fit_a_desk_screen(browser: Browser, wide_report: Path) -> None:
    browser.look()
    browser.open(wide_report)
    settle(browser)
    tables = columns_out_of_sight(browser)
    assert len(tables) == browser.run("document.querySelectorAll('table').length") > 12
    assert all(cut <= 0 and not said for cut, said in tables.values()), tables
    last = "[...document.querySelectorAll('.matrix thead th')].at(-1)"
    assert browser.run(f"{last}.textContent") == "∅"


def test_tables_wider_than_a_phone_say_so_and_scroll(browser: Browser, wide_report: Path) -> None:
    browser.look(width=390)
    browser.open(wide_report)
    settle(browser)
    tables = columns_out_of_sight(browser)
    wide = {name for name, (cut, _) in tables.items() if cut > 1}
    assert {"By label", "Confusion of labels", "Leaks by label.", "Views of the same annotations"} <= wide
    assert {name for name, (_, said) in tables.items() if said} == wide
    assert browser.run("document.documentElement.scrollWidth") == 390
    browser.run("document.querySelectorAll('.scroll').forEach(box => box.scrollTo(box.scrollWidth, 0))")
    settle(browser)
    assert all(cut <= 1 for cut, _ in columns_out_of_sight(browser).values())
    lefts = browser.run(
        "[...document.querySelectorAll('.scroll th:first-child')].map(first => [first, first.closest('.scroll')])"
        ".map(([first, box]) => first.getBoundingClientRect().left - box.getBoundingClientRect().left)"
    )
    assert all(0 <= left <= 2 for left in lefts)
    # Nothing of the columns behind it shows through the first one.
    on_top = browser.run(
        "(first => {first.scrollIntoView({block: 'center'}); const r = first.getBoundingClientRect();"
        " return [...Array(9).keys()].every(k => first.contains(document.elementFromPoint("
        "r.left + r.width * (k + 1) / 10, r.bottom - 12)))})(document.querySelector('.matrix thead th'))"
    )
    assert on_top
    # A wider screen takes the line away again.
    browser.look()
    settle(browser)
    assert not any(said for _, said in columns_out_of_sight(browser).values())


def pages(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_the_curves_share_a_page_of_paper(browser: Browser, wide_report: Path) -> None:
    browser.look()
    browser.open(wide_report)
    browser.run("document.querySelectorAll('main > :not(#curves), .warning, header, footer').forEach(e => e.remove())")
    browser.run("document.querySelector('#curves .table').remove()")
    assert browser.run("document.querySelectorAll('svg polyline').length") == 4
    assert pages(browser.pdf()) == 1
    # Beside each other, both whole, in less than half a page.
    browser.look(width=718)
    browser.call("Emulation.setEmulatedMedia", media="print")
    (left, top, bottom), (other_left, other_top, _) = browser.run(
        "[...document.querySelectorAll('.charts figure')].map(f => f.getBoundingClientRect())"
        ".map(r => [r.left, r.top, r.bottom])"
    )
    browser.call("Emulation.setEmulatedMedia", media="")
    assert top == other_top
    assert left < other_left
    assert bottom - top < 480


def test_it_prints(browser: Browser, report: Path) -> None:
    browser.look()
    browser.open(report)
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000
    assert browser.complaints == []
