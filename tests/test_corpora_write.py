"""A note is written whole or not at all, and no file of an earlier run stays in the place of a withheld note."""

import errno
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.note_files import note_writer
from ensemble_deid.corpora.write import write_corpus, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.tbed.tagger import TbedTagger

NOTE = Document("a", "Ada", (Span(0, 3, "NAME"),))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("call", ["replace", "chmod"])
@pytest.mark.parametrize("suffix", [".txt", ".ann"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_brat_note_is_two_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, suffix: str, earlier: bool
) -> None:
    if earlier:
        write_document(Document("a", "of an earlier run"), tmp_path, "brat")
    before = names(tmp_path)
    whole = getattr(Path, call)
    count = 0

    def fails(self: Path, *arguments: object) -> object:
        nonlocal count
        count += 1
        if count == (1 if suffix == ".ann" else 2):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return whole(self, *arguments)

    monkeypatch.setattr(Path, call, fails)
    with pytest.raises(CorpusError, match=rf"a\{suffix}: cannot be written: No space left on device"):
        write_document(NOTE, tmp_path, "brat")
    moved = call == "replace" and suffix == ".txt"
    assert names(tmp_path) == ([] if moved else before)


def test_a_brat_note_whose_annotations_have_no_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.ann").mkdir()
    with note_writer(tmp_path, "brat") as writer:
        with pytest.raises(CorpusError, match=r"a\.ann: cannot be written: Is a directory"):
            writer.write(NOTE)
        with pytest.raises(CorpusError, match=r"a\.ann: of an earlier run, cannot be removed"):
            writer.withhold("a")
    assert names(tmp_path) == ["a.ann"]


@pytest.mark.parametrize("format", ["plain", "brat", "i2b2"])
def test_what_an_earlier_run_wrote_for_a_withheld_note_goes(tmp_path: Path, format: str) -> None:
    folder = tmp_path / "in" / "out"
    write_corpus([Document(name, "x") for name in ("a", "b", "c")], folder, format)
    (tmp_path / "in" / "up.txt").write_text("x", encoding="utf-8")
    kept = [name for name in names(folder) if not name.startswith("a.")]
    with note_writer(folder, format) as writer:
        writer.write(Document("b", "y"))
        for name in ("a", "b", "never written", "../up", "/etc/passwd", "", ".", "..", "x" * 300, "a\0b"):
            writer.withhold(name)
    assert names(folder) == kept
    assert (tmp_path / "in" / "up.txt").is_file()


def test_a_rerun_removes_the_files_of_notes_that_it_withholds(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out"
    write_corpus(tiny_stack.notes(), notes, "plain")
    for command in (["deidentify"], ["predict", "--format", "brat"]):
        arguments = [command[0], str(tiny_model), str(notes), "--out", str(out), *command[1:]]
        assert main(arguments) == 0
    before = set(names(out))
    propose = TbedTagger.propose

    def bad(self: TbedTagger, batch: Batch, *, n_best: int) -> Proposals:
        if any(document.id == "301-01" for document in batch.documents):
            raise RuntimeError
        return propose(self, batch, n_best=n_best)

    monkeypatch.setattr(TbedTagger, "propose", bad)
    (notes / "302-01.txt").write_bytes(b"\xff")
    assert main(["predict", str(tiny_model), str(notes), "--out", str(out), "--format", "brat"]) == 3
    assert before - set(names(out)) == {"301-01.txt", "301-01.ann", "302-01.txt", "302-01.ann"}
    assert "6 notes written" in capsys.readouterr().out


def test_the_first_of_two_notes_with_one_id_stays(tiny_model: Path, tmp_path: Path) -> None:
    source = tmp_path / "notes.jsonl"
    source.write_text('{"id": "a", "text": "one"}\n{"id": "a", "text": "two"}\n', encoding="utf-8")
    assert main(["predict", str(tiny_model), str(source), "--out", str(tmp_path / "out"), "--format", "i2b2"]) == 3
    assert "one" in (tmp_path / "out" / "a.xml").read_text(encoding="utf-8")
