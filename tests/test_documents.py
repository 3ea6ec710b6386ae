"""What the documents say can be done: links lead somewhere, and the commands and the Python that are shown run."""

import contextlib
import csv
import itertools
import re
import shlex
import shutil
import sqlite3
from pathlib import Path

import pytest
import tiny_stack

import ensemble_deid
from ensemble_deid.cli.main import main
from ensemble_deid.config_files import load_config
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.experiments import train as training
from ensemble_deid.service.review.edits import finish
from ensemble_deid.service.review.facts import Facts, settle_facts
from ensemble_deid.service.review.file import ReviewFile
from ensemble_deid.service.review.fill import add_note

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "data" / "README.md"])
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)]*)?\)")
_COMMAND = re.compile(r"^(?:    |\$ )ensemble-deid (.*)$", re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    targets = [match[1] for match in _LINK.finditer(document.read_text(encoding="utf-8"))]
    dead = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not dead


# What stands in the documents for something of the reader's, or takes too long for a test -> what it is here.
STAND_INS = {
    "MODEL": "model",
    "CORPUS": "my/train",
    "DIR": "out",
    "NOTE": "my/train/300-01.xml",
    "demo:test": "my/test",
    "demo:dev": "my/dev",
    "../shared/corpora/meddocan/train": "my/train",
    "../shared/corpora/meddocan/dev": "my/dev",
    # The encoder is an extra, and weights of the size that it has are none for a test.
    "best": "small",
    # The rule list of the model here is short.
    "1,2,5": "1,2",
}
_DEIDENTIFIED = shlex.split(
    "deidentify model notes.csv --out clean.csv --id-column note_id --patient-column mrn --date-columns seen "
    "--keep-columns ward --key-file key"
)
# What a reader has done before a command makes sense.
BEFORE = {
    "rules restore": ["rules", "replace", "model", "list.rules"],
    "verify model": ["sign", "model", "--key-file", "key"],
    "verify clean.csv.run": _DEIDENTIFIED,
    "patterns remove": ["patterns", "add", "model", "harvested.toml"],
    "inclusion show": ["inclusion", "put", "model", "sentences.toml"],
    "inclusion remove": ["inclusion", "put", "model", "sentences.toml"],
}
# What the Python that is shown needs, and this project does not: where it is missing, the code is not run.
NOT_REQUIRED = ("pandas", "spacy", "presidio_analyzer", "pyspark", "duckdb")
# Spark takes long to start, needs Java, and itself does what Python warns of.
ON_SPARK = (
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java here"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
)


@pytest.fixture
def workplace(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the documents take for granted."""
    for name in ("model", "en"):
        shutil.copytree(tiny_model, tmp_path / name)
    for part, first in (("train", 300), ("dev", 400), ("test", 500)):
        write_corpus(tiny_stack.notes(first), tmp_path / "my" / part, "i2b2")
    for folder in ("notes", "my_notes"):
        write_corpus(tiny_stack.notes(patients=1), tmp_path / folder, "plain")
    rules = (tiny_model / "tbed.rules").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, lines in {"list": rules[:-1], "before": rules, "after": rules}.items():
        (tmp_path / f"{name}.rules").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "key").write_bytes(b"a key of sixteen bytes and more")
    _write_tables(tmp_path)
    _write_review(tmp_path)
    added = "[[pattern]]\nname = 'pain'\nlabel = 'CITY'\nregex = 'chest pain'\n"
    (tmp_path / "harvested.toml").write_text(added, encoding="utf-8")
    (tmp_path / "sentences.toml").write_text("sentences = ['BP 120/80.']\n", encoding="utf-8")
    (tmp_path / "my-patterns").mkdir()
    (tmp_path / "my-patterns" / "clinic.toml").write_text(tiny_stack.PATTERNS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write_tables(folder: Path) -> None:
    """Write notes.csv, messages/ and notes.db, and the lists of a site."""
    rows = ["patient_id,kind,value", 'M300,name,"BELL, ANNA M."', "M300,mrn,0048213", ',staff,"Okonkwo, Adaeze, MD"']
    (folder / "known.csv").write_text("\n".join(rows), encoding="utf-8")
    (folder / "allow.txt").write_text("# devices\nSt. Jude\n", encoding="utf-8")
    (folder / "deny.csv").write_text("label,value\nHOSPITAL,Unit 7-West\n", encoding="utf-8")
    with (folder / "notes.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["note_id", "mrn", "seen", "ward", "text"])
        notes = tiny_stack.notes(patients=1)
        table.writerows([1001 + k, "M300", "2019-01-10", "7B", note.text] for k, note in enumerate(notes))
    (folder / "messages").mkdir()
    line = "\\.br\\".join(notes[0].text.splitlines())
    # Without a field that would be kept: there is nothing to warn of.
    message = f"MSH|^~\\&|||||||ORU^R01||P|2.5\rOBX|1|TX|1||{line}\r"
    (folder / "messages" / "a.hl7").write_text(message, encoding="utf-8", newline="")
    with contextlib.suppress(ImportError):
        import pyarrow
        import pyarrow.parquet

        texts = [note.text for note in notes]
        rows = {"n": [1, 2], "mrn": ["M300", "M300"], "ward": ["7B", "7B"], "text": texts}
        pyarrow.parquet.write_table(pyarrow.table(rows), folder / "notes.parquet")
    with contextlib.closing(sqlite3.connect(folder / "notes.db")) as base:
        base.execute("CREATE TABLE notes (n INTEGER, body TEXT)")
        base.execute("INSERT INTO notes VALUES (1, ?)", [notes[0].text])
        base.commit()


def _write_review(folder: Path) -> None:
    """Write review.sqlite, in which somebody finished all notes, and reviewed.jsonl."""
    file = ReviewFile(folder / "review.sqlite", create=True)
    settle_facts(file, Facts("0f", 0.5, ("PATIENT", "DATE", "CITY", "DOCTOR")))
    with file.transaction() as database:
        for number, note in enumerate(tiny_stack.notes(), start=1):
            add_note(database, note, 0.5, submodels=4)
            finish(database, "kim", number, finished=True)
    file.close()
    write_corpus(tiny_stack.notes(), folder / "reviewed.jsonl", "jsonl")


def shown(pattern: re.Pattern[str]) -> list[object]:
    """Return what the documents show, each with its file and line as the test's name."""
    found: list[object] = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            on_spark = match[1].startswith("spark ") or "pyspark" in match[1]
            found.append(pytest.param(match[1], id=f"{named(document)}:{line}", marks=ON_SPARK if on_spark else ()))
    return found


def outputs(arguments: list[str], place: Path) -> list[Path]:
    """Return the files and folders that options such as `--out` name."""
    options = ("--out", "--json", "--csv")
    return [place / value for option, value in itertools.pairwise(arguments) if option in options]


@pytest.mark.parametrize("command", shown(_COMMAND))
def test_shown_commands_run(workplace: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command, comments=True)
    # What follows is the shell's.
    words = words[: words.index(">")] if ">" in words else words
    arguments = [STAND_INS.get(word, word) for word in words]
    if arguments[0] in ("serve", "review"):
        pytest.skip("it does not end; tests/test_service_document.py and tests/test_review_api.py run it")
    if arguments[:2] == ["rules", "curve"]:
        pytest.importorskip("matplotlib")
    if arguments[0] == "train":
        # First, so that what the document sets is what counts.
        arguments[1:1] = tiny_stack.settings(workplace)
    before = _DEIDENTIFIED if "--resume" in arguments else BEFORE.get(" ".join(arguments[:2]))
    if before:
        assert main(before) == 0
        capsys.readouterr()
    assert main(arguments) == 0
    said = capsys.readouterr()
    # `train` says which patterns it takes; nothing else has anything to warn of.
    warnings = [line for line in said.err.splitlines() if not line.startswith("ensemble-deid: patterns: ")]
    assert not warnings
    assert said.out
    # What goes into a database leaves the name for the run's folder.
    for path in [] if "--table-out" in arguments else outputs(arguments, workplace):
        assert path.is_file() or list(path.iterdir())


@pytest.mark.parametrize("code", shown(_PYTHON))
def test_shown_python_runs(workplace: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in NOT_REQUIRED:
        if f"import {library}" in code or f"from {library}" in code:
            pytest.importorskip(library, reason=f"{library} is no requirement of this project")
    assert main(["evaluate", "my/dev", "my/dev", "--csv", "scores.csv", "--resamples", "0"]) == 0
    train = training._train

    def quickly(*documents: object, config: ensemble_deid.Config, **others: object) -> ensemble_deid.Trained:
        settings = tiny_stack.settings(workplace)
        overrides = [setting for setting in settings if "=" in setting and not setting.startswith("--")]
        tiny = load_config(overrides=overrides, folds=2, jobs=1)
        return train(*documents, config=tiny.model_copy(update={"crf": config.crf}), **others)

    monkeypatch.setattr(training, "_train", quickly)
    exec(compile(code, "<document>", "exec"), {"__name__": "shown"})
