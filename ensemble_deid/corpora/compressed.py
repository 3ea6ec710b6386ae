"""Tables compressed with gzip (`.gz`) or Zstandard (`.zst`): read in bounded memory, written with the same bytes."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.checks import reading
from ensemble_deid.errors import CorpusError, needs_extra

COMPRESSED = (".gz", ".zst")
_LONGEST_LINE = 1 << 26
_WIDEST_WINDOW = 1 << 27
_PIECE = 1 << 10
"""So few bytes at a time: they may hold 32 MiB."""


def plain_name(path: Path) -> Path:
    """Return the name of a file without the suffix of its compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED else path


@contextmanager
def reading_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and undo its compression; CorpusError where that fails, and for a line over 64 MiB."""
    with reading(path) as stream:
        suffix = path.suffix.lower()
        if suffix not in COMPRESSED:
            yield stream
            return
        errors: tuple[type[Exception], ...] = (gzip.BadGzipFile, EOFError, zlib.error)
        opened: Any
        if suffix == ".gz":
            opened = gzip.GzipFile(fileobj=stream)
        else:
            errors = (zstandard().ZstdError, EOFError)
            opened = _Frames(stream, zstandard().ZstdDecompressor(max_window_size=_WIDEST_WINDOW))
        try:
            yield io.BufferedReader(_BoundedLines(opened, path))
        except errors:
            raise CorpusError(f"{path}: cannot be decompressed") from None


@contextmanager
def writing_compressed(out: Path) -> Iterator[BinaryIO]:
    """Open a new file, which is in place when the block ends, compressed as its name says."""
    with open_atomically(out) as stream:
        suffix = out.suffix.lower()
        if suffix == ".gz":
            # Without a name and a time, the same content is the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        elif suffix == ".zst":
            with zstandard().ZstdCompressor().stream_writer(stream, closefd=False) as packed:
                yield packed
        else:
            yield stream


def zstandard() -> Any:
    with needs_extra("tables", "Zstandard"):
        import zstandard
    return zstandard


@dataclass(slots=True)
class _Frames:
    """Decompresses the frames of Zstandard; EOFError where the last is cut short, which its own reader lets pass."""

    stream: BinaryIO
    machine: Any
    frame: Any = None
    unread: bytes = b""
    made: memoryview = field(default_factory=lambda: memoryview(b""))

    def read(self, size: int) -> bytes:
        while not self.made:
            data = self.unread or self.stream.read(_PIECE)
            self.unread = b""
            if not data:
                if self.frame is not None:
                    raise EOFError
                return b""
            self.frame = self.frame or self.machine.decompressobj()
            self.made = memoryview(self.frame.decompress(data))
            if self.frame.eof:
                self.unread, self.frame = self.frame.unused_data, None
        part, self.made = bytes(self.made[:size]), self.made[size:]
        return part


@dataclass
class _BoundedLines(io.RawIOBase):
    """What a stream holds, as long as its lines are not too long: a small file may hold a line of any length."""

    source: Any
    path: Path
    length: int = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.source.read(len(buffer))
        buffer[: len(data)] = data
        end = data.rfind(b"\n")
        self.length = self.length + len(data) if end < 0 else len(data) - end - 1
        if self.length > _LONGEST_LINE:
            raise CorpusError(f"{self.path}: a line is longer than {_LONGEST_LINE >> 20} MiB")
        return len(data)
