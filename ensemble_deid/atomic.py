"""Write a file whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `path` for writing; when the block ends well, flush it to disk and move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes the file private; give it what a plain open() would have given.
        Path(temporary).chmod(0o666 & ~current_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Write `data` whole or not at all."""
    with open_atomically(path) as stream:
        stream.write(data)


def write_text_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with its newlines as they are, whole or not at all."""
    write_bytes_atomically(path, text.encode("utf-8"))


def current_umask() -> int:
    """Return the permissions that new files are not to have. The system only tells them when they are set."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
