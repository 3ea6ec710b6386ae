"""Which language a text is written in, told by function words and frequent words of notes; no library is needed.

Texts are compared language by language, on the words that one has and the other lacks. Left out are words that English
notes have as abbreviations or in names (`od`, `de la Cruz`, `van der Berg`).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from ensemble_deid.note.document import Document
from ensemble_deid.note.layout import in_capitals
from ensemble_deid.word_tables import is_listed

NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{"ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "en": "English", "es": "Spanish"},
        **{"fi": "Finnish", "fr": "French", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "nb": "Norwegian"},
        **{"nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "sv": "Swedish", "tl": "Tagalog"},
        "tr": "Turkish",
    }
)
_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "ca": "a al amb dels pel pels als són què això aquest aquesta però molt també només quan fins després abans "
        "està estan havia fou seu seva els les una uns unes pacient anys dies cap perquè metge que per el no es en i "
        "un va ser més hospital visita dolor té és ha",
        "cs": "jsou byl byla bylo není nebo jako která které pacient pacientka bez při dle před také však ale již "
        "že léčba bolest bolesti nemocnice vyšetření stav dnes její",
        "da": "og det på med ikke blev hun kan skal efter ved uden eller også ingen patienten siden fra mod meget mere "
        "dage år smerter indlagt hvor når været blevet bliver hendes er til af at for i en et har var",
        "de": "das dem oder vom bei beim zum zur ist sind wurde wurden wird werden nicht kein keine keiner keinen "
        "keinem ein eine einer eines einen einem für auf aus nach seit wegen ohne durch über unter zwischen gegen sich "
        "auch noch nur sowie wie dass haben hatte soll wir ihr ihre ihrer ihren sein seine seiner seinen sehr wieder "
        "bereits aktuell zuletzt rechts beidseits anhalt befund beschwerden schmerzen verdacht aufnahme entlassung "
        "behandlung jahre jahren tage tagen wochen täglich anamnese unauffällig patientin und mit die der den des von "
        "im zu in an am was war hat als so herr herrn frau bitte bekannt derzeit weiterhin erneut deutlich leicht "
        "guter gutem guten links linke linken rechte rechten therapie untersuchung kontrolle hausarzt blutdruck "
        "zustand verlauf ambulant stationär morgens abends klinik herz lunge weich regelmäßig diagnosen medikamente",
        "en": "the of and to in with was on for a is at by he she his her had has have no not be are that from this an "
        "were as or but will been if when which who than then they them there their patient history pain day days left "
        "right denies reports normal due because about after before into per all any also can may would should could "
        "did do does you your we our my it its up out over until without within during both each more most other some "
        "such only very since seen given take takes taken follow today year years old blood test results please call "
        "home care well",
        "es": "por para una unos unas sus son fue fueron han habían más pero sobre entre desde hasta cuando donde muy "
        "también esta estos estas está están tras según cada presenta refiere acude paciente años meses año izquierdo "
        "izquierda derecho derecha tratamiento exploración antecedentes ingreso urgencias mujer varón realiza inicia "
        "evolución ante durante mediante además como dolor días día antes no a me la el de en y con que un se al sin "
        "niega fiebre mañana noche tarde buen estado herida blando hija hijo señora señor "
        "médico consulta este era bien examen había después horas diagnóstico realizó presentó unidad semanas mes tipo "
        "fecha nombre domicilio muestra motivo informe",
        "fi": "oli että joka mutta myös kuin hän sen vuotta potilas potilaan kipu kipua kipuja ilman jälkeen ennen "
        "sekä sitten vielä nyt noin hyvin hoito hoidon tutkimus sairaala päivää tänään olla ovat eivät hänen siitä ei",
        "fr": "les une aux est sont était étaient été être pour dans avec sans sous chez elle elles ils nous vous qui "
        "quoi dont où cette leur leurs mais donc aussi très bien depuis après avant entre vers lors afin aucun aucune "
        "tout toute tous comme douleur douleurs patiente jours mois gauche droite traitement antécédents sortie examen "
        "médecin madame monsieur présente selon ainsi soir matin à des du un on le la de et en pas son sa par sur que "
        "plus ne se ce il je au normal semaines retour état sang fille bon bonne présents",
        "hu": "és egy nem volt hogy azt ez már még vagy illetve nincs beteg fájdalom után előtt alatt miatt mellett "
        "során években éves napon kezelés vizsgálat kórház orvos lett voltak két a az is",
        "id": "yang dari untuk dengan tidak pada adalah atau juga oleh sudah akan telah dalam pasien nyeri sakit tahun "
        "tanpa riwayat saat setelah sebelum karena bisa saya kami keluhan obat rumah dan ini itu",
        "it": "gli una uno che per dal dalla dalle del della dei delle dello degli alla alle allo agli nella nei nelle "
        "sul sulla è era erano hanno stato stata stati anche più molto quando senza dopo prima durante fino tra fra "
        "suoi questo questa paziente dolore dolori anni giorni giorno mesi sinistra sinistro destro destra esame "
        "ricovero dimissione medico nega riferisce mattina in la di il a con non un al si ha sono no i me le e due",
        "nb": "og det på med ikke ble hun kan skal etter ved uten eller også ingen pasienten siden fra mot mye mer "
        "dager år smerter innlagt hvor når vært blitt blir hennes er til av at for i en et har var",
        "nl": "een voor bij naar uit aan door onder sinds zonder tegen tussen zijn werd werden wordt worden heeft "
        "hebben kan niet geen ook nog maar deze zeer geworden sprake patiënt patiënte pijn klachten jaar dagen opname "
        "ontslag behandeling onderzoek voorgeschiedenis beide goed was is of had in we over de het en van op te om",
        "pl": "nie jest się oraz lub bez przed była było są który która które pacjent pacjentka bóle bólu ból leczenia "
        "leczenie badanie szpital szpitala stan został została przyjęty przyjęta także obecnie",
        "pt": "uma nas aos à às por pelo pela com sob entre não mais muito também já foi são está estava tem teve seus "
        "suas ele ela como quando onde desde até após antes durante há esta dores doente paciente anos dias meses "
        "esquerda esquerdo direita direito tratamento internamento internado consulta apresenta refere exame médico a "
        "as no me do de o e que um em para se sem sua seu os dor",
        "ro": "și din în este sunt fost sau pentru fără după până prin ale pacientul pacienta dureri durere zile "
        "stânga dreapta tratament examen prezintă cazul această fiind către între pe care o a la de",
        "sv": "och det på med av är inte blev hon kan ska efter vid utan eller också ingen inga patienten sedan från "
        "mot mycket mer dagar år smärta smärtor värk inskriven där när varit blivit hennes för som har var en i till",
        "tl": "ang mga hindi ako niya kung para din naman wala pero dahil kasi nang pasyente masakit sakit araw taon "
        "ngayon siya sa at na ng may",
        "tr": "ve bir bu için olan olarak değil yok hasta hastanın daha sonra önce gibi çok ise kadar ağrı ağrısı "
        "yaşında tedavi hastane gün yıl edildi oldu vardı ile",
    }.items()
}
# Parts of names, and words and abbreviations of English notes: they do not show that a text is in another language.
_NO_EVIDENCE = frozenset(
    "a af ai al ale all als am ama amb ami an ani ans ao are as at au av az bal bis cap car ce chi ci com come con cu "
    "da dan dat data de del den der des det di die dies do dont door dos du due e ed ei el em en er es est este et "
    "ett ez fei fino fra gli ha ham han hari hat hay hem her herz het hi his hon hospital i ii il ile im in inga is "
    "ist ito ja klinik la lang las lat le les links lo los lung ma mai mas me med meer met mi mint mit mod na ne nebo "
    "nella ng ni nie no non normal nu o od of og ole om on op os ou over par para pas pe per plus po pod por pro quan "
    "rin sa sang se sem ser sera ses si sin siya so sob sol som son sono su sue sun sur te ten ter test til till to "
    "tot tra um un una uno use va van var ve ved vi visita vom von w war was wel y ya z za".split()
)
# Words of English that others write alike, so that they do not show that a text is English.
_COGNATES = frozenset("a he hospital in me no normal patient test".split())
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS, _LEAST_DISTINCT, _LEAST_SHARE, _LEAST_RATIO = 50, 8, 0.05, 1.2
_LEAST_LETTERS, _LONG = 3, 6
_OF_TRAINING = 0.05


@dataclass(frozen=True, slots=True)
class LanguageGuess:
    """The language of some notes, None where it cannot be told, and each language's share of function words."""

    language: str | None
    shares: Mapping[str, float]

    def __str__(self) -> str:
        first, second = sorted(self.shares, key=lambda name: (-self.shares[name], name))[:2]
        shares = ", ".join(f"{NAMES[name]} {100 * self.shares[name]:.1f}%" for name in (first, second))
        if self.language is None:
            return f"the language of the notes could not be told (function words: {shares})"
        return f"the notes look {NAMES[self.language]} (function words: {shares})"


def guess_language(documents: Iterable[Document]) -> LanguageGuess:
    """Tell the language of all notes together; the guess is None where it is not clear.

    It is clear when the notes have at least fifty words, one in twenty is a listed word of the language, at least eight
    different ones occur, and no other language has nearly as many.
    """
    words = Counter(word for document in documents for word in _words(document.text))
    total = words.total()
    shares = {
        language: sum(words[word] for word in sorted(listed)) / total if total else 0.0
        for language, listed in _WORDS.items()
    }
    first, second = sorted(shares, key=lambda name: (-shares[name], name))[:2]
    # A language whose word "na" or "a" is also an abbreviation shows no others.
    distinct = sum(word in words for word in _WORDS[first])
    told = total >= _LEAST_WORDS and distinct >= _LEAST_DISTINCT
    told = told and shares[first] >= max(_LEAST_SHARE, _LEAST_RATIO * shares[second])
    return LanguageGuess(first if told else None, shares)


def languages_of(documents: Iterable[Document]) -> tuple[str, ...]:
    """Return the languages of at least one in twenty of the notes whose language is clear, the most frequent first."""
    told = Counter(filter(None, (_language_of(document.text) for document in documents)))
    frequent = (language for language, notes in told.items() if notes >= _OF_TRAINING * told.total())
    return tuple(sorted(frequent, key=lambda language: (-told[language], language)))


def _language_of(text: str) -> str | None:
    words = Counter(_words(text))
    counts = {language: sum(words[word] for word in listed) for language, listed in _WORDS.items()}
    first, second = sorted(counts, key=lambda name: (-counts[name], name))[:2]
    distinct = sum(word in words for word in _WORDS[first])
    return first if distinct >= 2 and counts[first] > counts[second] else None


@dataclass(frozen=True, slots=True)
class OtherLanguage:
    """The other language that a text most looks like, compared with some languages, such as a model's.

    `words` counts the words of it that those languages lack, `distinct` the different ones; `own` counts words of those
    languages that it lacks.
    """

    language: str
    words: int
    distinct: int
    own: int


def other_language(text: str, languages: Collection[str]) -> OtherLanguage:
    """Return the language, of those known and not among `languages`, with the most words in a text."""
    words = Counter(word for word in _words(text) if word in _ALL_WORDS)
    there = frozenset(words)
    found = []
    for language, theirs, ours in _telling_words(frozenset(languages)):
        seen, own = theirs & there, ours & there
        found.append((language, sum(words[word] for word in seen), len(seen), sum(words[word] for word in own)))
    return OtherLanguage(*max(found, key=lambda other: (other[1] - other[3], other[2])))


@cache
def _telling_words(languages: frozenset[str]) -> tuple[tuple[str, frozenset[str], frozenset[str]], ...]:
    """Return each other language, the words that it has and these lack, and those that they have and it lacks."""
    ours = frozenset().union(*(_WORDS[language] for language in languages))
    others = sorted(set(_WORDS) - languages)
    own = ours - _COGNATES
    return tuple((other, _WORDS[other] - ours - _NO_EVIDENCE, own - _WORDS[other]) for other in others)


@dataclass(frozen=True, slots=True)
class EnglishWords:
    """How many different words of three letters or more a text has, and how many public lists of English have, or lack.

    Words of other languages count as lacking, names of public lists as neither. `small`, `small_lacking` and `accented`
    (lacking, with other letters than English has) count words without a capital alone, but all where the text is in
    capitals; `long` and `long_lacking` those of six letters.
    """

    words: int
    listed: int
    lacking: int
    small: int
    small_lacking: int
    accented: int
    long: int
    long_lacking: int


_ENGLISH_LISTS, _NAME_LISTS = ("english", "medical", "abbreviation", "drug"), ("given", "surname")


def english_words(text: str) -> EnglishWords:
    """Count the words of a text that English has and lacks. Raises ConfigError where the lists are not installed."""
    capitals = in_capitals(text)
    found = {match[0] for match in _WORD.finditer(text) if len(match[0]) >= _LEAST_LETTERS}
    words = {word.lower() for word in found}
    small = {word.lower() for word in found if capitals or not word[0].isupper()}
    listed = {word for word in words - _NOT_ENGLISH if is_listed(word, *_ENGLISH_LISTS)}
    lacking = {word for word in words - listed if word in _NOT_ENGLISH or not is_listed(word, *_NAME_LISTS)}
    return EnglishWords(
        words=len(words),
        listed=len(listed),
        lacking=len(lacking),
        small=len(small),
        small_lacking=len(small - listed),
        accented=sum(not word.isascii() for word in small - listed),
        long=sum(len(word) >= _LONG for word in words),
        long_lacking=sum(len(word) >= _LONG for word in lacking),
    )


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in _WORD.finditer(text.lower()))


_ALL_WORDS = frozenset().union(*_WORDS.values())
_NOT_ENGLISH = _ALL_WORDS - _WORDS["en"] - _NO_EVIDENCE
