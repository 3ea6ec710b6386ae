"""Every output of every command against everything that the command reads: nothing is written over an input.

The commands are run, on files that only look like models and notes, since each is refused before any work.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from every_command import main, parser_of
from parser_leaves import leaves

# `<name>` is read: a file where it has a suffix, else a folder. `>name` is written: a file, `>name/` a folder, and
# `>>name/` one that is replaced as a whole. `:name` is a place of which this line does not say anything.
LINES = {
    "train": ("<notes> --dev <dev> --start-from <model> --config <train.toml> --encoder <encoder> --out >>made/",),
    "research ablate": ("<model> <dev> --retrain <notes> --retrain-dev <more> --out >report.md",),
    "research crossval": ("<notes> --out >run/",),
    "research tune": ("<notes> --dev <dev> --set-range crf.c2=0.1..1 --minutes 1 --out >run/",),
    "predict": (
        "<model> <notes> --known <known.csv> --allow <allow.txt> --deny <deny.csv> --out >out/ --html >p.html",
    ),
    "deidentify": (
        "<model> <notes> --known <known.csv> --allow <allow.txt> --deny <deny.csv> --key-file <key.txt> --out >out/ "
        "--spans-from <found.jsonl> --against <old.json> --summary >new.json --run >run/ --spans >spans.jsonl "
        "--compare >c.html",
        "<model> <note.txt> --known <known.txt> --allow <allow.txt> --deny <deny.txt> --key-file <k.txt> --out >a.txt",
        "<model> <notes.csv> --known <known.csv> --allow <allow.csv> --deny <deny.csv> --key-file <k.csv> --out >a.csv",
        "<model> <notes.csv> --map <record.toml> --out >a.csv",
        "<model> <notes> --policy <policy.toml> --out :out --run >run/ --spans >spans.jsonl",
    ),
    "evaluate": ("<notes> <model> --dev <dev> <other> --out >a.json --out >b.csv",),
    "research compare": ("<notes> <one> <other> --out >a.json --out >b.csv",),
    "corpus agreement": ("<one> <other> --out >a.json --out >b.csv",),
    "model report": ("<notes> <model> --dev <dev> <other> --name-list staff=<names.txt> --out >report.html",),
    "model errors": ("<notes> <model> --notes >out/ --out >a.json",),
    "exposure": ("<notes> <model> --known-notes <dev> <other> --out >a.json",),
    "combiners": ("<model> <gold.json> --out >table.json",),
    "names": ("<model> <notes> --out >a.md",),
    "disagreements": ("<gold.json> <model> --out >found.csv",),
    "embeddings": ("<notes> --out >vectors.txt",),
    "model explain": ("<model> <note.txt> --out >a.json --out >a.html",),
    "rules apply": ("<model> <notes> --rules <my.rules> --out >out/",),
    "rules curve": ("<model> --out >curve.png",),
    "rules learn": ("<notes> --dev <dev> --start <weak.toml> --config <train.toml> --out >list.rules",),
    "rules review": ("<model> --corpus <notes> --out >page.html",),
    "corpus harvest": ("<notes> --out >a.toml --sentences >b.toml",),
    "model patterns check": ("<my.toml> <notes> --out >kept.toml",),
    "corpus stats": ("<notes.csv> <more.csv> --out >table.csv",),
    "corpus convert": ("<notes> --label-map <map.toml> --format jsonl --out >out/",),
    "corpus resample": ("<notes> --out >out/",),
    "corpus augment": ("<notes> --out >out/",),
    "benchmark": ("<notes> <found.jsonl> <more.jsonl> --out >a.csv --out >b.json",),
    "run-system": ("presidio <notes> --out >found.jsonl",),
    "compare-encoders": ("<notes> --dev <dev> --out >run/",),
    "customize": ("<one> <other> --test <more> --budget 10 --out >run/",),
    "cross-corpus": ("<one> a=<other> --out >run/",),
    "knowledge build": ("--scowl <scowl> --out >out/",),
    "model export": ("<model> --out >>made/",),
    "model scan": ("<model> <notes> --control <more> --out >scan.json",),
    "model package": (
        "<model> --name x --version 1 --licence <licence.txt> --score <notes> --public-notes <more> --out >>made/ "
        "--wheel :wheels",
    ),
    "review start": ("<model> <notes> --store >decisions.sqlite",),
    "audit report": ("<run> <audit> --out >report.json",),
    "audit release": (
        "<run> <model> --audit <audit> --sign <officer.pem> --attacks <a.json> --by x --role y --decision refuse "
        "--out >record.json",
    ),
    "audit certify": ("<model> <audit> --out >certificate.json",),
    "review export": ("<decisions.sqlite> --out >out/",),
    "review learn": ("<model> <decisions.sqlite> --out >>made/",),
    "spark": (
        "<model> <in.parquet> >out/ --failed >failed/ --policy <policy.toml> --key-file <key.txt> --known <known.csv> "
        "--allow <allow.txt> --deny <deny.csv> --spans-from <found.jsonl>",
    ),
}
# Files of settings, of which a folder of results has none by that name; `train` and `corpus convert` guard theirs.
SETTINGS = {
    ("--config", command)
    for command in ("research crossval", "research tune", "compare-encoders", "customize", "cross-corpus")
}
SETTINGS |= {("--label-map", command) for command in ("train", "customize", "cross-corpus")}
# A project is written like an output: see `test_no_output_lies_in_a_project`.
SETTINGS |= {("--project", "deidentify")}
# They run what `deidentify` runs; a list of pseudonyms is a new file, never one that is there.
SETTINGS |= {
    (o, f"project {c}")
    for o in ("--out", "--run", "--spans", "--compare", "--policy", "--summary", "--against")
    for c in ("add", "correct")
}
SETTINGS |= {("--csv", "project export-pseudonyms"), ("--new-key-file", "project rotate-key")}
# Guarded as lists are: see `tests/test_member.py`.
SETTINGS |= {("--member", c) for c in ("train", "predict", "deidentify", "evaluate", "model explain")}
SETTINGS |= {("--member", c) for c in ("research ablate", "model threshold", "project add", "project correct")}
# A system's name, which is no place.
SETTINGS |= {("system", "run-system")}
# An audit is a new folder, never one that is there.
SETTINGS |= {("--out", "audit plan")}
# They say where what a record names was moved.
SETTINGS |= {(option, "audit verify") for option in ("--run", "--audit")}
# Commands that write nothing, or change the model that they name: their options with a path are read.
ONLY_READ = {"--model", "--rules", "--tokens", "--trust", "--key", "--key-file", "--known", "--allow", "--deny"}
CONTENTS = {
    "train.toml": "folds = 2\n",
    "map.toml": 'unlisted = "keep"\n\n[labels]\nA = "B"\n',
    "notes.csv": "text\nSeen.\n",
    "record.toml": '[columns]\ntext = "text"\n',
}
PLACES = {"FILE", "DIR", "PATH", "CORPUS", "MODEL", "NOTES", "MAP", "DEV", "TRAIN", "OUT"}
REFUSALS = re.compile(
    r"nothing is written over what is read|the output folder is the (model|input folder)|holds other files"
    r"|is an input inside the folder that the model would replace|exists and is not a model; nothing is overwritten"
    # A file of a model is named where a folder is to be written.
    r"|manifest\.json: is the name of a file, but a folder"
)
_PLACE = re.compile(r"<([^>]+)>|(>>?)(\S+)|:(\w+)")


@dataclass(frozen=True)
class Line:
    """A line of the table in a folder: where what it reads and writes is."""

    text: str
    folder: Path

    @property
    def inputs(self) -> dict[str, Path]:
        """Each input, in a folder of its own."""
        names = [match[1] for match in _PLACE.finditer(self.text) if match[1]]
        return {name: self.folder / name.partition(".")[0] / name for name in names}

    @property
    def outputs(self) -> dict[str, str]:
        """The name and the mark, `>` or `>>`, of each output."""
        return {match[3]: match[2] for match in _PLACE.finditer(self.text) if match[3]}

    def words(self, **instead: Path) -> list[str]:
        """Return the arguments, with some outputs in another place."""

        def placed(match: re.Match[str]) -> str:
            if match[1]:
                return str(self.inputs[match[1]])
            name = match[3] or match[4]
            return str(instead.get(name, self.folder / "made" / name))

        return _PLACE.sub(placed, self.text).split()

    def make(self) -> None:
        """Write what the line reads."""
        for name, path in self.inputs.items():
            path.parent.mkdir(exist_ok=True)
            if path.suffix:
                path.write_text(CONTENTS.get(name, "Seen.\n"), encoding="utf-8")
            else:
                path.mkdir()
                (path / ("manifest.json" if name == "model" else "a.txt")).write_text("{}\n", encoding="utf-8")

    def collisions(self) -> Iterator[tuple[str, str, Path]]:
        """Yield each output with each input, and where the output would replace it or lie among it."""
        for out, mark in self.outputs.items():
            for name, path in self.inputs.items():
                if mark == ">>":
                    yield out, name, path.parent
                elif out.endswith("/"):
                    yield out, name, path if path.is_dir() else path.parent
                else:
                    yield out, name, min(path.iterdir()) if path.is_dir() else path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("command", "text"), [(command, text) for command in LINES for text in LINES[command]])
def test_no_output_is_written_over_an_input(
    command: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Line(text, tmp_path)
    line.make()
    before = contents(tmp_path)
    collisions = list(line.collisions())
    assert collisions
    for out, name, place in collisions:
        status = main([*command.split(), *line.words(**{out: place})])
        said = capsys.readouterr()
        assert (status, said.out) == (2, ""), f"{out} over {name}: {said.err}"
        assert REFUSALS.search(said.err), f"{out} over {name}: {said.err}"
        assert contents(tmp_path) == before


def names_a_place(action: argparse.Action) -> bool:
    """Whether an argument may be a path: its type or what the help calls it says so, or it has no name of its own."""
    if action.nargs == 0 or action.choices or action.type in (int, float):
        return False
    words = re.findall("[A-Z]+", str(action.metavar))
    return not action.option_strings or action.type is Path or bool(PLACES.intersection(words))


def test_the_table_has_every_option_that_names_a_place(tmp_path: Path) -> None:
    commands = dict(leaves())
    assert set(LINES) <= set(commands)
    for command, parser in commands.items():
        covered: set[str] = set()
        for text in LINES.get(command, ()):
            words = Line(text, tmp_path).words()
            found = vars(parser_of(command.split()).parse_args([*command.split(), *words]))
            covered |= {name for name, value in found.items() if str(tmp_path) in str(value)}
        for action in filter(names_a_place, parser._actions):
            name = action.option_strings[-1] if action.option_strings else action.dest
            if command in LINES:
                assert action.dest in covered or (name, command) in SETTINGS, f"{command} {name}"
            elif action.option_strings and action.type is Path:
                assert name in ONLY_READ or (name, command) in SETTINGS, f"{command} {name}"


@pytest.mark.parametrize("option", ["--out", "--run", "--spans", "--summary"])
def test_no_output_lies_in_a_project(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    notes, project = tmp_path / "notes.csv", tmp_path / "project"
    notes.write_text("text\nSeen.\n")
    outs = {"--out": str(tmp_path / "clean.csv"), option: str(project / "inside.csv")}
    words = [word for pair in outs.items() for word in pair]
    assert main(["deidentify", str(tiny_model), str(notes), "--project", str(project), *words]) == 2
    assert "lies in another output" in capsys.readouterr().err
    assert not project.exists()
