"""Where results may be written: never over an input, by any path or link, and only where a file can be created."""

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path

from ensemble_deid.atomic import check_writable
from ensemble_deid.corpora.formats import FILE_SUFFIXES, format_named
from ensemble_deid.corpora.read import Location, locate_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.model.installed import model_of
from ensemble_deid.model.manifest import FILE as MANIFEST
from ensemble_deid.model.manifest import SIGNATURE

Input = Location | Path | str | None
"""A corpus argument, a model folder, or a file; None stands for an option that was not given."""
_Identity = tuple[int, int]


def refuse_output(out: Path, *inputs: Input, format: str | None = None) -> None:
    """Raise CorpusError where notes in the folder `out` would overwrite, or mix with, any of the inputs.

    With a `format` of which one file holds many notes, `out` may also be a file with its suffix.
    """
    suffix = out.suffix.lower()
    if out.is_file() and suffix not in FILE_SUFFIXES:
        raise CorpusError(f"{out}: exists and is not a folder")
    if suffix in FILE_SUFFIXES and not out.is_dir():
        found = None if format is None else format_named(format)
        if found is not None and (found.frame is None or found.suffix != suffix):
            raise CorpusError(f"{out}: is the name of a file, but a folder of notes is to be written")
        refuse_output_files([out], *inputs)
        return
    for given in inputs:
        source = _source(given)
        if source is not None and out.resolve() == (source if source.is_dir() else source.parent).resolve():
            kind = "model" if (source / MANIFEST).is_file() else "input folder"
            raise CorpusError(f"{out}: the output folder is the {kind}")
    _refuse_inputs_among(_entries(out), inputs)
    check_writable(out)


def refuse_nested_output(out: Path, folders: Iterable[Path], *inputs: Input) -> None:
    """Raise CorpusError where a file in one of the `folders` of `out`, relative to it, is an input."""
    _refuse_inputs_among((entry for folder in folders for entry in _entries(out / folder)), inputs)


def refuse_inside(outs: Iterable[Path | None], *inputs: Input) -> None:
    """Raise CorpusError where one of the files `outs` would lie in a folder that is read, and be read the next time."""
    folders = [Path(one).resolve() for one in inputs if isinstance(one, str | Path) and Path(one).is_dir()]
    for out in outs:
        if out is not None and any(out.resolve().is_relative_to(folder) for folder in folders):
            raise CorpusError(f"{out}: lies in a folder that is read")


def refuse_output_files(outs: Iterable[Path | None], *inputs: Input) -> None:
    """Raise CorpusError for a file of `outs` that is an input, a folder, in a model or named twice, or not writable."""
    named: set[Path] = set()
    for out in outs:
        if out is None:
            continue
        if out.is_dir():
            raise CorpusError(f"{out}: is a folder; the name of a file is needed")
        if out.resolve() in named:
            raise CorpusError(f"{out}: is named for two outputs")
        named.add(out.resolve())
        _refuse_inputs_among([out], inputs)
        if out.name != SIGNATURE and (out.resolve().parent / MANIFEST).is_file():
            raise CorpusError(f"{out}: lies in a folder that is read: a model may hold no other files")
        check_writable(out.parent)


def refuse_shared(*outs: Path | None) -> None:
    """Raise CorpusError where one of the files and folders `outs` is another one of them, or lies in it."""
    named = [(out, out.resolve()) for out in outs if out is not None]
    for (out, place), (other, around) in permutations(named, 2):
        if place.is_relative_to(around):
            inside = "is named for two outputs" if place == around else f"lies in another output, {other}"
            raise CorpusError(f"{out}: {inside}")


def refuse_output_model(out: Path, *inputs: Input) -> None:
    """Raise CorpusError where the model folder `out`, which is replaced as a whole, contains any of the inputs."""
    place = out.resolve()
    for given in inputs:
        for path in _files(given):
            if path.resolve().is_relative_to(place):
                raise CorpusError(f"{path}: is an input inside the folder that the model would replace")
    _refuse_inputs_among(_entries(out), inputs)
    check_writable(place.parent)


def _refuse_inputs_among(outputs: Iterable[Path], inputs: Iterable[Input]) -> None:
    known = {identity: path for given in inputs for path in _files(given) for identity in _identity(path)}
    for out in outputs:
        for identity in _identity(out):
            if identity in known:
                same = "" if out == known[identity] else f" {known[identity]}"
                raise CorpusError(f"{out}: the output is the input{same}: nothing is written over what is read")


def _source(given: Input) -> Path | None:
    if isinstance(given, Location):
        return given.source
    if isinstance(given, str) and given.partition(":")[0] == "demo":
        return locate_corpus(given).source
    return None if given is None else model_of(str(given)) or Path(given)


def _files(given: Input) -> Iterator[Path]:
    """Yield every file that reading this input may open."""
    source = _source(given)
    if source is not None:
        yield from _entries(source) if source.is_dir() else (source, source.with_suffix(".ann"))


def _entries(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry in os.scandir(folder)] if folder.is_dir() else []


def _identity(path: Path) -> Iterator[_Identity]:
    """Yield device and inode of a regular file, through links; nothing for a file that is not there."""
    try:
        status = path.stat()
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        yield status.st_dev, status.st_ino
