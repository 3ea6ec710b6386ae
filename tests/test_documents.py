"""What the documents say can be done: links lead somewhere, and each page is run from top to bottom."""

import contextlib
import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_blocks import DOCUMENTS, ROOT, blocks
from document_reader import Reader, is_on_spark
from document_workplace import make_workplace

_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_MOST_WORDS = 17_400
RUN = [path for path in DOCUMENTS if any(not block.not_run for block in blocks(path))]
ON_SPARK = [path for path in RUN if any(is_on_spark(block) for block in blocks(path))]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as forges and the site make them."""
    headings = (re.sub(r"[^\w\- ]", "", one.lower()) for one in _HEADING.findall(path.read_text(encoding="utf-8")))
    return {heading.strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in _LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_nothing_is_left_to_be_filled_in(document: Path) -> None:
    assert not re.search(r"\b[A-Z]+_FIGURES\b|\bTODO\b|still to be written", document.read_text(encoding="utf-8"))


def test_every_document_is_listed() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"({name})" not in listed] == []
    reports = (ROOT / "research" / "reports").glob("2*.md")
    index = (ROOT / "research" / "reports" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in reports if f"({path.name})" not in index] == []


def test_the_documents_stay_short() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in pages) <= _MOST_WORDS


@pytest.fixture
def reader(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Reader]:
    make_workplace(tiny_model, tmp_path)
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        yield Reader(tmp_path, capsys, stack)


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="the documents need bash and curl")
@pytest.mark.parametrize("document", RUN, ids=named)
def test_a_document_is_run(document: Path, reader: Reader) -> None:
    for block in blocks(document):
        if not is_on_spark(block):
            reader.follow(block)
    if document.stem in CHECKS:
        CHECKS[document.stem](reader.folder)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java here")
# Spark itself does what Python warns of.
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("document", ON_SPARK, ids=named)
def test_what_runs_on_spark_is_run(document: Path, reader: Reader) -> None:
    for block in blocks(document):
        if is_on_spark(block):
            reader.follow(block)
    assert reader.done


def table_is_clean(folder: Path) -> None:
    clean = (folder / "clean.csv").read_text(encoding="utf-8")
    assert clean.startswith("note_id,mrn,seen,ward,text\n")
    # As a year: one pseudonym in hundreds has these digits by chance.
    assert not re.search(r"\b2019\b", clean)
    assert "Anna Bell" not in clean


def labels_are_joined(folder: Path) -> None:
    manifest = json.loads((folder / "own_model" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["labels"] == ["CITY", "DATE", "PERSON"]


def nights_fit_and_releases_do_not(folder: Path) -> None:
    """Patients have one name and one pseudonym in all nights, and other ones in the next release."""

    def rows(name: str) -> list[tuple[str, ...]]:
        table = csv.DictReader((folder / name).read_text(encoding="utf-8").splitlines(keepends=True))
        return [(row["note_id"], row["mrn"], *re.split(r"\W+", row["text"])[1:3]) for row in table]

    first, second, release = map(rows, ("night-1.csv", "night-2.csv", "release-2.csv"))
    bell, other = first
    # The corrected note again, the new one, and not the unchanged one.
    assert second == [bell, (second[1][0], *bell[1:])] != [bell, bell]
    assert other[1] != bell[1]
    assert [row[1:] for row in release] == [release[0][1:]] * 2
    assert not {id for row in (*first, *second) for id in row[:2]} & {id for row in release for id in row[:2]}
    assert release[0][2:] != bell[2:]


CHECKS = {
    "project": nights_fit_and_releases_do_not,
    "quick-start": table_is_clean,
    "data-engineer": table_is_clean,
    "researcher": labels_are_joined,
}


def test_every_path_and_option_of_the_service_is_documented() -> None:
    from ensemble_deid.cli.main import build_parser
    from ensemble_deid.service.app import PATHS

    page = (ROOT / "docs" / "administrator.md").read_text(encoding="utf-8")
    assert [path for path in PATHS if path not in page] == []
    actions = next(a for a in build_parser()._actions if a.dest == "command").choices["serve"]._actions
    options = [
        name for action in actions for name in action.option_strings if name not in ("-h", "--help", "--help-all")
    ]
    assert [name for name in options if name not in page] == []
