"""Where results may be written: never over what they were made from."""

from pathlib import Path

from ensemble_deid.corpora.locate import Location
from ensemble_deid.errors import CorpusError


def refuse_output(out: Path, location: Location) -> None:
    """Raise CorpusError where results in `out` would overwrite, or mix with, the notes that they are made from."""
    place, source = out.resolve(), location.source.resolve()
    if place == (source if source.is_dir() else source.parent):
        raise CorpusError(f"{out}: the output folder is the input folder")
    if place in {file.resolve() for file in location.files}:
        raise CorpusError(f"{out}: the output is the input")
    # A name with .jsonl is a file to write; any other existing file stands where the folder would be made.
    if place.is_file() and place.suffix.lower() != ".jsonl":
        raise CorpusError(f"{out}: exists and is no folder")
