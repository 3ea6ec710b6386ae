"""The documents as a site: built strictly, from nothing but the checkout, and read without a network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_blocks import DOCUMENTS, ROOT
from test_evaluation_browser import CHROMIUM, Browser

import ensemble_deid

pytestmark = pytest.mark.long
# What a browser fetches by itself; links to elsewhere are for people.
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//")
_CANONICAL = re.compile(r"<link [^>]*rel=.?canonical")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the site needs the extra [docs]")
    folder = tmp_path_factory.mktemp("site")
    options = ["--strict", "--quiet", "-f", str(ROOT / "docs" / "site" / "mkdocs.yml"), "-d", str(folder)]
    # A proxy that is none: what wants to go out fails.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options],
        env={**os.environ, **closed, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    for document in DOCUMENTS:
        name = document.relative_to(ROOT).with_suffix(".html")
        assert (name.with_name("index.html") if name.stem == "README" else name).as_posix() in pages
    notebooks = {f"notebooks/{path.stem}.html" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks <= pages
    assert "data/demo/sites/existing.html" in pages


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "docs" / "reference" / "python.html").read_text(encoding="utf-8")
    for name, module in ensemble_deid._MODULE_OF.items():
        assert f'id="{module}.{name}"' in page
    for name in ("presidio.EnsembleRecognizer", "spark.deidentify", "sklearn.EnsembleEstimator"):
        assert f'id="ensemble_deid.integrations.{name}"' in page
    assert "<blockquote>" not in page, "an example was taken for a quotation"


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not _FETCHED.search(_CANONICAL.sub("", path.read_text(encoding="utf-8"))), path.name
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path.name


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    driven = Browser(tmp_path / "profile")
    yield driven
    driven.close()


def test_it_is_read_from_a_disk(site: Path, browser: Browser) -> None:
    for name in ("index.html", "docs/reference/python.html", "docs/data-engineer.html", "notebooks/rules.html"):
        browser.open(site / name)
        assert browser.run("getComputedStyle(document.querySelector('.md-header')).position") == "sticky"
        assert [url for url in browser.loaded if not url.startswith(("file:", "data:"))] == []
        assert browser.complaints == []
    browser.run("document.querySelector('a[href$=\"own_corpus.html\"]').click()")
    browser.open(site / "docs" / "rules.html")
    assert "Rules" in browser.run("document.querySelector('h1').textContent")
