"""Put annotations without text (data/external) and the notes that they are of together: a corpus in JSONL.

    python research/join_external.py data/external/aci-bench.jsonl NOTES.jsonl OUT.jsonl

Ends with one error that names the note when a text is missing, or is not the one that was annotated.
"""

import hashlib
import json
import sys
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import CorpusError


def join(annotations: Path, notes: Path) -> str:
    """Return the lines of the annotated corpus. Raises CorpusError."""
    texts = {}
    for line in notes.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        texts[note["id"]] = note["text"]
    lines = []
    for line in annotations.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        text = texts.get(note["id"])
        if text is None:
            raise CorpusError(f"{notes}: the note {note['id']} is not there")
        if hashlib.sha256(text.encode("utf-8")).hexdigest() != note["text_sha256"]:
            raise CorpusError(f"{notes}: the text of {note['id']} is not the one that was annotated")
        lines.append(json.dumps({"id": note["id"], "text": text, "spans": note["spans"]}, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    try:
        write_text_atomically(Path(sys.argv[3]), join(Path(sys.argv[1]), Path(sys.argv[2])))
    except CorpusError as error:
        sys.exit(f"error: {error}")
