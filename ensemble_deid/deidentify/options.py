"""What a run is asked for, as one frozen object that every door hands on unchanged."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from ensemble_deid.deidentify.gate import LEAST_RECALL, check_least_recall
from ensemble_deid.deidentify.known.identifiers import Identifier
from ensemble_deid.deidentify.known.site_lists import ListFiles, SiteLists
from ensemble_deid.deidentify.recognizers import Finder, Recognizer
from ensemble_deid.deidentify.repeats import PatientStrings
from ensemble_deid.deidentify.replacement import Key, Replacer
from ensemble_deid.deidentify.replacement.styles import StyleFunction
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.options import AS_TRAINED, PredictionChoices, PredictionOptions


class RunChoices(PredictionChoices, total=False):
    """The arguments of `RunOptions.choose`, as keyword arguments of the functions that take them, too."""

    style: str | StyleFunction | None
    styles: Mapping[str, str | StyleFunction] | None
    policy: str | Path | None
    settings: Mapping[str, bool | float] | None
    key: Key | str | Path | None
    scope: str
    replacer: Replacer | None
    rename: Mapping[str, str] | None
    lists: SiteLists | ListFiles | None
    recognizers: Sequence[Recognizer | Finder | str]
    spans_from: Sequence[str | Path]
    accept_unfit: bool
    least_recall: float


def files_of(choices: RunChoices) -> tuple[Path, ...]:
    """Return the files that choices name: a key, a policy, lists, spans."""
    named: list[object] = [choices.get("key"), choices.get("policy")]
    lists = choices.get("lists")
    for given in choices.get("spans_from", ()):
        named += [given, str(given).rpartition("@")[0]]
    places = [Path(place) for place in named if isinstance(place, str | Path) and _is_file(place)]
    if isinstance(lists, ListFiles):
        places += [place for place in (lists.known, lists.allow, lists.deny) if place is not None]
    return tuple(places)


def _is_file(place: str | Path) -> bool:
    try:
        return Path(place).is_file()
    except OSError:
        # Too long for a name: it may be keys, which the error would quote.
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How notes are predicted, what takes the place of PHI, and what the site knows besides the model.

    `recognizers` are those of others, whose spans are joined with the model's and the lists'. `files` are those that
    the options were read from, which no output may overwrite. With `accept_unfit` notes pass that the gate would
    withhold (`gate.py`); `least_recall` is what a model must have been measured with.

    >>> from ensemble_deid import Deidentifier, RunOptions
    >>> model = Deidentifier.load("model")
    >>> options = RunOptions.choose(model.labels, style="mask", threshold=0.5)
    >>> model.deidentify("Date: 03/04/2019", options=options).text
    'Date: XXXXXXXXXX'
    """

    prediction: PredictionOptions = AS_TRAINED
    replacer: Replacer = field(default_factory=Replacer.from_options)
    lists: SiteLists = field(default_factory=SiteLists)
    recognizers: tuple[Recognizer, ...] = ()
    files: tuple[Path, ...] = ()
    accept_unfit: bool = False
    least_recall: float = LEAST_RECALL

    def __post_init__(self) -> None:
        check_least_recall(self.least_recall)

    def no_strings(self) -> PatientStrings:
        """Return the strings of patients of whom nothing is known yet."""
        styles = self.replacer.styles
        return PatientStrings(styles.hides, styles.settings.min_score)

    def add_known(self, patient: str, identifiers: Iterable[Identifier]) -> None:
        known = self.lists.known
        if known is not None:
            for identifier in identifiers:
                known.add(patient, identifier)

    def known_of(self, patient: str) -> Sequence[Identifier]:
        return () if self.lists.known is None else self.lists.known.of(patient)

    @classmethod
    def choose(
        cls,
        labels: Collection[str],
        *,
        style: str | StyleFunction | None = None,
        styles: Mapping[str, str | StyleFunction] | None = None,
        policy: str | Path | None = None,
        settings: Mapping[str, bool | float] | None = None,
        key: Key | str | Path | None = None,
        scope: str = "",
        replacer: Replacer | None = None,
        rename: Mapping[str, str] | None = None,
        lists: SiteLists | ListFiles | None = None,
        recognizers: Sequence[Recognizer | Finder | str] = (),
        spans_from: Sequence[str | Path] = (),
        accept_unfit: bool = False,
        least_recall: float = LEAST_RECALL,
        **prediction: Unpack[PredictionChoices],
    ) -> "RunOptions":
        """Return the options for a model with these labels.

        `style` is `tag` (the default), `numbered`, `mask`, `remove`, `hash`, `surrogate`, `text:WORDS`, an installed
        operator's name, or a callable from string and label to what takes its place; `styles` has those of single
        labels, `policy` names a policy or its file, `settings` are those of surrogates (docs/styles-and-surrogates.md),
        and `rename` has labels' names in the output. Surrogates and hashes depend on `key` (a `Key`, a key file, else
        the one in ENSEMBLE_DEID_KEY, else a new one) and on `scope`. A `replacer` says all of this at once. `lists`
        are what the site knows, or the files of it; `recognizers` (as in `Recognizer.of`) and files `spans_from`
        (`Recognizer.from_file`) are what others find; `accept_unfit` and `least_recall` as above. The others are those
        of `PredictionOptions`. Raises ConfigError for an unknown style, label or policy and a bad key, CorpusError for
        a bad list.
        """
        if isinstance(recognizers, str) or isinstance(spans_from, str | Path):
            raise ConfigError("recognizers and spans_from are lists, also of one")
        given = {"style": style, "styles": styles, "policy": policy, "settings": settings, "key": key, "rename": rename}
        files = files_of({"key": key, "policy": policy, "lists": lists, "spans_from": spans_from})
        lists = lists.read(labels) if isinstance(lists, ListFiles) else lists or SiteLists()
        others = (*map(Recognizer.of, recognizers), *map(Recognizer.from_file, spans_from))
        named = [name for name, value in {**given, "scope": scope or None}.items() if value is not None]
        if replacer is None:
            found = key if isinstance(key, Key) else Key.find(key)
            every = lists.labels.union(labels, *(recognizer.labels for recognizer in others))
            replacer = Replacer.from_options(
                style, styles, policy, found, scope, settings=settings, rename=rename, labels=every
            )
        elif named:
            raise ConfigError(f"give a replacer or {', '.join(named)}, not both")
        return cls(
            prediction=PredictionOptions(**prediction),
            replacer=replacer,
            lists=lists,
            recognizers=others,
            files=files,
            accept_unfit=accept_unfit,
            least_recall=least_recall,
        )

    @classmethod
    def check(cls, choices: RunChoices) -> None:
        """Raise ConfigError for choices that are wrong for any labels, before a model is loaded."""
        from ensemble_deid.stacking.stacker import check_threshold

        given: dict[str, Any] = dict(choices)
        PredictionOptions(**{name: given[name] for name in PredictionChoices.__annotations__ if name in given})
        check_threshold(given.get("threshold"))
        named = {name: given[name] for name in ("style", "styles", "policy", "settings", "rename") if name in given}
        Replacer.from_options(**named)
        if not isinstance(given.get("key"), Key):
            Key.find(given.get("key"))

    def names(self, labels: Collection[str]) -> frozenset[str]:
        """Return what spans are called in the output, after renaming: `labels`, and those of lists and recognizers."""
        others = (recognizer.labels for recognizer in self.recognizers)
        return frozenset(map(self.replacer.styles.name, self.lists.labels.union(labels, *others)))

    @classmethod
    def given(cls, options: "RunOptions | None", choices: RunChoices, labels: Collection[str]) -> "RunOptions":
        """Return the options, or those that the choices make. Raises ConfigError where both are given."""
        if options is None:
            return cls.choose(labels, **choices)
        if choices:
            raise ConfigError(f"give options or {', '.join(choices)}, not both")
        return options
