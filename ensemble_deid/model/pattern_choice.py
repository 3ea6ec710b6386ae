"""Which pattern set a corpus gets, by its language and its labels, and why: said before training, kept in the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError, RuleError
from ensemble_deid.features.patterns import PatternSet, read_patterns
from ensemble_deid.note.document import Document
from ensemble_deid.note.label_map import LabelMap, load_label_map
from ensemble_deid.note.language import NAMES, guess_language
from ensemble_deid.resources import rules_directory

NO_PATTERNS = PatternSet("none", (), "")
_AUTO, _NONE = "auto", "none"


@dataclass(frozen=True, slots=True)
class PatternChoice:
    """The patterns for a corpus, with its own labels.

    `language` is that of the configuration, or for `auto` the one found ("" where it could not be told). `labels` maps
    the patterns' own labels to the corpus's; `missing` are the corpus's labels that no pattern finds. `reason` is one
    sentence without a full stop.
    """

    patterns: PatternSet = field(repr=False)
    language: str
    labels: Mapping[str, str]
    missing: tuple[str, ...]
    reason: str

    @property
    def notice(self) -> str:
        if not self.patterns.patterns:
            return f"patterns: none are used: {self.reason}"
        found = len(self.patterns.labels)
        text = f"patterns: {self.patterns.name} finds {found} of {found + len(self.missing)} labels"
        text += f", and nothing for {', '.join(self.missing)}" if self.missing else ""
        return f"{text}; {self.reason}"

    def to_record(self) -> dict[str, Any]:
        return {
            "set": self.patterns.name,
            "patterns": len(self.patterns.patterns),
            "language": self.language,
            "labels": dict(sorted(self.labels.items())),
            "labels_without_patterns": list(self.missing),
            "reason": self.reason,
        }


def choose_patterns(config: Config, labels: Sequence[str], documents: Sequence[Document]) -> PatternChoice:
    """Choose the pattern set for a corpus with these labels.

    A set that the configuration names is taken; otherwise, of the sets for the language, the one that covers most of
    the labels (the first by name in a tie). Where the language is to be told from the notes and cannot be, the sets of
    all languages are tried. Raises RuleError for a set that there is not, ConfigError for a label map that does not
    fit or a set that is for another language than the configured one.
    """
    options = config.regex
    guess = guess_language(documents)
    language = (guess.language or "") if options.language == _AUTO else options.language
    told = str(guess) if options.language == _AUTO else f"the configured language is {language}"
    if options.patterns == _NONE or language == _NONE:
        reason = "the configuration asks for none"
        return PatternChoice(NO_PATTERNS, language, {}, tuple(sorted(labels)), reason)
    label_map = load_label_map(options.map) if options.map else None
    if options.patterns != _AUTO:
        of_set = _language_of(options.patterns)
        if of_set in {_language_of(file.stem) for file in _set_files()} and options.language not in (_AUTO, of_set):
            raise ConfigError(
                f"regex.patterns is {options.patterns}, which is not for regex.language {options.language}"
            )
        sets = [_named_set(options.patterns)]
        told = f"the configuration names this set, and {told}"
    else:
        sets = [read_patterns(file) for file in _set_files() if not language or _language_of(file.stem) == language]
        if not sets:
            known = " or ".join(sorted({_language_of(file.stem) for file in _set_files()}))
            reason = f"{told}, and there is no pattern set for {NAMES[language]}; --language {known} takes those for it"
            return PatternChoice(NO_PATTERNS, language, {}, tuple(sorted(labels)), reason)
    fitted = [_fit(patterns, labels, label_map) for patterns in sets]
    patterns, mapping = max(fitted, key=lambda found: len(found[0].labels))
    missing = tuple(sorted(set(labels) - patterns.labels))
    if not patterns.patterns:
        names = " and ".join(patterns.name for patterns in sets)
        told += (
            f"; {names} knows none of the corpus's labels ({', '.join(missing)}): a label map (--label-map FILE.toml, "
            'with a line such as PATIENT = "own label" for each of the patterns\' labels) would keep the patterns'
        )
        patterns = NO_PATTERNS
    return PatternChoice(patterns, language, mapping, missing, told)


def relabelled(patterns: PatternSet, choices: Mapping[str, Any]) -> PatternSet:
    """Return a set with the labels that training gave its patterns, by the `choices` of the model's manifest.

    Raises LookupError, TypeError or AttributeError where these are damaged.
    """
    labels = choices["patterns"]["labels"]
    if not all(isinstance(label, str) for label in labels.values()):
        raise TypeError("a label of a pattern is not text")
    return patterns.relabelled(labels.get)


def _fit(
    patterns: PatternSet, labels: Sequence[str], label_map: LabelMap | None
) -> tuple[PatternSet, Mapping[str, str]]:
    """Return the patterns that find one of the labels, under these labels, and patterns' label -> corpus's label."""
    translated = _translate(patterns, label_map)
    mapping = {label: new for label, new in translated.items() if new is not None and new in labels}
    return patterns.relabelled(mapping.get), mapping


def _translate(patterns: PatternSet, label_map: LabelMap | None) -> dict[str, str | None]:
    """Translate all labels of a set, without a map to themselves.

    Raises ConfigError that names every label which the map does not list.
    """
    if label_map is None:
        return {label: label for label in sorted(patterns.labels)}
    found: dict[str, str | None] = {}
    unlisted = []
    for label in sorted(patterns.labels):
        try:
            found[label] = label_map.new_label(label)
        except ConfigError:
            unlisted.append(label)
    if unlisted:
        raise ConfigError(
            f"{label_map.name}: these labels of the patterns in {patterns.name} are not listed: {', '.join(unlisted)}; "
            "the map translates the patterns' labels (left) to the corpus's (right). List them, or set unlisted"
        )
    return found


def _named_set(name: str) -> PatternSet:
    if Path(name).suffix == ".toml":
        patterns = read_patterns(Path(name))
        if patterns.where(enforced=True) is not None:
            raise RuleError(f"{name}: 'enforce' is for patterns that are added to a trained model")
        return patterns
    for file in _set_files():
        if file.stem == name:
            return read_patterns(file)
    known = ", ".join(file.stem for file in _set_files())
    raise RuleError(f"there is no pattern set {name!r}; there are: {known}, or a .toml file")


def _set_files() -> list[Path]:
    return sorted((rules_directory() / "patterns").glob("*.toml"))


def _language_of(name: str) -> str:
    """Return the language of a set by its name: `en-i2b2` is for English."""
    return name.partition("-")[0]
