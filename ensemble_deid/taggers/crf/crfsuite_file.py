"""The weights of a CRF as CRFsuite writes them, checked at every step.

CRFsuite's own reader trusts the file and crashes on a damaged one; this one raises ModelError. Format: CRFsuite 0.12,
`lib/crf/src/crf1d_model.c` (header, features) and `lib/cqdb/src/cqdb.c` (the string tables).
"""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.errors import ModelError

_HEADER = struct.Struct("<4sI4sIIIIIIIII")
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_CQDB = struct.Struct("<4sIIIII")
_CHUNK = struct.Struct("<4sII")
_VERSION = 100
_MOST_LABELS = 1000
_STATE, _TRANSITION = 0, 1
_MAGIC = b"lCRF"


@dataclass(frozen=True, slots=True, eq=False)
class CrfsuiteWeights:
    """Attributes and labels by id, state weights as parallel arrays, and transitions (labels, labels)."""

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    attribute_of_weight: Int64s
    label_of_weight: Int64s
    weight: Floats
    transitions: Floats


def read_crfsuite(data: bytes) -> CrfsuiteWeights:
    """Decode the bytes of a CRFsuite model. Raises ModelError when they are damaged."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise ModelError(f"the CRF's model file is damaged ({type(error).__name__})") from None


def _read(data: bytes) -> CrfsuiteWeights:
    # The number of features in the header (the fifth field) is never written; the features' own chunk has it.
    magic, size, kind, version, _, n_labels, n_attributes, *places = _HEADER.unpack_from(data)
    features_at, labels_at, attributes_at, label_references_at, attribute_references_at = places
    if magic != _MAGIC or kind != b"FOMC" or version != _VERSION or size != len(data):
        raise ModelError("the CRF's model file is damaged: its header does not fit")
    for name, at in ((b"FEAT", features_at), (b"LFRF", label_references_at), (b"AFRF", attribute_references_at)):
        if _CHUNK.unpack_from(data, at)[0] != name:
            raise ModelError("the CRF's model file is damaged: a part is not where the header says")
    if n_labels > _MOST_LABELS:
        raise ModelError(f"the CRF's model file has {n_labels} tags; {_MOST_LABELS} are possible")
    labels = _read_strings(data, labels_at, n_labels)
    attributes = _read_strings(data, attributes_at, n_attributes)
    features = _read_features(data, features_at)
    state = features[features["type"] == _STATE]
    moves = features[features["type"] == _TRANSITION]
    transitions = np.zeros((n_labels, n_labels))
    transitions[moves["source"], moves["target"]] = moves["weight"]
    if len(state) and (state["source"].max() >= n_attributes or state["target"].max() >= n_labels):
        raise ModelError("the CRF's model file is damaged: a weight of an unknown attribute")
    return CrfsuiteWeights(
        labels,
        attributes,
        attribute_of_weight=state["source"].astype(np.int64),
        label_of_weight=state["target"].astype(np.int64),
        weight=state["weight"].astype(np.float64),
        transitions=transitions,
    )


def _read_features(data: bytes, at: int) -> NDArray[np.void]:
    _, size, count = _CHUNK.unpack_from(data, at)
    if size != _CHUNK.size + count * _FEATURE.itemsize:
        raise ModelError("the CRF's model file is damaged: the number of weights does not fit")
    features = np.frombuffer(data, _FEATURE, count=count, offset=at + _CHUNK.size)
    if not np.isin(features["type"], (_STATE, _TRANSITION)).all() or not np.isfinite(features["weight"]).all():
        raise ModelError("the CRF's model file is damaged: a weight is not a number")
    return features


def _read_strings(data: bytes, at: int, count: int) -> tuple[str, ...]:
    chunk, _, _, byte_order, backward_size, backward_at = _CQDB.unpack_from(data, at)
    if chunk != b"CQDB" or byte_order != 0x62445371 or backward_size != count:
        raise ModelError("the CRF's model file is damaged: a string table does not fit")
    if not count:
        return ()
    # A record is its number, its length, the string and a NUL; one follows the other.
    starts = np.frombuffer(data, "<u4", count=count, offset=at + backward_at).astype(np.int64)
    header = starts[:, None] + at + np.arange(8)
    numbers, lengths = np.frombuffer(data, np.uint8)[header].view("<u4").astype(np.int64).T
    ends = starts + 8 + lengths
    region = np.frombuffer(data[at + starts[0] : at + ends[-1]], np.uint8)
    if not np.array_equal(numbers, np.arange(count)) or not np.array_equal(starts[1:], ends[:-1]):
        raise ModelError("the CRF's model file is damaged: its strings are out of order")
    text = np.delete(region, (header - header[0, 0]).ravel())
    if not np.array_equal(np.flatnonzero(text == 0), np.cumsum(lengths) - 1):
        raise ModelError("the CRF's model file is damaged: its strings are out of order")
    return tuple(text.tobytes().decode("utf-8").split("\0")[:-1])
