"""A file system on which the n-th operation below a folder fails."""

import builtins
import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

_FUNCTIONS = ("open", "fsync", "replace", "rename", "unlink", "mkdir", "chmod", "scandir", "listdir", "rmdir")
_METHODS = ("read", "readline", "write", "flush", "close", "__next__")


class Faults:
    """Counts operations, and lets one of them fail; `failed` says which."""

    def __init__(self, root: Path, at: int, error: int) -> None:
        self.root = str(root)
        self.at = at
        self.error = error
        self.count = 0
        self.failed = ""

    def concerns(self, path: object) -> bool:
        """Tell whether a path is below the root; commands are given absolute ones."""
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self.root)

    def pass_or_fail(self, name: str, path: object) -> None:
        """Count an operation on a path or descriptor, if it is below the root."""
        if isinstance(path, int):
            try:
                path = str(Path(f"/proc/self/fd/{path}").readlink())
            except OSError:
                return
        if not self.concerns(path):
            return
        self.count += 1
        if self.count == self.at:
            self.failed = name
            raise OSError(self.error, os.strerror(self.error), str(path))


class _File:
    """A stream whose reads and writes are counted."""

    def __init__(self, stream: Any, faults: Faults, path: object) -> None:
        self._stream, self._faults, self._path = stream, faults, path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._stream, name)
        if name not in _METHODS:
            return value

        def counted(*arguments: Any) -> Any:
            if name == "close" and self._stream.closed:
                return None
            try:
                self._faults.pass_or_fail(name, self._path)
            except OSError:
                if name == "close":
                    self._stream.close()
                raise
            return value(*arguments)

        return counted

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "_File":
        return self

    def __next__(self) -> Any:
        return self.__getattr__("__next__")()


@contextmanager
def failing(root: Path, *, at: int, error: int = errno.EIO) -> Iterator[Faults]:
    """Let the `at`-th operation on files below `root` fail."""
    faults = Faults(root, at, error)
    whole_open = io.open

    def open_file(file: Any, *arguments: Any, **options: Any) -> Any:
        path = file
        if isinstance(file, int):
            path = str(Path(f"/proc/self/fd/{file}").readlink())
        else:
            faults.pass_or_fail("open", file)
        stream = whole_open(file, *arguments, **options)
        return _File(stream, faults, path) if faults.concerns(path) else stream

    def counted(name: str) -> Any:
        whole = getattr(os, name)

        def function(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            faults.pass_or_fail(name, path)
            return whole(path, *arguments, **options)

        return function

    patches = [patch.object(os, name, counted(name)) for name in _FUNCTIONS]
    patches += [patch.object(io, "open", open_file), patch.object(builtins, "open", open_file)]
    for each in patches:
        each.start()
    try:
        yield faults
    finally:
        for each in reversed(patches):
            each.stop()
