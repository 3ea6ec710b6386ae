"""How many notes the gate holds back: ordinary ones, those of other languages, encoded ones, tables, single words.

    python benchmarks/gate.py --language en --notes aci-bench.jsonl

No model is loaded: the gate of a measured model that was trained on notes of this language reads the demo corpus,
texts made of its dev notes, the sentences below, and the corpora named, also sentence by sentence by their number
of words. The sentences below were written by hand; the English gate was tuned with them in sight. Counts alone are
printed.
"""

import argparse
import base64
import gzip
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from ensemble_deid import Document, read_corpus
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.corpora.read import DEMO_SPLITS
from ensemble_deid.deidentify.gate import Gate

GERMAN = """\
Die Patientin klagt seit drei Tagen über Husten und Fieber.
Atmung frei, Pupillen isokor.
Herr Martin Schuster, wohnhaft Am Hang 7, 88131 Lindau, stellte sich in der Ambulanz vor.
Kein Fieber, keine Dyspnoe.
Mutter an Brustkrebs verstorben.
Er raucht eine Schachtel am Tag und trinkt abends zwei Bier.
Wunde trocken und sauber verbunden.
Nächster Termin am 14. Oktober um 9 Uhr.
Laborwerte vom Montag unverändert.
Die Ehefrau berichtet, dass er nachts unruhig sei und mehrmals aufstehe.
Penicillinallergie mit Hautausschlag.
Knie links geschwollen, Beugung bis 90 Grad schmerzhaft.
Pflegedienst kommt zweimal täglich.
Aufklärung erfolgt, Einwilligung unterschrieben.
Frau Doktor Weiß aus Ulm hat angerufen.
Im EKG Sinusrhythmus, keine Erregungsrückbildungsstörungen.
Bitte Marcumar pausieren und am Freitag wieder ansetzen.
Zustand nach Schlaganfall vor zwei Jahren mit Restparese rechts.
Appetit gut, Stuhlgang regelmäßig, Schlaf gestört.
Verlegung auf die Intensivstation wegen respiratorischer Insuffizienz.""".split("\n")
SHORTHAND = """\
wbc hgb plt wnl; cxr neg
wbc 5.2 hgb 13 plt wnl cxr neg
htn dm2 copd chf
pt c/o sob cp x2d
heent perrla eomi neck supple
abd soft nt nd bs pos
a/p: cont abx f/u cxr
npo ivf abx prn
nkda pmh htn hld
rrr no m/r/g ctab
uop adeq foley d/c
amb w/ walker tol diet
vss afeb, lungs cta bilat
bmp cbc lft ua pending
hx cabg 2v, ef 40
s/p lap chole pod2
neuro cn intact mae
rx sent cvs f/u prn
ekg nsr no st chg
dvt ppx lovenox sq""".split("\n")
FRENCH = """\
La patiente se plaint de toux et de fièvre depuis trois jours.
Respiration libre, pupilles isocores.
Monsieur Luc Fontaine, demeurant 7 chemin des Vignes, 71000 Mâcon, s'est présenté aux urgences.
Pas de fièvre, pas de dyspnée.
Mère décédée d'un cancer du sein.
Il fume un paquet par jour et boit deux bières le soir.
Plaie sèche, pansement propre.
Prochain rendez-vous le 14 octobre à 9 heures.
Bilan sanguin de lundi inchangé.
Sa femme rapporte qu'il est agité la nuit et se lève plusieurs fois.
Allergie à la pénicilline avec éruption cutanée.
Genou gauche enflé, flexion douloureuse à 90 degrés.
Soins infirmiers deux fois par jour.
Information donnée, consentement signé.
Le docteur Blanchard de Dijon a téléphoné.
À l'ECG, rythme sinusal, sans trouble de la repolarisation.
Merci d'arrêter la warfarine et de la reprendre vendredi.
Accident vasculaire cérébral il y a deux ans avec parésie droite résiduelle.
Appétit bon, transit régulier, sommeil perturbé.
Transfert en réanimation pour insuffisance respiratoire.""".split("\n")
WORDS = (
    "stable unchanged afebrile discharged Smith NPO deferred metoprolol see attached DNR none Okonkwo 120/80".split()
)


def made(notes: Iterable[Document], seed: int) -> Mapping[str, list[str]]:
    """Return texts that are no ordinary notes, by what they are."""
    rng, texts = random.Random(seed), [note.text for note in notes]
    table = [["\t".join(f"{rng.uniform(0, 200):.1f}" for _ in range(8)) for _ in range(12)] for _ in range(100)]
    named = ["Time\tHR\tSBP\tDBP\tTemp\tSpO2\tNa\tK"]
    return {
        "base64 of a compressed note": [base64.encodebytes(gzip.compress(t.encode(), mtime=0)).decode() for t in texts],
        "hexadecimal of a note": [t.encode().hex() for t in texts],
        "base64 of a note, which is read": [base64.encodebytes(t.encode()).decode() for t in texts],
        "a note in capitals": [t.upper() for t in texts],
        "a note in lower case": [t.lower() for t in texts],
        "lines of notes, one a note": [line for t in texts for line in t.splitlines() if line.strip()],
        "table of numbers": ["\n".join(rows) for rows in table],
        "table of numbers with a heading": ["\n".join([*named, *rows]) for rows in table],
        "one word": [*WORDS, ""],
        "letters by lot": [
            " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(60)) for _ in range(100)
        ],
        "German sentences": GERMAN,
        "French sentences": FRENCH,
        "English shorthand": SHORTHAND,
    }


def sentences(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the sentences and lines of texts by how many words of three letters or more they have, two at least."""
    found: dict[str, list[str]] = {"2 to 3 words": [], "4 to 6 words": [], "7 words or more": []}
    for sentence in (part.strip() for text in texts for part in re.split(r"(?<=[.?!])\s+|\n", text)):
        words = len(re.findall(r"[^\W\d_]{3,}", sentence))
        if words >= 2:
            found["2 to 3 words" if words <= 3 else "4 to 6 words" if words <= 6 else "7 words or more"].append(
                sentence
            )
    return {name: listed for name, listed in found.items() if listed}


def held(gate: Gate, texts: Iterable[str]) -> Counter[str]:
    """Count texts, and those held back by the reason's kind."""
    counts: Counter[str] = Counter()
    for text in texts:
        unfit = gate.check(text)
        counts.update(["all"] if unfit is None else ["all", "held", unfit.kind])
    return counts


@as_script
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", default="en")
    parser.add_argument("--notes", action="append", default=[], metavar="CORPUS")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    gate = Gate((options.language,), None)
    dev = list(read_corpus("demo:dev"))
    places = [*(f"demo:{part}" for part in DEMO_SPLITS), *options.notes]
    sets = {place: [note.text for note in read_corpus(place)] for place in places}
    sets |= made(dev, options.seed)
    for place in options.notes:
        sets |= {f"{place}, sentences of {size}": listed for size, listed in sentences(sets[place]).items()}
    print("| texts | number | held back | % | why |\n| --- | ---: | ---: | ---: | --- |")
    for name, texts in sets.items():
        counts = held(gate, texts)
        why = ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items()) if kind not in ("all", "held"))
        share = 100 * counts["held"] / counts["all"]
        print(f"| {name} | {counts['all']} | {counts['held']} | {share:.1f} | {why} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
