"""Corpora of every format, whole and damaged: one clear outcome, no note quoted, no input touched."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from budget import Budget
from commands import contents, run
from hostile import MARKER, damaged, ids, texts
from hypothesis import strategies as st

from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

_TEXT = f"Patient: {MARKER} of {MARKER}\r\nDate: 03/04/2019 & {MARKER}\n"
_SPANS = (Span(9, 18, "PATIENT"), Span(39, 49, "DATE"))
_NOTES = [Document(f"{k}-01", _TEXT * k, _SPANS, patient_id=str(k)) for k in (1, 2, 3)]


@pytest.mark.parametrize("format", ["i2b2", "meddocan", "brat", "jsonl", "plain"])
def test_damaged_corpora(tiny_model: Path, budget: Budget, format: str) -> None:
    labels = {"PATIENT": "NOMBRE_SUJETO_ASISTENCIA", "DATE": "FECHAS"} if format == "meddocan" else {}
    notes = [n.with_spans(Span(s.start, s.end, labels.get(s.label, s.label)) for s in n.spans) for n in _NOTES]

    def check(data: st.DataObject) -> None:
        with TemporaryDirectory() as folder:
            source, out = Path(folder) / "notes", Path(folder) / "out"
            write_corpus(notes, source, format)
            path = data.draw(st.sampled_from(sorted(source.iterdir())))
            path.write_bytes(data.draw(damaged(path.read_bytes())))
            commands = [
                ("corpus", "stats", source),
                ("corpus", "convert", source, "--format", "jsonl", "--out", out / "converted"),
                ("predict", tiny_model, source, "--submodel", "regex", "--out", out / "found"),
                ("deidentify", tiny_model, source, "--out", out / "clean"),
                ("evaluate", source, source, "--resamples", "0", "--out", out / "figures.json"),
            ]
            run(data.draw(st.sampled_from(commands)), inputs=[source, tiny_model])
            assert not [name for name in contents(out) if "unfinished" in name]

    budget.every(st.data(), check)


def test_lines_of_any_content(tiny_model: Path, budget: Budget) -> None:
    """JSONL can say anything: ids that are paths, spans out of place, values of the wrong kind."""
    odd = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(), texts, st.lists(st.none()))
    span = st.fixed_dictionaries(
        {"start": st.integers(-1, 30) | odd, "end": st.integers(-1, 30) | odd, "label": ids | odd}
    )
    entry = st.fixed_dictionaries(
        {"id": ids | odd, "text": texts},
        optional={
            "spans": st.lists(span, max_size=3) | odd,
            "metadata": st.dictionaries(texts, texts | odd, max_size=2) | odd,
            "patient_id": ids | odd,
            "site": odd,
        },
    )

    def check(entries: list[dict[str, object]]) -> None:
        with TemporaryDirectory() as folder:
            source, out = Path(folder) / "notes", Path(folder) / "out"
            source.mkdir()
            (source / "notes.jsonl").write_text("\n".join(map(json.dumps, entries)), encoding="utf-8")
            for command in (
                ("predict", tiny_model, source, "--submodel", "regex", "--out", out / "found"),
                ("deidentify", tiny_model, source, "--out", out / "clean"),
                ("corpus", "convert", source, "--format", "brat", "--out", out / "brat"),
            ):
                # Ids are shown: they may be any text here, the marker among it.
                run(command, inputs=[source], quotes=True)
            names = {path.name for path in Path(folder).iterdir()}
            assert names <= {"notes", "out"}
            for path in out.rglob("*"):
                assert path.is_dir() or path.suffix in (".txt", ".ann", ".jsonl")

    budget.every(st.lists(entry, min_size=1, max_size=4), check)
