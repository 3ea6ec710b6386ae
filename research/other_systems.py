"""Other systems, run as they come: their finds in notes, as JSONL that `benchmark` scores.

Each is a package of its own, installed beside this one (`pip install scrubadub`). Those of `SYSTEMS` download no model;
the others do, and need a network.
"""

import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from ensemble_deid.errors import ConfigError, CorpusError
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


def hugging_face(model: str) -> Finder:
    """A token classifier from the Hugging Face hub or a folder; it reads long notes in overlapping windows.

    All that a window finds is kept. The pipeline would keep the longest of finds that overlap, and forget the words
    that only a shorter one covers.
    """
    classify = _package("transformers", "transformers").pipeline(
        "token-classification", model=model, aggregation_strategy="simple"
    )
    longest = min(classify.tokenizer.model_max_length, getattr(classify.model.config, "max_position_embeddings", 512))
    classify.tokenizer.model_max_length = longest
    classify.aggregate_overlapping_entities = lambda found: found

    def find(text: str) -> Iterable[Find]:
        found = classify(text, stride=longest // 4) if text.strip() else ()
        return [Find(each["start"], each["end"], each["entity_group"], float(each["score"])) for each in found]

    return find


def gliner(model: str = "urchade/gliner_multi_pii-v1") -> Finder:
    """GLiNER, asked for the kinds of PHI; it reads at most 384 words."""
    predict = _package("gliner", "gliner").GLiNER.from_pretrained(model).predict_entities

    def find(text: str) -> Iterable[Find]:
        return [
            Find(first + each["start"], first + each["end"], each["label"].upper(), each["score"])
            for first, piece in windows(text)
            for each in predict(piece, list(KINDS), threshold=0.1)
        ]

    return find


def windows(text: str, *, words: int = 200, step: int = 150) -> Iterator[tuple[int, str]]:
    """Yield overlapping pieces of a text with their places."""
    places = [match.span() for match in re.finditer(r"\S+", text)]
    for first in range(0, max(1, len(places) - (words - step)), step):
        if piece := places[first : first + words]:
            yield piece[0][0], text[piece[0][0] : piece[-1][1]]


def llm(place: str) -> Finder:
    """A language model behind an interface like OpenAI's: `MODEL@https://host/v1`; OPENAI_API_KEY is sent if set.

    It returns strings, not places: each is found wherever it occurs as whole words. An answer that is not the
    JSON asked for raises CorpusError.
    """
    model, _, address = place.partition("@")
    if not model or urlsplit(address).scheme not in ("http", "https"):
        raise ConfigError("a language model is called llm:MODEL@https://host/v1")
    headers = {"content-type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["authorization"] = f"Bearer {key}"

    def find(text: str) -> Iterable[Find]:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]
        body = json.dumps({"model": model, "temperature": 0, "messages": messages}).encode()
        request = Request(f"{address.rstrip('/')}/chat/completions", body, headers)
        with urlopen(request, timeout=600) as answer:
            said = json.load(answer)["choices"][0]["message"]["content"]
        return _finds_named(said, text)

    return find


def _finds_named(said: str, text: str) -> list[Find]:
    try:
        named = {(str(each["text"]), str(each["label"])) for each in json.loads(said.strip("`\n json"))}
    except (ValueError, LookupError, TypeError):
        raise CorpusError("the language model did not answer with the JSON that it was asked for") from None
    return [
        Find(*match.span(), label)
        for string, label in named
        if string.strip()
        for match in re.finditer(rf"(?<!\w){re.escape(string)}(?!\w)", text)
    ]


KINDS = (
    *("person", "date", "age", "hospital", "organization", "street address", "city", "state", "country", "zip code"),
    *("phone number", "fax number", "email", "url", "ip address", "username", "social security number"),
    *("medical record number", "health insurance id", "account number", "license number", "device id", "profession"),
)
PROMPT = (
    "You find protected health information (HIPAA identifiers of patients, relatives and staff) in clinical notes. "
    f"Answer with a JSON list only, of objects with `text`, copied exactly, and `label`, one of: {', '.join(KINDS)}."
)
SYSTEMS: dict[str, Callable[[], Finder]] = {
    each.__name__: each for each in (presidio, scrubadub, datafog, commonregex, philter)
}
ELSEWHERE: dict[str, Callable[[], Finder]] = {
    "openai-privacy-filter": partial(hugging_face, "openai/privacy-filter"),
    "openmed": partial(hugging_face, "OpenMed/OpenMed-PII-SuperClinical-Large-434M-v1"),
    "gliner": gliner,
}
"""Systems that download a model."""
BY_PREFIX: dict[str, Callable[[str], Finder]] = {"hf": hugging_face, "llm": llm}
"""`hf:NAME` is any token classifier, such as SHIELD's; `llm:MODEL@URL` sends the notes to URL."""


def finder_named(name: str) -> Finder:
    """Return a system. Raises ConfigError for one that is not there, or not installed."""
    prefix, colon, rest = name.partition(":")
    if colon and prefix in BY_PREFIX:
        return BY_PREFIX[prefix](rest)
    if name not in (everything := {**SYSTEMS, **ELSEWHERE}):
        raise ConfigError(f"no system is called {name!r}; there are {', '.join(everything)}, hf:NAME, llm:MODEL@URL")
    return everything[name]()


def run_system(name: str, notes: Sequence[Document]) -> str:
    """Return a line of JSON for each note: its id and what the system found. Raises ConfigError."""
    find = finder_named(name)
    return "".join(
        json.dumps({"id": note.id, "spans": [each._asdict() for each in sorted(set(find(note.text)))]}) + "\n"
        for note in notes
    )
