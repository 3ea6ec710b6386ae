"""The files of a run: what was replaced where, what was withheld and why, and the manifest of it all."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.records import NewRecord, Record
from ensemble_deid.deidentify.chain import FAILED, MANIFEST, SPANS, STANDARD_OUTPUT, Chain, TextsDigest
from ensemble_deid.deidentify.replacement import Replacement
from ensemble_deid.keys import Key
from ensemble_deid.note.digits import rounded

_TOGETHER = 100


@dataclass(slots=True)
class RunFiles:
    """Writes a run's files, none of which is in place before all are whole.

    With `standard`, the output goes to standard output, and the file in which it waits is gone at the end; with `table`
    it is a table in a database.
    """

    folder: Path
    key: Key
    chain: Chain
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
        """Provide the files, which are in place when the block ends without an error, the manifest last.

        What was read is recorded under `key`.
        """
        with ExitStack() as stack:
            streams = [stack.enter_context(open_atomically(folder / name)) for name in (MANIFEST, SPANS, FAILED)]
            chain = Chain(streams[0])
            chain.add("run", settings=dict(settings))
            yield cls(folder, key, chain, _HashedLines(streams[1]), _HashedLines(streams[2]), standard, table)

    def note(self, record: Record, new: NewRecord, replacement: Replacement) -> None:
        """Record a note that was written."""
        name = record.name if new.id is None else str(new.id)
        for span in replacement.spans:
            self.spans.add(
                note=name,
                place=record.name,
                start=span.start,
                end=span.end,
                new_start=span.new_start,
                new_end=span.new_end,
                label=span.label,
                score=rounded(span.score),
            )
        self._count(record.text, replacement.text)

    def failure(self, record: Record, problem: str) -> None:
        """Record a note that was withheld."""
        self.failed.add(place=record.name, reason=problem)
        self._count(record.text, None)

    def output(self, path: Path, digest: str) -> None:
        """Record what was written: a file by its path from the run's folder, a table by its name."""
        if self.table:
            self.chain.add("table", name=str(path), sha256=digest)
            return
        named = os.path.relpath(path.resolve(), self.folder.resolve())
        self.chain.add("file", path=STANDARD_OUTPUT if self.standard else named, sha256=digest)

    def end(self, counts: Mapping[str, int]) -> str:
        """Write the manifest's end and return its hash."""
        self._close_batch()
        files = {SPANS: self.spans.digest, FAILED: self.failed.digest}
        self.chain.add("end", counts=dict(counts), files=files)
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
