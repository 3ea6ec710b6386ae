"""Write a file or a folder whole or not at all.

Output gets a temporary name beside its place and is moved there when complete. The name says whose it is, and the file
is locked while its writer lives: `remove_stale` deletes what a killed process left, and nothing else.
"""

import errno
import hashlib
import importlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has other locks: what a killed process leaves there stays)
    fcntl = None  # type: ignore[assignment]

_MARK = ".ensemble-deid-unfinished"
LOCK = ".ensemble-deid-lock"
"""The name, or its end, of the files that keep a second run out of a place."""
_LONGEST_NAME = 200
_NOT_PERMITTED = {errno.EACCES, errno.EPERM, errno.EROFS}
_HELD_ELSEWHERE = {errno.EACCES, errno.EAGAIN, errno.EDEADLK, errno.EWOULDBLOCK}
_BINARY = getattr(os, "O_BINARY", 0)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `path` for writing; when the block ends well, flush it to disk and move it into place.

    Raises OSError, which names `path`.
    """
    with _beside(path) as (stream, temporary):
        yield stream
        _finish(stream, temporary)
        temporary.replace(path)


@contextmanager
def _beside(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Open the unfinished file that is to become `path`. Raises OSError, which names `path`."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _unfinished_file(path.parent) as opened:
            yield opened


@contextmanager
def naming(place: Path | str) -> Iterator[None]:
    """Let an OSError name the place that was to be written to, where it names none or an unfinished file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and _is_ours(error.filename):
            raise OSError(error.errno, error.strerror, str(place)) from None
        raise


def _flush_and_close(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())
    stream.close()


def _finish(stream: BinaryIO, temporary: Path) -> None:
    _flush_and_close(stream)
    # The unfinished file is private; give it what a plain open() would have given.
    temporary.chmod(0o666 & ~current_umask())


@contextmanager
def folder_atomically(place: Path) -> Iterator[Path]:
    """Give an empty folder beside `place`, for the caller to move there; it is gone when the block ends."""
    folder, lock = _unfinished_name(place.parent), -1
    try:
        with naming(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            while fcntl is not None and (lock := _locked(folder, os.O_RDONLY)) < 0:
                folder = _unfinished_name(place.parent)
                folder.mkdir(mode=0o700)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


def write_files_atomically(contents: Mapping[Path, bytes]) -> None:
    """Write several files that belong together: all of them, or none. Raises OSError, which names the file.

    When one cannot be moved into place after another was, all are removed, also older files of the same names: what is
    left is never half new and half old.
    """
    with ExitStack() as stack:
        unfinished: dict[Path, Path] = {}
        for path, data in contents.items():
            stream, unfinished[path] = stack.enter_context(_beside(path))
            stream.write(data)
            _finish(stream, unfinished[path])
        moved = False
        try:
            for path, temporary in unfinished.items():
                with naming(path):
                    temporary.replace(path)
                moved = True
        except BaseException:
            for path in contents if moved else ():
                path.unlink(missing_ok=True)
            raise


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Write `data` whole or not at all."""
    write_files_atomically({path: data})


def write_text_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with its newlines as they are, whole or not at all."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_new_private_file(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all.

    Raises FileExistsError where there is one already, and OSError, which names `path`.
    """
    with _beside(path) as (stream, temporary):
        stream.write(data)
        _flush_and_close(stream)
        # Moving alone would replace a file that somebody has made meanwhile.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            temporary.replace(path)
        except BaseException:
            path.unlink()
            raise


def check_writable(folder: Path) -> None:
    """Raise OSError, which names `folder`, where no file can be made in it; remove what a killed process left there.

    A folder that does not exist yet is judged by the nearest one above it.
    """
    standing = folder.absolute()
    while not standing.exists():
        standing = standing.parent
    remove_stale(standing)
    try:
        with _unfinished_file(standing):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def remove_stale(folder: Path) -> None:
    """Remove unfinished files and folders of processes that no longer run. One that cannot be removed stays."""
    if fcntl is None or not folder.is_dir():
        return
    for entry in [entry for entry in os.scandir(folder) if _is_unfinished(entry.name) and not entry.is_symlink()]:
        with suppress(OSError), _opened(entry.path) as handle:
            # Raises where it is locked: its writer is alive, here or on another machine.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if entry.is_dir():
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()


def _is_ours(filename: object) -> bool:
    """Tell whether an error names no file, or one that the user has not named: an unfinished one, or one in such."""
    if filename is None:
        return True
    path = Path(str(filename))
    return any(_is_unfinished(str(part)) for part in (path, *path.parents))


def _is_unfinished(path: str) -> bool:
    return Path(path).name.startswith(_MARK)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _unfinished_file(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Give an empty file of `folder`, open for writing; it is locked until the block ends, and gone unless moved."""
    path, lock = _unfinished_name(folder), -1
    # The name is chosen here and not by the system, so that an interruption finds it known as soon as the file exists.
    try:
        while lock < 0:
            path = _unfinished_name(folder)
            lock = _locked(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY)
        # The lock outlives the closing of the file; where there are none, an open file could not be moved.
        handle, lock = (lock, -1) if fcntl is None else (os.dup(lock), lock)
        with os.fdopen(handle, "wb") as stream:
            yield stream, path
    finally:
        path.unlink(missing_ok=True)
        _unlock(lock)


def _unfinished_name(folder: Path) -> Path:
    return folder / f"{_MARK}-{secrets.token_hex(8)}"


def _locked(path: Path, flags: int) -> int:
    """Open and lock a new file or folder that only its owner may read; -1 where another process took it for stale."""
    handle = os.open(path, flags, 0o600)
    # Between its making and its locking it was nobody's.
    if _lock(handle) and path.exists():
        return handle
    os.close(handle)
    return -1


def _unlock(lock: int) -> None:
    if lock >= 0:
        os.close(lock)


def _lock(handle: int) -> bool:
    """Lock an open file; False where another process holds it. A file system without locks counts as locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


# Two runs into one place would mix their notes.


@contextmanager
def exclusive(*places: Path) -> Iterator[list[Path]]:
    """Lock files and folders that are to be written; yield those on file systems without locks.

    The lock is a hidden file beside each place, or in a folder beside which none can be made; the system frees it when
    the process ends. Raises ConfigError where another process writes there, and OSError where no lock can be made.
    """
    unlocked: list[Path] = []
    with ExitStack() as stack:
        for place in dict.fromkeys(place.resolve() for place in places):
            if not stack.enter_context(_exclusive(place)):
                unlocked.append(place)
        yield unlocked


@contextmanager
def _exclusive(place: Path) -> Iterator[bool]:
    made = [folder for folder in place.parents if not folder.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    name = place.name
    if len(name.encode("utf-8", "replace")) > _LONGEST_NAME:
        name = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    path = place.parent / f".{name}{LOCK}"
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        except OSError as error:
            if error.errno not in _NOT_PERMITTED or path.parent == place or not place.is_dir():
                raise
            path = place / LOCK
            continue
        try:
            locked = _lock_for_long(handle)
        except BlockingIOError:
            os.close(handle)
            raise ConfigError(f"{place}: another run is writing there; wait for its end") from None
        # The process before may have removed the file between its opening and its locking.
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            break
        os.close(handle)
    try:
        yield locked
    finally:
        if os.name != "nt":
            path.unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):
            if os.name == "nt":
                path.unlink()
            for folder in made:
                # Where nothing was written after all.
                folder.rmdir()


def _lock_for_long(handle: int) -> bool:
    """Lock an open file; False where there are no locks. Raises BlockingIOError where another process holds it."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            msvcrt: Any = importlib.import_module("msvcrt")
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _HELD_ELSEWHERE:
            raise BlockingIOError(error.errno, error.strerror) from None
        return False
    return True


def current_umask() -> int:
    """Return the permissions that new files are not to have. The system only tells them when they are set."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
