"""Find and remove protected health information (PHI) in clinical notes with a stack of learners."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ensemble_deid.pipeline.deidentifier import DeidentificationResult, Deidentifier
    from ensemble_deid.text.document import Document
    from ensemble_deid.text.span import Span

__version__ = "0.1.0"
__all__ = ["DeidentificationResult", "Deidentifier", "Document", "Span", "__version__"]

_HOMES = {
    "DeidentificationResult": "ensemble_deid.pipeline.deidentifier",
    "Deidentifier": "ensemble_deid.pipeline.deidentifier",
    "Document": "ensemble_deid.text.document",
    "Span": "ensemble_deid.text.span",
}


def __getattr__(name: str) -> Any:
    """Import the public classes when they are asked for: `import ensemble_deid` alone stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
