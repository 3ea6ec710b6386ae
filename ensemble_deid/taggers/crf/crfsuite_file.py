"""The weights of a CRF on disk: as CRFsuite writes them, and in a compact form, checked at every step.

CRFsuite's own reader trusts the file and crashes on a damaged one; this one raises ModelError. Format: CRFsuite 0.12,
`lib/crf/src/crf1d_model.c` (header, features) and `lib/cqdb/src/cqdb.c` (the string tables). The compact form has the
same without hash tables, weights in single precision: safetensors, compressed.
"""

import lzma
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.errors import ModelError

_HEADER = struct.Struct("<4sI4sIIIIIIIII")
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_CQDB = struct.Struct("<4sIIIII")
_CHUNK = struct.Struct("<4sII")
_VERSION = 100
_MOST_LABELS = 1000
_STATE, _TRANSITION = 0, 1
_LARGEST, _MEMORY, _PRESET = 2**28, 2**26, 6
MAGIC = b"lCRF"
"""How a file of CRFsuite begins."""


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
    if magic != MAGIC or kind != b"FOMC" or version != _VERSION or size != len(data):
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


def compact_weights(read: CrfsuiteWeights) -> bytes:
    """Return the compact form. The same weights give the same bytes."""
    order = np.lexsort((read.label_of_weight, read.attribute_of_weight))
    tensors: dict[str, NDArray[Any]] = {
        "attributes": np.frombuffer("\0".join(read.attributes).encode(), np.uint8),
        "labels": np.frombuffer("\0".join(read.labels).encode(), np.uint8),
        # Differences of sorted numbers are small, and compress well.
        "attribute": np.diff(read.attribute_of_weight[order], prepend=0).astype(np.uint32),
        "label": read.label_of_weight[order].astype(np.uint16),
        "weight": read.weight[order].astype(np.float32),
        "transitions": read.transitions,
    }
    return lzma.compress(save(tensors), preset=_PRESET)


def _strings(data: bytes) -> tuple[str, ...]:
    return tuple(data.decode("utf-8").split("\0")) if data else ()


def decompressed(data: bytes) -> bytes:
    """Return what was compressed. Raises ModelError for more than a model can have, and LZMAError."""
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    content = reader.decompress(data, max_length=_LARGEST)
    if not reader.eof:
        raise ModelError("damaged, or larger than a model can be")
    return content


def read_compact_weights(data: bytes) -> CrfsuiteWeights:
    """Decode the compact form. Raises ModelError when it is damaged, or larger than a model can be."""
    try:
        tensors = load(decompressed(data))
        attributes, labels = (_strings(tensors[name].tobytes()) for name in ("attributes", "labels"))
        read = CrfsuiteWeights(
            labels,
            attributes,
            attribute_of_weight=np.cumsum(tensors["attribute"], dtype=np.int64),
            label_of_weight=tensors["label"].astype(np.int64),
            weight=tensors["weight"].astype(np.float64),
            transitions=tensors["transitions"].astype(np.float64),
        )
    except (lzma.LZMAError, SafetensorError, KeyError, ValueError, AttributeError) as error:
        raise ModelError(f"damaged ({type(error).__name__})") from None
    fits = (
        read.attribute_of_weight.shape == read.label_of_weight.shape == read.weight.shape == (read.weight.size,)
        and read.transitions.shape == (len(labels), len(labels))
        and (read.attribute_of_weight < len(attributes)).all()
        and (read.label_of_weight < len(labels)).all()
        and np.isfinite(read.weight).all()
        and np.isfinite(read.transitions).all()
    )
    if not fits:
        raise ModelError("damaged: its parts do not fit each other")
    return read
