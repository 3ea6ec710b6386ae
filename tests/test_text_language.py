"""The language of notes is told by their function words, and not guessed where there is too little to go by."""

import pytest

from ensemble_deid.note.document import Document
from ensemble_deid.note.language import _WORDS, guess_language

TEXTS = {
    "en": "The patient was admitted to the hospital with chest pain and was seen by the doctor on the ward. "
    "She has no history of diabetes, and her blood pressure was not high at the time of this visit.",
    "es": "El paciente ingresó en el hospital por dolor torácico y fue visto por el médico de la planta. "
    "No presenta antecedentes de diabetes, y la tensión arterial no era alta en el momento de la consulta.",
    "fr": "Le patient est entré à l'hôpital pour une douleur dans la poitrine et il a été vu par le médecin. "
    "Il n'a pas d'antécédents de diabète, et la tension n'était pas élevée au moment de la visite avec sa fille.",
    "de": "Der Patient wurde mit Schmerzen in der Brust aufgenommen und von dem Arzt auf der Station gesehen. "
    "Es ist kein Diabetes bekannt, und der Blutdruck war zu der Zeit der Untersuchung nicht erhöht.",
    "it": "Il paziente è stato ricoverato per un dolore al torace ed è stato visto dal medico della corsia. "
    "Non ha una storia di diabete, e la pressione non era alta al momento della visita con il medico di famiglia.",
    "pt": "O doente foi internado com uma dor no peito e foi visto por um médico da enfermaria. "
    "Não tem antecedentes de diabetes, e a tensão não era alta no momento da consulta com o médico de família.",
    "nl": "De patiënt werd met pijn op de borst opgenomen en is door de arts van de afdeling gezien. "
    "Er is geen diabetes bekend, en de bloeddruk was niet hoog op het moment van het bezoek aan de arts.",
    "ca": "El pacient va ingressar a l'hospital amb dolor al pit i va ser vist per la metgessa de la planta. "
    "No és diabètic, i la tensió no era alta en el moment de la visita amb els seus fills a les consultes.",
}


@pytest.mark.parametrize("language", sorted(TEXTS))
def test_each_language_is_told(language: str) -> None:
    assert guess_language([Document("a", TEXTS[language] * 2)]).language == language


@pytest.mark.parametrize("text", ["", "the", "HR 80 BP 120/80 temp 37.2 WBC Hgb Plt Na K Cl " * 20, "the of " * 10])
def test_too_little_to_go_by(text: str) -> None:
    guess = guess_language([Document("a", text)])
    assert guess.language is None
    assert "could not be told" in str(guess)


def test_two_languages_in_equal_parts_are_none() -> None:
    words = " ".join(["when which who than then they", "cuando donde además muy también desde"] * 20)
    assert guess_language([Document("a", words)]).language is None


def test_notes_count_by_their_words_and_capitals_do_not_matter() -> None:
    notes = [Document("a", TEXTS["es"].upper() * 3), Document("b", TEXTS["en"])]
    guess = guess_language(notes)
    assert guess.language == "es"
    words = sum(map(str.isalpha, " ".join(TEXTS["es"].split()).replace(",", " ").replace(".", " ").split())) * 3
    spanish = _WORDS["es"]
    counted = sum(word.strip(".,").lower() in spanish for word in TEXTS["es"].split()) * 3
    only = guess_language(notes[:1])
    assert only.shares["es"] == pytest.approx(counted / words)
    assert str(only).startswith("the notes look Spanish (function words: Spanish ")
