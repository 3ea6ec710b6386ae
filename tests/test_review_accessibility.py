"""The review page, judged by axe-core in a real Chromium: its states, light and dark, on a phone and a desktop."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_core import find_axe
from http_service import Service, running
from test_evaluation_browser import CHROMIUM, Browser, settle
from test_review_browser import NOTES, choose, click, content, enter, open_note, press_and_store, until, visit

from ensemble_deid.corpora.write import write_corpus

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
_RUN = """
axe.run(document).then(found => found.violations.map(
  rule => [rule.id, rule.nodes.map(node => node.html + " " + node.failureSummary)]
))
"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return find_axe(tmp_path_factory.mktemp("axe"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driven = Browser(tmp_path_factory.mktemp("profile"))
    yield driven
    driven.close()


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("review")
    notes = write_corpus(NOTES, folder / "notes.jsonl", "jsonl")[0]
    with running(
        tiny_model, folder, str(notes), "--store", str(folder / "s.sqlite"), command="review start"
    ) as service:
        settle_one_note(service)
        yield service


def settle_one_note(service: Service) -> None:
    """Let two reviewers finish the same note and differ, so that there are agreement and something to adjudicate."""
    notes: list[dict[str, Any]] = service.get("/api/notes?reviewer=ada").json["lines"]
    (third,) = [note["id"] for note in notes if note["name"] == NOTES[2].id]
    (span, *_) = service.get(f"/api/notes/{third}?reviewer=ada").json["spans"]
    rejected = {"reviewer": "ada", "status": "rejected"}
    assert service.post(f"/api/notes/{third}/spans/{span['id']}/status", rejected).status == 200
    for reviewer in ("ada", "bea"):
        finished = {"reviewer": reviewer, "finished": True, "settle": True}
        assert service.post(f"/api/notes/{third}/finished", finished).status == 200


def complaints(browser: Browser, axe: str) -> list[Any]:
    settle(browser)
    if not browser.run("Boolean(window.axe)"):
        browser.run(f"{axe};0")
    found: list[Any] = browser.run(_RUN)
    return found


def test_a_fault_would_be_found(browser: Browser, service: Service, axe: str) -> None:
    browser.look()
    visit(browser, service)
    browser.run("document.querySelector('label[for=reviewer]').remove()")
    browser.run("document.querySelector('#start .soft').style.color = '#999'")
    assert {rule for rule, _ in complaints(browser, axe)} >= {"color-contrast", "label"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_axe_core_finds_no_fault(browser: Browser, service: Service, axe: str, width: int, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    visit(browser, service)
    browser.run("document.getElementById('reviewer').value = ''")
    click(browser, "#begin")
    until(browser, "document.getElementById('start-problem').textContent")
    assert complaints(browser, axe) == []
    # Another reviewer for each look: what the last one did is not here.
    enter(browser, service, f"kim {width} {dark}")
    open_note(browser, "one")
    choose(browser, "Anna Bell")
    press_and_store(browser, "y")
    choose(browser, "03/04/2019")
    press_and_store(browser, "x")
    choose(browser, "Hunt")
    browser.press("e")
    until(browser, "document.getElementById('explanation').textContent.includes('probability')")
    assert complaints(browser, axe) == []
    judge_dialogs(browser, axe)
    cut_off(browser, offline=True)
    browser.press("x")
    until(browser, "document.getElementById('problem').textContent.includes('was not stored')")
    cut_off(browser, offline=False)
    assert complaints(browser, axe) == []


def cut_off(browser: Browser, *, offline: bool) -> None:
    speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.call("Network.emulateNetworkConditions", offline=offline, **speed)


def judge_dialogs(browser: Browser, axe: str) -> None:
    browser.press("s")
    until(browser, "document.querySelectorAll('#hits button').length")
    assert complaints(browser, axe) == []
    browser.press("Escape")
    for opener, dialog in (("open-results", "results"), ("open-help", "help")):
        until(browser, "!document.querySelector('dialog[open]')")
        browser.run(f"document.getElementById('{opener}').click()")
        until(browser, f"document.getElementById('{dialog}-dialog').open")
        assert complaints(browser, axe) == []
        browser.press("Escape")
    until(browser, "!document.querySelector('dialog[open]')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_adjudication_has_no_fault_either(browser: Browser, service: Service, axe: str, width: int, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    visit(browser, service)
    click(browser, "#adjudicate")
    until(browser, "!document.getElementById('work').hidden && document.getElementById('spans').children.length")
    assert "disputed" in content(browser, "#spans")
    assert complaints(browser, axe) == []
