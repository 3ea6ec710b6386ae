"""What the documents say can be done: links lead somewhere, and the commands and the Python that are shown run."""

import itertools
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import tiny_stack
from document_blocks import ALL, DOCUMENTS, ROOT, SHELL, TASKS
from document_workplace import make_workplace
from every_command import main

import ensemble_deid
from ensemble_deid.config_files import load_config
from ensemble_deid.training import train as training

_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)]*)?\)")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    targets = [match[1] for match in _LINK.finditer(document.read_text(encoding="utf-8"))]
    dead = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_nothing_is_left_to_be_filled_in(document: Path) -> None:
    assert not re.search(r"\b[A-Z]+_FIGURES\b|\bTODO\b|still to be written", document.read_text(encoding="utf-8"))


# What stands in the documents for something of the reader's, or takes too long for a test -> what it is here.
STAND_INS = {
    "MODEL": "model",
    "CORPUS": "my/train",
    "TRAIN": "my/train",
    "DEV": "my/dev",
    "TEST": "my/test",
    "POOL": "pool.jsonl",
    # The notes here have no ages.
    'by_type=["NAME", "LOCATION", "DATE+AGE"]': 'by_type=["NAME", "LOCATION", "DATE"]',
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
OURS = re.compile(r"(ensemble-deid|python -m (research|tools)) ")
_DEIDENTIFIED = shlex.split(
    "deidentify model notes.csv --out clean.csv --id-column note_id --patient-column mrn --date-columns seen "
    "--keep-columns ward --key-file key"
)
# What a reader has done before a command makes sense.
BEFORE = {
    "rules restore": ["rules", "replace", "model", "list.rules"],
    "verify model": ["model", "sign", "model", "--key-file", "key"],
    "verify clean.csv.run": _DEIDENTIFIED,
    "model patterns remove": ["model", "patterns", "add", "model", "harvested.toml"],
    "model inclusion show": ["model", "inclusion", "put", "model", "sentences.toml"],
    "model inclusion remove": ["model", "inclusion", "put", "model", "sentences.toml"],
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
    make_workplace(tiny_model, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(languages: Sequence[str]) -> list[object]:
    """Return the commands or the Python that the documents show, with file and line as the test's name.

    Those of the tasks are run page by page, in tests/test_document_tasks.py.
    """
    found: list[object] = []
    for block in ALL:
        if block.language not in languages or block.not_run or block.document in TASKS:
            continue
        commands = [OURS.sub("", command) for command in block.commands if OURS.match(command)]
        pieces = [block.code] if "python" in languages else commands
        for number, piece in enumerate(pieces, start=1):
            on_spark = piece.startswith("spark ") or "pyspark" in piece
            name = f"{block.name}" if len(pieces) == 1 else f"{block.name}-{number}"
            found.append(pytest.param(piece, id=name, marks=ON_SPARK if on_spark else ()))
    return found


def outputs(arguments: list[str], place: Path) -> list[Path]:
    """Return the files and folders that options such as `--out` name."""
    options = ("--out", "--notes")
    return [place / value for option, value in itertools.pairwise(arguments) if option in options]


@pytest.mark.parametrize("command", shown((*SHELL, "indented")))
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
    before = (
        _DEIDENTIFIED
        if "--resume" in arguments
        else BEFORE.get(" ".join(arguments[:2]), BEFORE.get(" ".join(arguments[:3])))
    )
    if before:
        assert main(before) == 0
        capsys.readouterr()
    assert main(arguments) == 0
    said = capsys.readouterr()
    # `train` says which patterns it takes, and that a CRF starts from nothing; nothing else has anything to warn of.
    expected = ("ensemble-deid: patterns: ", "ensemble-deid: crf: cannot start from a trained model")
    warnings = [line for line in said.err.splitlines() if not line.startswith(expected)]
    assert not warnings
    assert said.out
    # What goes into a database leaves the name for the run's folder.
    for path in [] if "--table-out" in arguments else outputs(arguments, workplace):
        assert path.is_file() or list(path.iterdir())


@pytest.mark.parametrize("code", shown(("python",)))
def test_shown_python_runs(workplace: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in NOT_REQUIRED:
        if f"import {library}" in code or f"from {library}" in code:
            pytest.importorskip(library, reason=f"{library} is no requirement of this project")
    assert main(["evaluate", "my/dev", "my/dev", "--out", "scores.csv", "--resamples", "0"]) == 0
    train = training._train

    def quickly(*documents: object, config: ensemble_deid.Config, **others: object) -> ensemble_deid.Trained:
        settings = tiny_stack.settings(workplace)
        overrides = [setting for setting in settings if "=" in setting and not setting.startswith("--")]
        tiny = load_config(overrides=overrides, folds=2, jobs=1)
        return train(*documents, config=tiny.model_copy(update={"crf": config.crf}), **others)

    monkeypatch.setattr(training, "_train", quickly)
    exec(compile(code, "<document>", "exec"), {"__name__": "shown"})
