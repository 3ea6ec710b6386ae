"""Read the model file that CRFsuite writes: attributes, labels and weights, checked at every step.

CRFsuite's own reader trusts the file and crashes on a damaged one; this one raises ModelError. Format: CRFsuite 0.12,
`lib/crf/src/crf1d_model.c` (header, features) and `lib/cqdb/src/cqdb.c` (the string tables).
"""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.errors import ModelError

_HEADER = struct.Struct("<4sI4sIIIIIIIII")
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_CQDB = struct.Struct("<4sIIIII")
_CHUNK = struct.Struct("<4sII")
_VERSION = 100
_MOST_LABELS = 1000
_STATE, _TRANSITION = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class CrfsuiteWeights:
    """Attributes and labels by id, state weights as parallel arrays, and transitions (labels, labels)."""

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    attribute_of_weight: NDArray[np.int64]
    label_of_weight: NDArray[np.int64]
    weight: NDArray[np.float64]
    transitions: NDArray[np.float64]


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
    if magic != b"lCRF" or kind != b"FOMC" or version != _VERSION or size != len(data):
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
        state["source"].astype(np.int64),
        state["target"].astype(np.int64),
        state["weight"].astype(np.float64),
        transitions,
    )


def _read_features(data: bytes, at: int) -> NDArray[np.void]:
    """Return the weights of attributes and transitions as records."""
    _, size, count = _CHUNK.unpack_from(data, at)
    if size != _CHUNK.size + count * _FEATURE.itemsize:
        raise ModelError("the CRF's model file is damaged: the number of weights does not fit")
    features = np.frombuffer(data, _FEATURE, count=count, offset=at + _CHUNK.size)
    if not np.isin(features["type"], (_STATE, _TRANSITION)).all() or not np.isfinite(features["weight"]).all():
        raise ModelError("the CRF's model file is damaged: a weight that is none")
    return features


def _read_strings(data: bytes, at: int, count: int) -> tuple[str, ...]:
    """Return the strings of a CQDB table by id."""
    chunk, _, _, byte_order, backward_size, backward_at = _CQDB.unpack_from(data, at)
    if chunk != b"CQDB" or byte_order != 0x62445371 or backward_size != count:
        raise ModelError("the CRF's model file is damaged: a string table does not fit")
    offsets = np.frombuffer(data, "<u4", count=count, offset=at + backward_at)
    strings = []
    for number, offset in enumerate(offsets.tolist()):
        identifier, length = struct.unpack_from("<iI", data, at + offset)
        string = data[at + offset + 8 : at + offset + 8 + length]
        # Lengths count the NUL that ends each string.
        if identifier != number or length == 0 or string.find(b"\0") != length - 1:
            raise ModelError("the CRF's model file is damaged: its strings are out of order")
        strings.append(string[:-1].decode("utf-8"))
    return tuple(strings)
