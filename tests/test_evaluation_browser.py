"""The report in a real browser: Chromium without a window, driven over its debugging pipe."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensemble_deid.evaluation.render.html.page import render_report
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span

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
    assert lowest[0] == "0.3000"
    browser.run("document.getElementById('threshold').focus()")
    browser.run("(s => {s.value = s.max; s.dispatchEvent(new Event('input'))})(document.getElementById('threshold'))")
    highest = browser.run(read)
    assert highest[0] == "0.9500"
    assert float(highest[1]) < float(lowest[1])
    assert browser.complaints == []


def test_it_prints(browser: Browser, report: Path) -> None:
    browser.look()
    browser.open(report)
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000
    assert browser.complaints == []
