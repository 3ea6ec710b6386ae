"""What a run records of its settings, for the next one to be compared with; nothing of it says what a file holds."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.corpora.records import NoteSource, digest_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.recognizers import Recognizer
from ensemble_deid.keys import Key


def finding_of(
    place: Path,
    input: InputOptions,
    source: NoteSource,
    columns: Columns,
    *,
    model: Deidentifier,
    options: RunOptions,
) -> dict[str, Any]:
    """Return what decides what is found in the notes at a place; digests of files are hidden by the run's key."""
    prediction, key = options.prediction, options.replacer.key
    named = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(columns).items()}
    # All rules together have a digest.
    del named["fields"]
    members = {
        name: {kind: hidden(value, key) if kind == "sha256" else value for kind, value in member.to_json().items()}
        for name, member in (() if model.source is None else model.source.members)
    }
    return {
        "version": __version__,
        "model": "" if model.source is None else model.source.checksum,
        "submodels": list(model.description.submodels),
        "arithmetic": model.description.arithmetic,
        "submodel": prediction.submodel,
        "threshold": prediction.threshold,
        "combiner": prediction.combiner,
        "batch_size": prediction.batch_size,
        "format": source.format,
        "columns": named,
        "keep_fields": input.keep_fields,
        "record_map": input.rules_digest,
        "input": hidden(digest_of(place) if place.is_file() else None, key),
        "lists": {name: hidden(value, key) for name, value in options.lists.to_json().items()},
        "recognizers": [
            {**found, "sha256": hidden(found["sha256"], key)} for found in map(Recognizer.to_json, options.recognizers)
        ],
        "key": key.id,
        **({"members": members} if members else {}),
    }


def hidden(content: Any, key: Key) -> Any:
    """Return text, which may be or hold a plain digest, as an HMAC; anything else as it is."""
    return key.fingerprint("input", content.encode()) if isinstance(content, str) else content
