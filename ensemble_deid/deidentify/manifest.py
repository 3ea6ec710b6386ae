"""The files of a run: its manifest, what was replaced where, and what was withheld and why; writing and verifying them.

Each line of the manifest holds the hash of the line before it, and the last hash is printed, so no line can be changed,
added or removed unnoticed. It contains no note text. Digests of the input are HMACs under the run's key, so
nobody without the key can test a guess.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.records import NewRecord, Record, digest_of
from ensemble_deid.deidentify.one_pass import DeidentificationResult
from ensemble_deid.errors import CorpusError
from ensemble_deid.keys import Key
from ensemble_deid.note.digits import rounded
from ensemble_deid.parsing import strict_json

MANIFEST = "manifest.jsonl"
SPANS = "spans.jsonl"
FAILED = "failed.jsonl"
STANDARD_OUTPUT = "-"
"""The path of an output that is in no file."""
_START = "0" * 64
_TOGETHER = 100
Entry = Mapping[str, Any]


@dataclass(slots=True)
class ManifestChain:
    """Writes a manifest, line by line."""

    stream: BinaryIO
    head: str = _START

    def add(self, entry: str, **values: Any) -> None:
        """Write a line, in ASCII: the name of a file need not be Unicode."""
        line = json.dumps({"entry": entry, **values, "previous": self.head}).encode("ascii")
        self.stream.write(line + b"\n")
        self.head = hashlib.sha256(line).hexdigest()


@dataclass(slots=True)
class TextsDigest:
    """The hash of many texts together."""

    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, text: str | None) -> None:
        """Add a text, None where there is none."""
        data = b"" if text is None else text.encode("utf-8", "surrogatepass")
        self.digest.update(b"-" if text is None else str(len(data)).encode("ascii") + b":")
        self.digest.update(data)

    def take(self) -> str:
        """Return the hash, and begin anew."""
        found: str = self.digest.hexdigest()
        self.digest = hashlib.sha256()
        return found


@dataclass(slots=True)
class RunFiles:
    """Writes a run's files, none of which is in place before all are whole.

    With `standard`, the output goes to standard output, and its temporary file is gone at the end; with `table`, it is
    a table in a database.
    """

    folder: Path
    key: Key
    chain: ManifestChain
    spans: "_HashedLines"
    failed: "_HashedLines"
    standard: bool = False
    table: bool = False
    last: int = 0
    first: int = 1
    old: TextsDigest = field(default_factory=TextsDigest)
    new: TextsDigest = field(default_factory=TextsDigest)

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Path, settings: Mapping[str, Any], *, key: Key, standard: bool = False, table: bool = False
    ) -> Iterator["RunFiles"]:
        """Provide the files, in place when the block ends without an error; `key` is for digests of what was read."""
        with ExitStack() as stack:
            streams = [stack.enter_context(open_atomically(folder / name)) for name in (MANIFEST, SPANS, FAILED)]
            chain = ManifestChain(streams[0])
            chain.add("run", settings=dict(settings))
            spans, failed = (_HashedLines(stream) for stream in streams[1:])
            yield cls(folder, key, chain, spans, failed, standard=standard, table=table)

    def note(self, record: Record, new: NewRecord, result: DeidentificationResult) -> None:
        name = record.name if new.id is None else str(new.id)
        for span in result.replaced:
            old, made = (record.text or "")[span.start : span.end], (result.text or "")[span.new_start : span.new_end]
            self.spans.add(
                note=name,
                place=record.name,
                **asdict(replace(span, score=rounded(span.score))),
                # A style may keep what a span holds: an audit counts it as left.
                **({"shown": True} if old == made else {}),
            )
        self._count(record.text, result.text)

    def failure(self, record: Record, problem: str) -> None:
        self.failed.add(place=record.name, reason=problem)
        self._count(record.text, None)

    def output(self, path: Path, digest: str) -> None:
        """Record what was written: a file by its path from the run's folder, a table by its name."""
        if self.table:
            self.chain.add("table", name=str(path), sha256=digest)
            return
        named = os.path.relpath(path.resolve(), self.folder.resolve())
        self.chain.add("file", path=STANDARD_OUTPUT if self.standard else named, sha256=digest)

    def end(self, counts: Mapping[str, int], *, labels: Mapping[str, int], words: int) -> str:
        """Write the manifest's end, with the number of spans by label and of words, and return its hash."""
        self._close_batch()
        files = {SPANS: self.spans.digest, FAILED: self.failed.digest}
        self.chain.add("end", counts=dict(counts), labels=dict(labels), words=words, files=files)
        return self.chain.head

    def _count(self, old: str | None, new: str | None) -> None:
        self.old.add(old)
        self.new.add(new)
        self.last += 1
        if self.last - self.first + 1 == _TOGETHER:
            self._close_batch()

    def _close_batch(self) -> None:
        if self.last >= self.first:
            read = self.key.fingerprint("notes", self.old.take().encode())
            self.chain.add("notes", first=self.first, last=self.last, input=read, output=self.new.take())
            self.first = self.last + 1


@dataclass(slots=True)
class _HashedLines:
    stream: BinaryIO
    _hash: Any = field(default_factory=hashlib.sha256, init=False)

    @property
    def digest(self) -> str:
        found: str = self._hash.hexdigest()
        return found

    def add(self, **values: Any) -> None:
        line = json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        self._hash.update(line)
        self.stream.write(line)


_MEMBERS: dict[str, dict[str, type]] = {
    "run": {"settings": dict},
    "file": {"path": str, "sha256": str},
    "table": {"name": str, "sha256": str},
    "end": {"files": dict, "counts": dict, "labels": dict, "words": int},
}
"""What each kind of line must have."""


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    """What a run's manifest says of it: settings, counts, how many files were checked, its last hash.

    `labels` counts the spans in the `words` words of the notes written. `printed` are the SHA-256 of outputs that went
    to standard output, which cannot be checked; `tables` are those in a database with the digests of their rows, which
    only who reads the database can check.

    >>> from ensemble_deid import VerifiedRun
    >>> VerifiedRun({"style": "tag"}, {"written": 2}, files=1, head="0").counts["written"]
    2
    """

    settings: Entry
    counts: Entry
    files: int
    head: str
    labels: Entry = field(default_factory=dict)
    words: int = 0
    printed: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run that has come to its end."""
    return (folder / MANIFEST).is_file()


def verify_run(folder: str | Path, *, head: str | None = None) -> VerifiedRun:
    """Check a run: the chain of its manifest, its other files, and every file that it wrote.

    `head` is the last hash as it was printed; without it, a manifest that was made up as a whole passes. Raises
    CorpusError, which says what is wrong.

    >>> from pathlib import Path
    >>> from ensemble_deid import deidentify_files, verify_run
    >>> _ = Path("note.txt").write_text("Date: 03/04/2019")
    >>> _ = deidentify_files("note.txt", "clean.txt", "model")
    >>> verify_run("clean.txt.run").counts["written"]
    1
    """
    folder = Path(folder)
    entries, found = read_chain(folder / MANIFEST)
    first, last = entries[0], entries[-1]
    if first.get("entry") != "run" or last.get("entry") != "end":
        raise CorpusError(f"{folder / MANIFEST}: incomplete: its beginning or end is missing")
    if head is not None and head != found:
        raise CorpusError(f"{folder / MANIFEST}: another manifest: its last hash is {found}")
    written = [entry for entry in entries if entry.get("entry") == "file"]
    outputs = [entry for entry in written if entry["path"] != STANDARD_OUTPUT]
    printed = tuple(entry["sha256"] for entry in written if entry["path"] == STANDARD_OUTPUT)
    tables = {entry["name"]: entry["sha256"] for entry in entries if entry.get("entry") == "table"}
    beside = [{"path": name, "sha256": digest} for name, digest in last["files"].items()]
    for entry in (*beside, *outputs):
        path = folder / entry["path"]
        path = Path(os.path.normpath(path))
        if not path.is_file():
            raise CorpusError(f"{path}: is missing; the run wrote it")
        if digest_of(path) != entry["sha256"]:
            raise CorpusError(f"{path}: is not as the run wrote it")
    return VerifiedRun(
        settings=first["settings"],
        counts=last["counts"],
        files=len(outputs),
        head=found,
        labels=last["labels"],
        words=last["words"],
        printed=printed,
        tables=tables,
    )


def read_chain(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the lines of a manifest and its last hash. Raises CorpusError where a line was changed."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
    head, entries = _START, []
    for number, line in enumerate(lines, start=1):
        try:
            entry = strict_json(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or entry.get("previous") != head:
            raise CorpusError(f"{path}:{number}: the chain is broken: this line or the one before it was changed")
        needed = _MEMBERS.get(str(entry.get("entry")), {})
        if any(not isinstance(entry.get(name), kind) for name, kind in needed.items()):
            raise CorpusError(f"{path}:{number}: lacks {', '.join(needed)}")
        head = hashlib.sha256(line).hexdigest()
        entries.append(entry)
    if not entries:
        raise CorpusError(f"{path}: is empty")
    return entries, head
