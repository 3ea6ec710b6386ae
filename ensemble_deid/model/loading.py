"""Reading a model's folder (`directory.py` says what is in it): safe files only, so that loading runs no code."""

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ensemble_deid.config import Config, make_config
from ensemble_deid.errors import ConfigError, ModelError, RuleError
from ensemble_deid.features.lexicon import Lexicon
from ensemble_deid.features.patterns import PatternSet, parse_patterns
from ensemble_deid.model.additions import check_proposer, load_added_patterns, load_inclusion_list
from ensemble_deid.model.directory import BPE, KNOWLEDGE, LEXICON, PATTERNS, variant_name
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.feature_extractor import FeatureExtractor, load_stem, reload_annotator, reload_knowledge
from ensemble_deid.model.manifest import FILE, Manifest, read_manifest
from ensemble_deid.model.options import best_members_of
from ensemble_deid.model.pattern_choice import NO_PATTERNS, relabelled
from ensemble_deid.model.submodels import load_submodel
from ensemble_deid.note.bpe import Bpe
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parsing import strict_json
from ensemble_deid.reproducible import check_pinned, is_pinned
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.base import Tagger
from ensemble_deid.taggers.given import Members

# Errors from reading a file with the right hash and the wrong content: the manifest may have been forged.
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model was loaded from, so that another process can load the same one.

    The checksum is that of the manifest: a model trained anew in the same place is another one.
    """

    directory: Path
    device: str | None
    checksum: str
    submodels: tuple[str, ...]
    members: Members = ()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make objects without searching them for garbage again and again: all of a model's stay, and that takes 15%."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_uncollected()
def load_model(
    directory: Path,
    *,
    device: str | None = None,
    trust: str | Path | None = None,
    submodels: Sequence[str] | None = None,
    members: Members = (),
) -> tuple[Ensemble, Manifest]:
    """Read a model directory, which must be signed where keys are trusted (see `read_manifest`).

    With `submodels` only these are loaded, and the final estimator that was fitted for them. Without the `members` that
    it was trained with, a model is loaded, and refuses to predict. Raises ModelError with one
    clear line when anything about the model is wrong, and ConfigError where it has no final estimator for these, and in
    a pinned process (`reproducible.py`) whose libraries did not follow.
    """
    if is_pinned():
        check_pinned()
    manifest, config, names = _chosen(directory, device=device, trust=trust, submodels=submodels)
    scheme = TagScheme(manifest.labels)
    try:
        # The taggers first: parsing them frees memory that the extractor's objects then take.
        taggers: Mapping[str, Tagger] = {
            name: load_submodel(name, directory, scheme=scheme, config=config) for name in names
        }
        added = load_added_patterns(directory, manifest)
        candidates, enforced = (added and added.where(enforced=which) for which in (False, True))
        extractor = _load_feature_extractor(directory, manifest, config, candidates)
        check_proposer(directory, candidates, names)
        stacker = Stacker.load(directory, variant=variant_name(config.submodels, names))
        inclusion = load_inclusion_list(directory, manifest)
    except (ModelError, RuleError) as error:
        named = str(directory) in str(error)
        raise ModelError(str(error) if named else f"{directory}: {error}") from None
    except OSError as error:
        raise ModelError(f"{error.filename or directory}: cannot be read ({error.strerror})") from None
    except _DAMAGE as error:
        raise ModelError(f"{directory}: damaged ({type(error).__name__})") from None
    if stacker.submodels != tuple(taggers):
        raise ModelError(f"{directory}: the stacker was trained for other submodels than the manifest names")
    best = best_members_of(manifest, directory)
    ensemble = Ensemble(
        config,
        scheme,
        extractor,
        taggers,
        stacker,
        inclusion=inclusion,
        enforced=enforced,
        best_members=best,
        manifest=manifest,
        members=members,
    )
    return ensemble, manifest


def model_source(
    directory: Path,
    *,
    device: str | None = None,
    trust: str | Path | None = None,
    submodels: Sequence[str] | None = None,
    members: Members = (),
) -> ModelSource:
    """Return what other processes need to load the same model as `load_model` does, and raise what it raises of that.

    The submodels are not read. Raises ConfigError where the `members` are not those among the submodels.
    """
    manifest, config, names = _chosen(directory, device=device, trust=trust, submodels=submodels)
    _check_members(directory, config, names, dict(members))
    # Absolute, since a process that was started earlier may stand in another folder.
    return ModelSource(directory.absolute(), device, manifest.checksum, names, members)


def _check_members(directory: Path, config: Config, names: Sequence[str], given: Collection[str]) -> None:
    wanted = [name for name in config.members if name in names]
    for name in wanted:
        if name not in given:
            without = [",".join(kept) for kept in config.smaller_stacks if name not in kept]
            other = f", or leave it out: --submodels {without[0]}" if without else ""
            raise ConfigError(
                f"{directory}: the model was trained with the member {name}, whose spans must be given: "
                f"--member {name}=FILE.jsonl or {name}=recognizer:NAME{other}"
            )
    for name in given:
        if name not in wanted:
            raise ConfigError(
                f"{directory}: was not trained with a member {name}; its members: {', '.join(wanted) or 'none'}"
            )


def _chosen(
    directory: Path, *, device: str | None, trust: str | Path | None, submodels: Sequence[str] | None
) -> tuple[Manifest, Config, tuple[str, ...]]:
    """Return a model's manifest, its configuration with the device asked for, and the submodels to load."""
    manifest = read_manifest(directory, trust=trust)
    try:
        config = make_config(manifest.config, place=str(directory / FILE))
    except ConfigError as error:
        raise ModelError(f"damaged: {error}") from None
    if device is not None:
        config = make_config({**manifest.config, "device": device})
    return manifest, config, config.submodels if submodels is None else _subset(submodels, config, directory)


def _subset(wanted: Sequence[str], config: Config, directory: Path) -> tuple[str, ...]:
    """Return the submodels asked for, in order. Raises ConfigError where no final estimator was fitted for them."""
    possible = (config.submodels, *config.smaller_stacks)
    for names in possible:
        if set(names) == set(wanted):
            return names
    known = "; ".join(",".join(names) for names in possible)
    raise ConfigError(f"{directory}: no final estimator was fitted for {','.join(wanted)}; there is one for: {known}")


def _load_feature_extractor(
    directory: Path, manifest: Manifest, config: Config, added: PatternSet | None
) -> FeatureExtractor:
    source = (directory / PATTERNS).read_text(encoding="utf-8")
    # An empty pattern set cannot be written as a pattern file.
    patterns = parse_patterns(source, path=str(directory / PATTERNS), keep=True) if source else NO_PATTERNS
    lexicon = Lexicon.from_json((directory / LEXICON).read_text(encoding="utf-8"))
    bpe = Bpe.from_bytes((directory / BPE).read_bytes()) if config.text.bpe_vocabulary else None
    patterns = relabelled(patterns, manifest.choices).restricted_to(manifest.labels)
    knowledge = None
    if KNOWLEDGE in manifest.files:
        content = strict_json((directory / KNOWLEDGE).read_text(encoding="utf-8"))
        knowledge = reload_knowledge(content, config=config)
    annotate, stem = reload_annotator(manifest.choices, config=config), load_stem(config)
    return FeatureExtractor(
        patterns, lexicon, config.text.split_lines, bpe, annotate=annotate, knowledge=knowledge, stem=stem, added=added
    )


@lru_cache(maxsize=1)
def load_once(source: ModelSource) -> Ensemble:
    """Load a model once in a process, however often it is asked for, and raise what `load_again` raises."""
    return load_again(source)


def load_again(source: ModelSource) -> Ensemble:
    """Load the model that a source stands for. Raises ModelError as `load_model`, and where it was replaced since."""
    ensemble, manifest = load_model(
        source.directory, device=source.device, submodels=source.submodels, members=source.members
    )
    if manifest.checksum != source.checksum:
        raise ModelError(f"{source.directory}: the model was replaced while it was in use")
    return ensemble
