"""Any options in any order: an exit status that is documented, and no input touched."""

from pathlib import Path
from tempfile import TemporaryDirectory

import tiny_stack
from budget import Budget
from commands import run
from hypothesis import strategies as st

from ensemble_deid.corpora.write import write_corpus

_VALUES = (
    "0",
    "1",
    "2",
    "-1",
    "nan",
    "1e9",
    "x",
    "",
    "regex",
    "crf,regex",
    "DATE",
    "jsonl",
    "brat",
    "demo:all",
    "=",
    "a=b",
)
_OPTIONS = (
    "--out",
    "--format",
    "--submodel",
    "--jobs",
    "--device",
    "--style",
    "--set",
    "--policy",
    "--key-file",
    "--scope",
    "--threshold",
    "--resamples",
    "--seed",
    "--labels",
    "--scheme",
    "--full",
    "--dev",
    "--oracle",
    "--top",
    "--template",
    "--text",
    "--at",
    "--copies",
    "--map",
    "--label-map",
    "--quiet",
)
_COMMANDS = (
    ("predict",),
    ("deidentify",),
    ("evaluate",),
    ("research", "compare"),
    ("corpus", "agreement"),
    ("model", "explain"),
    ("corpus", "stats"),
    ("corpus", "convert"),
    ("corpus", "resample"),
    ("rules", "curve"),
    ("rules", "show"),
    ("rules", "explain"),
    ("rules", "diff"),
    ("rules", "check"),
    ("rules", "apply"),
)


def test_any_options(tiny_model: Path, budget: Budget) -> None:
    def check(data: st.DataObject) -> None:
        with TemporaryDirectory() as folder:
            notes, empty, out = (Path(folder) / name for name in ("notes", "empty", "out"))
            write_corpus(tiny_stack.notes(patients=1), notes, "i2b2")
            empty.mkdir()
            note = notes / "300-01.xml"
            places = (
                notes,
                note,
                tiny_model,
                tiny_model / "tbed.rules",
                empty,
                Path(folder) / "nowhere",
                out,
                out / "x.json",
            )
            command = list(data.draw(st.sampled_from(_COMMANDS)))
            arguments: list[object] = data.draw(st.lists(st.sampled_from(places), max_size=3))
            for option in data.draw(st.lists(st.sampled_from(_OPTIONS), max_size=3)):
                value = data.draw(st.one_of(st.none(), st.sampled_from(_VALUES), st.sampled_from(places)))
                arguments += [option] if value is None else [option, value]
            if data.draw(st.booleans()):
                arguments += ["--out", out]
            # Two processes would take longer than all the rest.
            if "--jobs" in arguments:
                arguments += ["--jobs", "1"]
            if command[-1] in ("evaluate", "compare", "agreement"):
                arguments += ["--resamples", "0"]
            run([*command, *arguments], inputs=[notes, tiny_model, empty])

    budget.every(st.data(), check)
