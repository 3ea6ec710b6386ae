"""Other systems, run as they come: their finds in notes, as JSONL that `benchmark` scores.

Each is a package of its own, installed beside this one (`pip install scrubadub`); none takes a model from the network.
Systems that do need one are listed with their command, to be run where there is a network.
"""

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document


class Find(NamedTuple):
    """What a system found: characters, its own label, its own confidence."""

    start: int
    end: int
    label: str
    score: float = 1.0


Finder = Callable[[str], Iterable[Find]]


def _package(name: str, wanted_by: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{wanted_by} needs the package {error.name or name}: pip install {wanted_by}") from None


def presidio() -> Finder:
    """Presidio's patterns, with a blank spaCy pipeline: no model finds names or places."""
    analyzer, nlp = _package("presidio_analyzer", "presidio-analyzer"), _package("spacy", "spacy")
    engine = analyzer.nlp_engine.SpacyNlpEngine(models=[{"lang_code": "en", "model_name": "blank"}])
    engine.nlp = {"en": nlp.blank("en")}
    engine.is_loaded = lambda: True
    analyse = analyzer.AnalyzerEngine(nlp_engine=engine, supported_languages=["en"]).analyze

    def find(text: str) -> Iterable[Find]:
        return [Find(each.start, each.end, each.entity_type, each.score) for each in analyse(text, language="en")]

    return find


def scrubadub() -> Finder:
    """Every detector of scrubadub that needs no model, for the United States."""
    package: ModuleType = _package("scrubadub", "scrubadub")
    scrubber = package.Scrubber(locale="en_US")
    for name in ("DateOfBirthDetector", "PostalCodeDetector", "DriversLicenceDetector", "VehicleLicencePlateDetector"):
        detector = getattr(package.detectors, name)
        if detector.supported_locale("en_US") and detector.name not in scrubber._detectors:
            scrubber.add_detector(detector)

    def find(text: str) -> Iterable[Find]:
        return [Find(each.beg, each.end, each.type.upper()) for each in scrubber.iter_filth(text)]

    return find


def datafog() -> Finder:
    """The regular expressions of DataFog."""
    scan = _package("datafog", "datafog").scan

    def find(text: str) -> Iterable[Find]:
        return [Find(each.start, each.end, each.type, each.confidence) for each in scan(text, engine="regex").entities]

    return find


def commonregex() -> Finder:
    """The expressions of CommonRegex that are about persons; prices, colours and times are not."""
    package = _package("commonregex", "commonregex")
    names = ("date", "phone", "email", "link", "ip", "ipv6", "street_address", "credit_card")

    def find(text: str) -> Iterable[Find]:
        return [
            Find(match.start(), match.end(), name.upper())
            for name in names
            for match in getattr(package, name).finditer(text)
            if match.group()
        ]

    return find


def philter() -> Finder:
    """The filters of philter-lite as they come; one of them needs NLTK's tagger from the network."""
    package = _package("philter_lite", "philter-lite")
    filters = package.load_filters(importlib.resources.files(package) / "configs" / "philter_delta.toml")

    def find(text: str) -> Iterable[Find]:
        includes, _, _ = package.detect_phi(text, filters)
        return [Find(start, end, "PHI") for start, end in includes.filecoords()]

    return find


SYSTEMS: dict[str, Callable[[], Finder]] = {
    each.__name__: each for each in (presidio, scrubadub, datafog, commonregex, philter)
}
ELSEWHERE = {
    "openai-privacy-filter": "a model from Hugging Face: transformers, pipeline('token-classification')",
    "openmed": "models from Hugging Face: transformers, pipeline('token-classification')",
    "gliner": "pip install gliner; GLiNER.from_pretrained takes the model from Hugging Face",
    "shield": "its model from Hugging Face: transformers, pipeline('token-classification')",
    "llm": "a prompt that asks for each identifier as JSON, offsets found by search in the note",
}
"""Systems that need a network: how their finds come to be; write one JSON line a note (id, spans) and score it."""


def run_system(name: str, notes: Sequence[Document]) -> str:
    """Return a line of JSON for each note: its id and what the system found. Raises ConfigError."""
    if name in ELSEWHERE:
        raise ConfigError(f"{name} needs a network, and is not run here: {ELSEWHERE[name]}")
    if name not in SYSTEMS:
        raise ConfigError(f"no system is called {name!r}; there are {', '.join(SYSTEMS)}")
    find = SYSTEMS[name]()
    return "".join(
        json.dumps({"id": note.id, "spans": [each._asdict() for each in sorted(set(find(note.text)))]}) + "\n"
        for note in notes
    )
