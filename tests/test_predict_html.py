"""`predict --html`: a page that shows every note whole, runs nothing, and says what it contains and what is missing."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.cli.terminal import NOTES_WITHHELD
from ensemble_deid.evaluation.render.html.notes import notes_page
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

TEXT = "Seen </div><script>alert(1)</script> Ann & Bob\n  on 4/2 <b>"
NAME = TEXT.index("Ann")
DATE = TEXT.index("4/2")
NOTE = Document(
    "<i>7", TEXT, (Span(NAME, NAME + 9, "PATIENT", 0.975), Span(DATE, DATE + 3, "DATE"), Span(0, 4, 'X"><u>', 0.5))
)


class Texts(HTMLParser):
    """Collects the text of each note, the tags, and the highlighted strings."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.notes: list[str] = []
        self.marked: list[str] = []
        self.inside = False
        self.in_mark = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if dict(attrs).get("class") == "note":
            self.inside = True
            self.notes.append("")
        if tag == "mark" and self.inside:
            self.in_mark = True
            self.marked.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "div"
        self.in_mark = self.in_mark and tag != "mark"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.notes[-1] += data
        if self.in_mark:
            self.marked[-1] += data


def read(path: Path) -> tuple[str, Texts]:
    page = path.read_text(encoding="utf-8")
    texts = Texts()
    texts.feed(page)
    return page, texts


def test_notes_stand_whole_and_escaped_with_their_spans_marked(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with notes_page(path, title="What <m> finds") as page:
        page.add(NOTE)
        page.add(Document("empty", ""))
        page.withhold("note <3>: cannot be read")
        assert not path.exists()
    content, texts = read(path)
    assert texts.notes == [TEXT, ""]
    assert texts.marked == ["Seen", "Ann & Bob", "4/2"]
    assert not texts.tags & {"script", "i", "b", "u", "link", "img", "iframe"}
    assert "This page contains protected health information (PHI)." in content
    assert "default-src 'none'" in unescape(content)
    assert "prefers-color-scheme:dark" in content
    assert 'title="PATIENT, score 0.975"' in content
    assert "Withheld, and not on this page: 1." in content
    assert "note <3>: cannot be read" in unescape(content)
    assert "http" not in re.sub(r'http-equiv="', "", content)


def test_a_half_character_is_replaced_and_a_broken_run_leaves_no_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with notes_page(path, title="t") as page:
        page.add(Document("a", "x\ud800y"))
    assert read(path)[1].notes == ["x?y"]
    before = path.read_bytes()

    def break_off() -> None:
        with notes_page(path, title="t") as page:
            page.add(NOTE)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_predict_writes_a_page_of_what_it_finds(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Seen 03/04/2020 & well.\n", encoding="utf-8")
    (notes / "b.txt").write_bytes(b"\xff\xfe\xff")
    page, out = tmp_path / "page.html", tmp_path / "out"
    command = ["predict", str(tiny_model), str(notes), "--submodel", "regex", "--quiet", "--html"]
    assert main([*command, str(page)]) == NOTES_WITHHELD
    assert "1 note written to" in capsys.readouterr().out
    content, texts = read(page)
    assert texts.notes == ["Seen 03/04/2020 & well.\n"]
    assert texts.marked == ["03/04/2020"]
    assert "Withheld, and not on this page: 1." in content
    assert main([*command, str(page), "--out", str(out)]) == NOTES_WITHHELD
    assert page.read_text(encoding="utf-8") == content
    assert (out / "corpus.jsonl").is_file()
    capsys.readouterr()
    assert main(command[:-1]) == 2
    assert "--out DIR or --html FILE" in capsys.readouterr().err
    assert main([*command, str(notes / "a.txt")]) == 2
    assert "nothing is written over what is read" in capsys.readouterr().err
