"""What is wrong is said in one line that names file and place; what can go on goes on; no note is ever quoted."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_stack

from ensemble_deid.cli import corpus as corpus_commands
from ensemble_deid.cli import main as package
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.replacement import Replacement, Replacer
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.document import Document
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.taggers.tbed.tagger import TbedTagger

# Stands in every text that is given here; wherever it shows up, a note was quoted.
MARKER = "Zyxwvutsr"
XML = f'<?xml version="1.0"?>\n<deIdi2b2>\n<TEXT>{MARKER} on 03/04/2019</TEXT>\n<TAGS>\n%s\n</TAGS>\n</deIdi2b2>\n'
Make = Callable[[Path], list[str]]


@pytest.fixture(autouse=True)
def nothing_is_logged_of_a_note(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Look, after each test, at everything that it made any library log."""
    caplog.set_level(logging.DEBUG)
    yield
    assert MARKER not in caplog.text


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that is to exit 2, and return the one line it says."""

    def run(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("ensemble-deid: ")
        assert said.err.count("\n") == 1
        assert MARKER not in said.err
        return said.err

    return run


def line(identity: str, text: str = MARKER, *spans: tuple[int, int, str], patient: str | None = None) -> str:
    entry = {"id": identity, "patient_id": patient, "text": text}
    return json.dumps({**entry, "spans": [{"start": a, "end": b, "label": c} for a, b, c in spans]})


def file_with(name: str, content: str | bytes) -> Make:
    def make(folder: Path) -> list[str]:
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return [str(folder)]

    return make


BAD_CORPORA: dict[str, tuple[Make, str]] = {
    "missing folder": (lambda folder: [str(folder)], "there is no such file or folder"),
    "empty folder": (lambda folder: (folder.mkdir(), [str(folder)])[1], "the corpus is empty"),
    "empty file": (file_with("a.jsonl", ""), "the corpus is empty"),
    "broken XML": (file_with("1-01.xml", XML % "<NAME"), "1-01.xml:6: broken XML"),
    "DTD": (file_with("1-01.xml", f"<!DOCTYPE x SYSTEM '/etc/passwd'><x>{MARKER}</x>"), "1-01.xml:1: a document type"),
    "span outside": (file_with("1-01.xml", XML % '<NAME id="P0" start="5" end="99" TYPE="PATIENT"/>'), ":5: tag P0"),
    "span not as its text": (
        file_with("1-01.xml", XML % f'<NAME id="P7" start="0" end="9" text="{MARKER.lower()}" TYPE="PATIENT"/>'),
        ":5: tag P7: its place 0-9 covers 9 characters",
    ),
    "span without end": (file_with("1-01.xml", XML % '<NAME id="P0" start="5" TYPE="PATIENT"/>'), "'end' is missing"),
    "unknown label": (
        file_with("1-01.xml", XML % '<NAME id="P0" start="0" end="9" TYPE="PATENT"/>'),
        "the nearest known is 'PATIENT'",
    ),
    "duplicate ids": (file_with("a.jsonl", f"{line('x')}\n{line('x')}\n"), "the id 'x' occurs twice"),
    "not UTF-8": (file_with("a.jsonl", b"\xff" + MARKER.encode()), "byte 0 is not UTF-8"),
    "NUL": (file_with("a.jsonl", json.dumps({"id": "x", "text": f"{MARKER}\0"})), "NUL, which no note may hold"),
    "broken JSON": (file_with("a.jsonl", f'{line("x")}\n{{"{MARKER}'), "a.jsonl:2: broken JSON"),
    "brat without .ann": (
        lambda folder: [*file_with("a.ann", "")(folder), *file_with("b.txt", MARKER)(folder)][:1],
        "there is no b.ann beside it",
    ),
    "mixed kinds": (
        lambda folder: [*file_with("a.xml", XML % "")(folder), *file_with("b.txt", MARKER)(folder)][:1],
        "holds notes of several kinds",
    ),
    "nothing annotated": (file_with("a.jsonl", f"{line('x')}\n{line('y')}\n"), "no annotated PHI"),
    "one patient": (
        file_with("a.jsonl", "\n".join(line(i, MARKER, (0, 3, "ID"), patient="p") for i in "xyz")),
        "at least two patients",
    ),
    "no such demo": (lambda folder: ["demo:all"], "the demo corpus has no split 'all'"),
}


@pytest.mark.parametrize("name", BAD_CORPORA)
def test_training_refuses_a_bad_corpus(tmp_path: Path, fails: Callable[..., str], name: str) -> None:
    make, expected = BAD_CORPORA[name]
    (corpus,) = make(tmp_path / "corpus")
    said = fails("train", corpus, "--out", tmp_path / "model", "--quiet")
    assert expected in said
    assert said.count("\n") == 1
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--submodels", "regex,crv"), "unknown submodel 'crv'; did you mean crf?"),
        (("--submodels", ""), "unknown submodel ''"),
        (("--set", "neural.epoch=3"), "unknown key neural.epoch; did you mean epochs?"),
        (("--set", "nueral.epochs=3"), "unknown key nueral; did you mean neural?"),
        (("--set", "neural.epochs=many"), "neural.epochs"),
        (("--set", "epochs"), "expected section.key=value"),
        (("--folds", "1"), "folds"),
        (("--jobs", "0"), "jobs"),
        (("--set", "regex.patterns=nowhere.toml"), "nowhere.toml: no such pattern file"),
        (("--set", "regex.patterns=klingon"), "there is no pattern set 'klingon'; there are: en-i2b2, es-meddocan"),
        (("--config", "nowhere.toml"), "nowhere.toml: no such file"),
        (("--dev", "nowhere"), "nowhere: there is no such file or folder"),
    ],
)
def test_training_refuses_bad_settings(
    tiny_train: Path, tmp_path: Path, fails: Callable[..., str], arguments: tuple[str, ...], expected: str
) -> None:
    said = fails("train", tiny_train, "--out", tmp_path / "model", "--quiet", *arguments)
    assert expected in said
    assert said.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_a_configuration_file_is_named(tiny_train: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    path = tmp_path / "my.toml"
    for content, expected in (
        (b"[crf]\nmax_iteration = 5\n", "unknown key crf.max_iteration; did you mean max_iterations?"),
        (b"[crf\n", "at line 1"),
        (b"\xff", "not UTF-8 at byte 0"),
    ):
        path.write_bytes(content)
        said = fails("train", tiny_train, "--out", tmp_path / "model", "--config", path)
        assert f"{path}: " in said
        assert expected in said


def test_spaces_between_submodels_are_meant_well(
    tiny_train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(tiny_train), "--out", str(tmp_path / "model"), *tiny_stack.settings(tmp_path)]
    assert main([*arguments, "--submodels", "tbed, regex"]) == 0
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["submodels"] == ["regex", "tbed"]
    out = capsys.readouterr().out.splitlines()
    assert out[-2:] == [
        "tokenization: 0 of 40 spans begin or end inside a token, 0 cannot be tagged",
        f"trained on 8 notes; the model is in {tmp_path / 'model'}",
    ]


def test_labels_that_training_never_shows_are_named(
    tiny_train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = tmp_path / "dev.jsonl"
    dev.write_text(line("x", "Seen on 03/04/2019", (8, 18, "DATE"), (0, 4, "OTHER")), encoding="utf-8")
    arguments = ["train", str(tiny_train), "--dev", str(dev), "--out", str(tmp_path / "model")]
    assert main([*arguments, *tiny_stack.settings(tmp_path), "--submodels", "regex,neural"]) == 0
    said = capsys.readouterr()
    assert "labels absent from training, which the model cannot find: OTHER" in said.err
    assert "ensemble" in said.out


@pytest.mark.parametrize("command", ["predict", "deidentify"])
def test_models_and_folders_are_checked_first(
    tiny_model: Path, tmp_path: Path, fails: Callable[..., str], command: str
) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out"
    write_corpus(tiny_stack.notes(patients=1), notes, "plain")
    note = notes / "300-01.txt"
    before = {path: path.read_bytes() for path in notes.iterdir()}
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to(notes)
    for arguments, expected in (
        ((tmp_path / "nowhere", notes, "--out", out), "nowhere: no such model directory"),
        ((tmp_path / "empty", notes, "--out", out), "empty: not a model directory (there is no manifest.json)"),
        ((tmp_path / "nowhere", notes, "--out", out, "--jobs", 2), "nowhere: no such model directory"),
        ((tiny_model, tmp_path / "nowhere", "--out", out), "nowhere: there is no such file or folder"),
        ((tiny_model, tmp_path / "empty", "--out", out), "the corpus is empty"),
        ((tiny_model, notes, "--out", notes), "the output folder is the input folder"),
        ((tiny_model, note, "--out", notes), "the output folder is the input folder"),
        ((tiny_model, notes, "--out", tmp_path / "link"), "the output folder is the input folder"),
        ((tiny_model, notes, "--out", notes / ".." / "notes"), "the output folder is the input folder"),
        ((tiny_model, notes, "--out", tiny_model), "the output folder is the model"),
        ((tiny_model, notes, "--out", tmp_path / "file"), "file: exists and is not a folder"),
        ((tiny_model, notes, "--out", out, "--jobs", 0), "jobs must be a whole number of at least 1, not 0"),
    ):
        assert expected in fails(command, *arguments)
    assert {path: path.read_bytes() for path in notes.iterdir()} == before
    assert not out.exists()


def test_an_unknown_submodel_names_those_there_are(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    said = fails("predict", tiny_model, tiny_dev, "--out", tmp_path / "out", "--submodel", "crv")
    assert "this model has no submodel 'crv'; it has: regex, tbed, crf, neural" in said


def test_a_missing_gpu_is_said(tiny_model: Path, tiny_dev: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert "torch sees no GPU here" in fails(
        "predict", tiny_model, tiny_dev, "--out", tmp_path / "out", "--device", "cuda"
    )
    assert not (tmp_path / "out").exists()


def plain_folder(folder: Path) -> dict[str, str]:
    """Write a folder with three good notes and every kind of bad one; return good names with their texts."""
    good = {"a": f"Patient: {MARKER} Bell\nDate: 03/04/2019\n", "n": " \n\t", "z": "x"}
    folder.mkdir()
    for name, text in good.items():
        (folder / f"{name}.txt").write_bytes(text.encode())
    (folder / "latin.txt").write_bytes(f"{MARKER} Se\u00f1or".encode("latin-1"))
    (folder / "nul.txt").write_bytes(MARKER.encode() + b"\0")
    (folder / "utf16.txt").write_bytes(MARKER.encode("utf-16"))
    (folder / "scan.pdf").write_bytes(b"%PDF")
    return good


def test_the_line_of_a_table_that_is_not_utf8_is_said(
    tiny_model: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\n" + b"Nothing.\n" * 400 + f"{MARKER} Se\u00f1or\n".encode("latin-1"))
    said = fails("deidentify", tiny_model, path, "--out", tmp_path / "out.csv")
    assert f"{path}:402: is not UTF-8 (invalid continuation byte)" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("deidentify", "<model>", "", "--out", "o"),
        ("deidentify", "<model>", "<notes>", "--out", ""),
        ("predict", "<model>", "", "--out", "o"),
        ("predict", "", "<notes>", "--out", "o"),
        ("predict", "<model>", "<notes>", "--out", ""),
        ("corpus", "convert", "<notes>", "--format", "brat", "--out", ""),
        ("rules", "show", ""),
    ],
)
def test_a_variable_that_is_not_set_is_no_folder(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """An empty path would be the current folder, with its notes."""
    for folder in ("in", "here"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("A note.", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    places = {"<model>": str(tiny_model), "<notes>": str(tmp_path / "in")}
    command = [places.get(argument, argument) for argument in arguments]
    try:
        status = main(command)
    except SystemExit as ended:
        status = int(ended.code or 0)
    assert status == 2
    assert [path.name for path in Path().iterdir()] == ["a.txt"]


def test_a_model_may_be_the_current_folder(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Seen on 03/04/2019.", encoding="utf-8")
    monkeypatch.chdir(tiny_model)
    assert main(["deidentify", ".", str(tmp_path / "a.txt"), "--out", str(tmp_path / "o.txt"), "--quiet"]) == 0
    assert (tmp_path / "o.txt").read_text(encoding="utf-8") == "Seen on [DATE]."
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "show", "."]) == 2
    assert main(["rules", "show", ".."]) == 2
    assert "fault" not in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_bad_notes_are_listed_and_the_others_written(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    notes, out, clean = tmp_path / "notes", tmp_path / "out", tmp_path / "clean"
    good = plain_folder(notes)
    assert main(["predict", str(tiny_model), str(notes), "--out", str(out), "--jobs", jobs]) == 3
    said = capsys.readouterr()
    assert said.out == f"3 notes written to {out}, 3 withheld\n"
    assert said.err.splitlines() == [
        f"ensemble-deid: {notes}: files of other kinds were not read (1): scan.pdf",
        f"ensemble-deid: withheld: {notes / 'latin.txt'}: byte 12 is not UTF-8 (invalid continuation byte); "
        "convert the file first",
        f"ensemble-deid: withheld: {notes / 'nul.txt'}: byte 9 is NUL, which no note may hold",
        f"ensemble-deid: withheld: {notes / 'utf16.txt'}: byte 0 is not UTF-8 (invalid start byte); "
        "convert the file first",
    ]
    assert {note.id: note.text for note in read_corpus(out)} == good
    assert main(["deidentify", str(tiny_model), str(notes), "--out", str(clean), "--jobs", jobs]) == 3
    assert {path.name for path in clean.iterdir()} == {f"{name}.txt" for name in good}
    assert (clean / "n.txt").read_bytes() == good["n"].encode()
    assert "03/04/2019" not in (clean / "a.txt").read_text(encoding="utf-8")
    assert MARKER not in capsys.readouterr().err


def test_a_note_on_which_a_tagger_fails_never_passes(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    propose = TbedTagger.propose

    def bad(self: TbedTagger, batch: Batch, *, n_best: int) -> Proposals:
        for document in batch.documents:
            if document.id == "301-01":
                raise RuntimeError(document.text)
        return propose(self, batch, n_best=n_best)

    notes, out = tmp_path / "notes", tmp_path / "out"
    write_corpus(tiny_stack.notes(), notes, "plain")
    monkeypatch.setattr(TbedTagger, "propose", bad)
    assert main(["deidentify", str(tiny_model), str(notes), "--out", str(out)]) == 3
    said = capsys.readouterr()
    assert said.err == "ensemble-deid: withheld: 301-01: processing failed (RuntimeError)\n"
    assert said.out.startswith(f"7 notes written to {out}, 1 withheld\n")
    assert not (out / "301-01.txt").exists()
    assert len(list(out.iterdir())) == 7


def test_a_redaction_that_fails_withholds_its_note(
    tiny_model: Path,
    tiny_dev: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace = Replacer.replace

    def bad(self: Replacer, document: Document, **options: Any) -> Replacement:
        if "Lyndale" in document.text:
            raise ValueError(document.text)
        return replace(self, document, **options)

    monkeypatch.setattr(Replacer, "replace", bad)
    assert main(["deidentify", str(tiny_model), str(tiny_dev), "--out", str(tmp_path / "out")]) == 3
    said = capsys.readouterr()
    assert "withheld: line 1: replacement failed (ValueError)" in said.err
    assert "Lyndale" not in said.err
    assert len((tmp_path / "out" / "dev.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_ids_lead_nowhere_and_meet_once(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in" / "notes.jsonl", tmp_path / "deep" / "out"
    source.parent.mkdir()
    names = ["good", "../escaped", "/tmp/escaped", ".hidden", "", "a\nb", "x" * 300, "good"]
    lines = [line(name) for name in names] + ["{}", json.dumps({"id": "last", "text": "x\ud800"})]
    source.write_text("\n".join(lines), encoding="utf-8")
    command = ["predict", str(tiny_model), str(source), "--format", "i2b2", "--out", str(out)]
    assert main([*command, "--submodel", "regex"]) == 3
    said = capsys.readouterr()
    assert said.out == f"1 note written to {out}, 9 withheld\n"
    assert said.err.count("withheld: ") == 9
    assert said.err.count("the id cannot be a file name") == 3
    for problem in ("5: the id has 0 characters", "6: character 1 of the id is U+000A", "7: the id has 300"):
        assert f"{source}:{problem}" in said.err
    assert "the id 'good' occurs twice" in said.err
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"good.xml", "notes.jsonl"}
    assert MARKER not in said.err


def test_a_jsonl_output_appears_whole_or_not_at_all(
    tiny_model: Path,
    tiny_dev: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "corpus.jsonl").write_text("of an earlier run\n", encoding="utf-8")

    def interrupt(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(TbedTagger, "propose", interrupt)
    assert main(["predict", str(tiny_model), str(tiny_dev), "--out", str(out)]) == 130
    assert capsys.readouterr().err == "ensemble-deid: interrupted\n"
    assert [path.name for path in out.iterdir()] == ["corpus.jsonl"]
    assert (out / "corpus.jsonl").read_text(encoding="utf-8") == "of an earlier run\n"


@pytest.mark.parametrize("command", ["convert", "resample", "apply"])
def test_no_corpus_is_written_over_itself(
    tiny_train: Path, tiny_model: Path, tmp_path: Path, fails: Callable[..., str], command: str
) -> None:
    notes = Path(shutil.copytree(tiny_train, tmp_path / "notes"))
    before = {path.name: path.read_bytes() for path in notes.iterdir()}
    arguments = {
        "convert": ("corpus", "convert", notes, "--format", "meddocan"),
        "resample": ("corpus", "resample", notes),
        "apply": ("rules", "apply", tiny_model, notes, "--format", "i2b2"),
    }[command]
    assert "the output folder is the input folder" in fails(*arguments, "--out", notes)
    assert "exists and is not a folder" in fails(*arguments, "--out", tiny_model / "tbed.rules")
    assert {path.name: path.read_bytes() for path in notes.iterdir()} == before


def test_no_file_is_written_over_itself(tiny_dev: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    path = Path(shutil.copy(tiny_dev, tmp_path / "notes.jsonl"))
    said = fails("corpus", "convert", path, "--format", "jsonl", "--out", path)
    assert "notes.jsonl: the output is the input" in said
    assert path.read_bytes() == tiny_dev.read_bytes()


def test_a_report_is_not_written_over_a_folder(
    tiny_model: Path, tiny_dev: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    assert "is a folder; the name of a file is needed" in fails(
        "research", "ablate", tiny_model, tiny_dev, "--out", tmp_path
    )


def test_a_place_that_cannot_be_written_is_said(
    tiny_train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    below = tmp_path / "file" / "figures.json"
    assert main(["evaluate", str(tiny_train), str(tiny_train), "--out", str(below), "--resamples", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ensemble-deid: {tmp_path / 'file'}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError(MARKER), 70), (KeyError(MARKER), 70), (KeyboardInterrupt(), 130)]
)
def test_an_unforeseen_error_says_where_not_what(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int
) -> None:
    def raising(_: object) -> int:
        raise error

    monkeypatch.setattr(corpus_commands, "run_stats", raising)
    monkeypatch.setattr(package, "build_parser", package.build_parser.__wrapped__)
    assert main(["corpus", "stats", "demo"]) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert MARKER not in said.err
    if status == 70:
        assert type(error).__name__ in said.err
        assert "in raising" in said.err
