"""Annotations of notes outside the project: well formed by themselves, true to the notes where these are at hand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.note.labels import I2B2_TYPES

ROOT = Path(__file__).parents[1]
ANNOTATIONS = ROOT / "data" / "external" / "aci-bench.jsonl"
NOTES = ROOT.parent / "shared" / "corpora" / "aci-bench" / "notes.jsonl"


def join(notes: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "research" / "join_external.py"), str(ANNOTATIONS), str(notes), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})


def test_the_file_holds_offsets_and_labels_and_no_text() -> None:
    lines = [json.loads(line) for line in ANNOTATIONS.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == len({line["id"] for line in lines}) == 127
    for line in lines:
        assert set(line) == {"id", "text_sha256", "spans"}
        end = 0
        for span in line["spans"]:
            assert set(span) == {"start", "end", "label"}
            assert end <= span["start"] < span["end"]
            assert span["label"] in I2B2_TYPES
            end = span["end"]
    assert sum(len(line["spans"]) for line in lines) == 455


def test_joined_with_the_notes_every_span_is_a_trimmed_string(tmp_path: Path) -> None:
    if not NOTES.is_file():
        pytest.skip("the notes of ACI-Bench are not here")
    out = tmp_path / "joined.jsonl"
    done = join(NOTES, out)
    assert done.returncode == 0, done.stderr
    documents = read_corpus(str(out)).documents
    assert len(documents) == 127
    for document in documents:
        for span in document.spans:
            surface = document.text[span.start : span.end]
            assert surface == surface.strip()
            assert not document.text[span.start - 1 : span.start].isalnum()
            assert not document.text[span.end : span.end + 1].isalnum()


def test_a_missing_or_other_text_is_refused(tmp_path: Path) -> None:
    notes, out = tmp_path / "notes.jsonl", tmp_path / "out.jsonl"
    notes.write_text('{"id": "other", "text": "x"}\n', encoding="utf-8")
    assert "is not there" in join(notes, out).stderr
    first = json.loads(ANNOTATIONS.read_text(encoding="utf-8").splitlines()[0])["id"]
    notes.write_text(json.dumps({"id": first, "text": "another text"}) + "\n", encoding="utf-8")
    done = join(notes, out)
    assert done.returncode != 0
    assert "is not the one that was annotated" in done.stderr
    assert not out.exists()
