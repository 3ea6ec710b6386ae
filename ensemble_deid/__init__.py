"""Find and remove protected health information (PHI) in clinical notes with a stack of learners.

    from ensemble_deid import Deidentifier, read_corpus, train

    trained = train(read_corpus("my/train"), dev=read_corpus("my/dev"))
    trained.save("model")
    model = Deidentifier.load("model")
    print(model.deidentify("Seen by Dr. Ada Strong on 4/2/2071.").text)

Everything in `__all__` is public; its docstring has an example. The submodules may change between versions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ensemble_deid.audit.bounds import notes_to_read
    from ensemble_deid.audit.certify import Certificate, certify
    from ensemble_deid.config import (
        Config,
        CrfConfig,
        NeuralConfig,
        RegexConfig,
        StackConfig,
        TbedConfig,
        TextConfig,
        TransformerConfig,
        load_config,
    )
    from ensemble_deid.corpora.input_options import InputOptions
    from ensemble_deid.corpora.read import Corpus, read_corpus
    from ensemble_deid.corpora.record_map import RecordMap
    from ensemble_deid.corpora.tables.columns import Columns
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.job import deidentify_files, deidentify_table
    from ensemble_deid.deidentify.known.site_lists import SiteLists
    from ensemble_deid.deidentify.manifest import VerifiedRun, verify_run
    from ensemble_deid.deidentify.one_pass import DeidentificationResult
    from ensemble_deid.deidentify.options import RunOptions
    from ensemble_deid.deidentify.recognizers import Recognizer
    from ensemble_deid.deidentify.summary import RunSummary
    from ensemble_deid.errors import ConfigError, CorpusError, DeidError, ModelError, RuleError
    from ensemble_deid.evaluation.evaluate import Evaluation, evaluate
    from ensemble_deid.evaluation.pairs import EvaluationError
    from ensemble_deid.integrations.series import WithheldNote, deidentify_series
    from ensemble_deid.note.document import Document
    from ensemble_deid.note.span import Span
    from ensemble_deid.training.train import Trained, train

__version__ = "1.0.0"
__all__ = [
    "Certificate",
    "Columns",
    "Config",
    "ConfigError",
    "Corpus",
    "CorpusError",
    "CrfConfig",
    "DeidError",
    "DeidentificationResult",
    "Deidentifier",
    "Document",
    "Evaluation",
    "EvaluationError",
    "InputOptions",
    "ModelError",
    "NeuralConfig",
    "Recognizer",
    "RecordMap",
    "RegexConfig",
    "RuleError",
    "RunOptions",
    "RunSummary",
    "SiteLists",
    "Span",
    "StackConfig",
    "TbedConfig",
    "TextConfig",
    "Trained",
    "TransformerConfig",
    "VerifiedRun",
    "WithheldNote",
    "__version__",
    "certify",
    "deidentify_files",
    "deidentify_series",
    "deidentify_table",
    "evaluate",
    "load_config",
    "notes_to_read",
    "read_corpus",
    "train",
    "verify_run",
    "write_corpus",
]

# Where each public name is defined; a test compares this table with the imports above.
_NAMES_OF = {
    "ensemble_deid.audit.bounds": "notes_to_read",
    "ensemble_deid.audit.certify": "Certificate certify",
    "ensemble_deid.config": (
        "Config CrfConfig NeuralConfig RegexConfig StackConfig TbedConfig TextConfig TransformerConfig load_config"
    ),
    "ensemble_deid.corpora.read": "Corpus read_corpus",
    "ensemble_deid.corpora.write": "write_corpus",
    "ensemble_deid.errors": "ConfigError CorpusError DeidError ModelError RuleError",
    "ensemble_deid.evaluation.evaluate": "Evaluation evaluate",
    "ensemble_deid.evaluation.pairs": "EvaluationError",
    "ensemble_deid.training.train": "Trained train",
    "ensemble_deid.integrations.series": "WithheldNote deidentify_series",
    "ensemble_deid.corpora.input_options": "InputOptions",
    "ensemble_deid.corpora.record_map": "RecordMap",
    "ensemble_deid.corpora.tables.columns": "Columns",
    "ensemble_deid.deidentify.deidentifier": "Deidentifier",
    "ensemble_deid.deidentify.job": "deidentify_files deidentify_table",
    "ensemble_deid.deidentify.manifest": "VerifiedRun verify_run",
    "ensemble_deid.deidentify.one_pass": "DeidentificationResult",
    "ensemble_deid.deidentify.options": "RunOptions",
    "ensemble_deid.deidentify.recognizers": "Recognizer",
    "ensemble_deid.deidentify.summary": "RunSummary",
    "ensemble_deid.deidentify.known.site_lists": "SiteLists",
    "ensemble_deid.note.document": "Document",
    "ensemble_deid.note.span": "Span",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import ensemble_deid` alone stays quick."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, also those that are not imported yet."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
