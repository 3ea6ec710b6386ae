"""Whether a note may go out: only if the model could read it, and its recall was measured.

A model finds little in another language or in text unlike any that it knows, and says nothing of it. Such a note is
withheld with the reason; `accept_unfit` passes and counts it. The decision depends on the note and the model alone. The
thresholds were set on demo train and dev (benchmarks/gate.py, docs/security.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from ensemble_deid.errors import ConfigError
from ensemble_deid.model.ensemble import ModelDescription
from ensemble_deid.model.measured import Measured, languages_of_training, measured_at
from ensemble_deid.model.options import SVM, PredictionOptions
from ensemble_deid.note.language import NAMES, EnglishWords, OtherLanguage, english_words, other_language
from ensemble_deid.note.reading import read

LEAST_RECALL = 0.8
"""The least recall of PHI tokens that a model must have been measured with, unless another one is asked for.

A model that misses more than one token in five leaves something in most notes. Models of a hundred notes or more reach
it with all usual submodels; `en` has 0.91 out of fold.
"""
WITHHELD, ACCEPTED = "withheld by the gate", "passed on by accept_unfit"
CHANGED = "passed by a recall that was measured before the model was changed"
MODEL, LANGUAGE, TEXT = "model not measured", "other language", "unlike known text"
"""Parts of the names of counts: what was done, and why."""

# Different function words of another language, where it has more than the own: none in any note of demo dev.
_LEAST_DISTINCT = 2
# Shares of words on no list. In demo dev: 33% at most, of small words 39%, of long ones 31%; of letters by lot 98%.
_MOST_LACKING, _MOST_SMALL_LACKING, _LEAST_LACKING = 0.4, 0.5, 2
_MANY_LACKING, _LEAST_LONG, _MOST_LONG_LACKING = 6, 3, 0.67
# Listed words for each that English lacks, in a text with hardly a number.
_FEW_LISTED, _FEW_DIGITS = 0.5, 0.1
# Listed words that make a note English, for a model of another language.
_LEAST_WORDS, _ENGLISH = 3, 0.4
# The least share of letters and digits in a note: 85% in demo dev, 68% in train.
_LEAST_ALPHANUMERIC, _LEAST_CHARACTERS = 0.4, 40
# Of the letters, those that are not Latin: words of Greek or Cyrillic in an English note are far fewer.
_OTHER_SCRIPT = 0.5
_REPEATED = regex.compile(r"([^\w\s])\1+")
_NO_WORDS = regex.compile(r"[\s\p{Z}\p{P}$+<=>^`|~]*+")
_LATIN = regex.compile(r"\p{Latin}")


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why something does not pass: `kind` is what is counted, `reason` is for people and quotes nothing."""

    kind: str
    reason: str

    def counted(self, *, accepted: bool) -> str:
        return f"{ACCEPTED if accepted else WITHHELD}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides whether a model, as it is used, can be trusted with a note. `model` is why not with any, else None.

    `changed`: its rules, patterns or inclusion list are not, or may not be, those with which the recall was measured.
    """

    languages: Sequence[str]
    model: Unfit | None
    changed: bool = False

    @classmethod
    def of(cls, description: ModelDescription, options: PredictionOptions, *, least_recall: float) -> "Gate":
        languages = () if description.manifest is None else languages_of_training(description.manifest)
        measured = _measured(description, options)
        changed = measured is not None and len(measured.changes) > 0
        return cls(languages, _unfit_model(measured, least_recall, languages), changed)

    def check(self, text: str) -> Unfit | None:
        """Return why a note does not pass, None where it does; a note of blanks and punctuation passes."""
        # As it is written: in a reading in usual case, words that no list has would look like names.
        reading = read(text, usual_case=False)
        if not reading.unread and _NO_WORDS.fullmatch(reading.text):
            return None
        if self.model is not None:
            return self.model
        if reading.unread:
            return Unfit(TEXT, f"{reading.unread} characters look encoded and could not be read")
        return _unlike_text(reading.text) or _in_other_language(reading.text, self.languages)


def check_least_recall(value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"least_recall must be between 0 and 1, not {value}")


def _measured(description: ModelDescription, options: PredictionOptions) -> Measured | None:
    if description.manifest is None or options.submodel is not None or options.combiner != SVM:
        return None
    threshold = description.threshold if options.threshold is None else options.threshold
    return measured_at(description.manifest, threshold, submodels=description.submodels)


def _unfit_model(measured: Measured | None, least: float, languages: Sequence[str]) -> Unfit | None:
    if measured is None or measured.recall is None:
        return Unfit(MODEL, "the model's recall was never measured as it is used here")
    if measured.recall < least:
        found = f"the model found {100 * measured.recall:.1f}% of the PHI tokens in {measured.notes}"
        return Unfit(MODEL, f"{found}, and {100 * least:.1f}% is the least")
    if not languages:
        return Unfit(MODEL, "the model has no record of the language that it was trained for")
    return None


def _unlike_text(text: str) -> Unfit | None:
    solid = "".join(_REPEATED.sub(r"\1", text).split())
    alphanumeric = sum(map(str.isalnum, solid))
    if len(solid) >= _LEAST_CHARACTERS and alphanumeric < _LEAST_ALPHANUMERIC * len(solid):
        share = 100 * (1 - alphanumeric / len(solid))
        return Unfit(TEXT, f"{share:.0f}% of the characters are neither letters nor digits")
    return None


def _in_other_language(text: str, languages: Sequence[str]) -> Unfit | None:
    trained = " and ".join(NAMES[language] for language in languages)
    letters = sum(map(str.isalpha, text))
    if not text.isascii() and letters - len(_LATIN.findall(text)) > _OTHER_SCRIPT * letters:
        return Unfit(LANGUAGE, f"the note is in another script than that of {trained}, which the model was trained on")
    other, english = other_language(text, languages), english_words(text)
    lacking = english.lacking >= max(_LEAST_LACKING, _MOST_LACKING * english.words)
    looks = other.distinct >= _LEAST_DISTINCT and other.words > other.own
    if "en" not in languages:
        looks |= other.distinct > 0 and not other.own and english.words >= _LEAST_WORDS
        if english.listed >= max(_LEAST_WORDS, _ENGLISH * english.words):
            return Unfit(LANGUAGE, f"the note looks English, and the model was trained on {trained}")
    elif len(languages) == 1 and lacking and not other.own:
        looks |= other.distinct > 0
    if looks:
        return Unfit(LANGUAGE, f"the note looks {NAMES[other.language]}, and the model was trained on {trained}")
    few = not other.own and english.small_lacking > 0 and english.listed <= _FEW_LISTED * english.lacking
    few &= sum(map(str.isdecimal, text)) <= _FEW_DIGITS * letters
    if tuple(languages) == ("en",) and lacking and (few or _is_not_english(english, other)):
        share = 100 * english.lacking / english.words
        return Unfit(TEXT, f"{share:.0f}% of the words are on no list of English words or names")
    return None


def _is_not_english(english: EnglishWords, other: OtherLanguage) -> bool:
    """Tell whether most small words are unknown: many, or fewer in a text with accents and no function words."""
    if not other.own and english.long_lacking >= max(_LEAST_LONG, _MOST_LONG_LACKING * english.long):
        return True
    many = english.lacking >= _MANY_LACKING or (english.accented > 0 and not other.own)
    return many and english.small_lacking >= max(1, _MOST_SMALL_LACKING * english.small)
