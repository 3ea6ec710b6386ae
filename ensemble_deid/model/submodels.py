"""A submodel by its name: its class is imported on demand, so that a submodel that is not used costs nothing.

Here, too, a submodel becomes what the configuration makes of it: one model for each type of PHI (`by_type`), one that
reads lower case (`uncased`), or both. Whatever trains, loads or compresses submodels does it through these functions.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import cast

from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch, word_column
from ensemble_deid.features.columns import word_columns
from ensemble_deid.features.table import FeatureTable
from ensemble_deid.note.label_map import label_groups
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.submodels import BY_NAME, row_of
from ensemble_deid.taggers.base import CompactableTagger, FitOptions, Tagger, TrainableTagger
from ensemble_deid.taggers.by_type import ByTypeTagger, UncasedTagger, change_files
from ensemble_deid.taggers.given import GivenTagger

# More to learn from: the training notes of a submodel, with copies of them in which other values stand for the PHI.


def with_resampled_copies(train: Batch, *, copies: int, config: Config) -> Batch:
    """Return the notes and `copies` resampled copies of each, with the columns that words alone decide.

    An encoder that reads the notes of a few sites several times learns their names by heart; with other names each time
    it learns where names stand. Within a copy and a patient the values are consistent (`corpora/resample.py`), and they
    come from other sources than the public lists.
    """
    # Here, not above: only training needs it.
    from ensemble_deid.corpora.resample import resample_corpus

    # Folds may keep sites together; who is replaced by whom is decided patient by patient.
    notes = [replace(document, fold_group=None) for document in train.documents]
    documents = (*notes, *resample_corpus(notes, copies=copies, seed=config.seed))
    tokens = tokenize(documents, split_lines=config.text.split_lines)
    columns = word_columns(word_column(documents, tokens))
    nothing_found = tuple(() for _ in documents)
    return Batch(documents, tokens, FeatureTable(columns), nothing_found, columns["lower"].codes)


def submodel_class(name: str) -> type[TrainableTagger]:
    """Return the class of a submodel. Raises KeyError for an unknown name (configurations are checked earlier)."""
    module, _, attribute = BY_NAME[name].class_path.partition(":")
    found: type[TrainableTagger] = getattr(import_module(module), attribute)
    return found


def fit_submodel(
    name: str,
    train: Batch,
    stop_by: Batch | None,
    *,
    scheme: TagScheme,
    config: Config,
    progress: Callable[[str], None],
    start: Tagger | None = None,
) -> Tagger:
    """Train a submodel as the configuration says; `stop_by` may only be used to choose when to stop.

    Raises ConfigError for settings that do not fit, and where `start` reads other casing, or is split by type and the
    submodel is not.
    """
    if name in config.members:
        return GivenTagger.fit(name, train, labels=scheme.labels)
    lower = name in config.uncased
    if start is not None and isinstance(start, UncasedTagger) != lower:
        raise ConfigError(f"uncased: {name} of the model to start from has the other setting")
    begin = start.tagger if isinstance(start, UncasedTagger) else start
    if isinstance(begin, ByTypeTagger) and not config.is_by_type(name):
        raise ConfigError(
            f"by_type: {name} of the model to start from is several models, and one cannot start from all"
        )

    def fit_labels(of: TagScheme, notes: Batch, dev: Batch | None) -> Tagger:
        own = begin.start_for(of.labels) if isinstance(begin, ByTypeTagger) else begin
        options = FitOptions(of, config.of_submodel(name), config.seed, config.device, progress=progress, start=own)
        return submodel_class(name).fit(notes, dev, options)

    def fit(notes: Batch, dev: Batch | None) -> Tagger:
        if not config.is_by_type(name):
            return fit_labels(scheme, notes, dev)
        groups = label_groups(config.by_type, scheme.labels)
        return ByTypeTagger.fit(fit_labels, notes, dev, scheme=scheme, groups=groups)

    if name == "transformer" and config.transformer.resampled_copies:
        train = with_resampled_copies(train, copies=config.transformer.resampled_copies, config=config)
    return UncasedTagger.fit(fit, train, stop_by) if lower else fit(train, stop_by)


def load_submodel(name: str, directory: Path, *, scheme: TagScheme, config: Config) -> Tagger:
    """Read a submodel of a model's folder. Raises ModelError when it is damaged."""
    if name in config.members:
        return GivenTagger.load(name, directory, labels=scheme.labels)

    def load_one(of: TagScheme, folder: Path) -> Tagger:
        return submodel_class(name).load(folder, scheme=of, config=config.of_submodel(name), device=config.device)

    if config.is_by_type(name):
        groups = label_groups(config.by_type, scheme.labels)
        tagger: Tagger = ByTypeTagger.load(load_one, directory, scheme=scheme, groups=groups)
    else:
        tagger = load_one(scheme, directory)
    return UncasedTagger(tagger) if name in config.uncased else tagger


def compact_submodel(name: str, directory: Path, *, labels: tuple[str, ...], config: Config) -> None:
    """Make a submodel's saved files smaller, where its class knows how."""
    if not row_of(name).has_compact_form:
        return
    compact = cast("type[CompactableTagger]", submodel_class(name)).compact_saved
    if config.is_by_type(name):
        change_files(directory, label_groups(config.by_type, labels), compact)
    else:
        compact(directory)
