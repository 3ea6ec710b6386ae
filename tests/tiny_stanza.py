"""Tiny models of stanza (tokenizer, parts of speech, named entities), trained by its own trainers in seconds."""

import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

NAMES = ("Ann", "Bob", "Carla", "Hugo")
VERBS = ("saw", "met", "called")
NOUNS = ("nurse", "clinic", "doctor")
Word = tuple[str, str, str]


def sentences() -> list[list[Word]]:
    """Return sentences of (word, part of speech, entity tag)."""
    found: list[list[Word]] = []
    for name, verb, noun in product(NAMES, VERBS, NOUNS):
        found.append([(name, "PROPN", "B-PER"), (verb, "VERB", "O"), ("the", "DET", "O"), (noun, "NOUN", "O")])
        found.append([("the", "DET", "O"), (noun, "NOUN", "O"), (verb, "VERB", "O"), (name, "PROPN", "B-PER")])
    return found


def train_models(folder: Path) -> None:
    """Write the models of `en`, package `tiny`, as a folder of stanza's resources."""
    work = folder / "work"
    work.mkdir(parents=True)
    found = sentences()
    conll = "".join(
        "".join(
            f"{k}\t{word}\t_\t{pos}\t_\t_\t{k - 1}\t{'root' if k == 1 else 'dep'}\t_\t_\n"
            for k, (word, pos, _) in enumerate((*sentence, (".", "PUNCT", "O")), 1)
        )
        + "\n"
        for sentence in found
    )
    lines = [" ".join(word for word, _, _ in sentence) + " ." for sentence in found]
    text = "\n\n".join(lines) + "\n\n"
    # 0: inside a token, 1: a token ends, 2: a sentence ends
    marks = "\n\n".join(
        "".join("2" if k == len(line) - 1 else "1" if line[k + 1] == " " else "0" for k in range(len(line)))
        for line in lines
    )
    entities = [[{"text": word, "ner": tag} for word, _, tag in (*sentence, (".", "PUNCT", "O"))] for sentence in found]
    files = {"pos.conllu": conll, "text.txt": text, "text.toklabels": marks + "\n\n", "ner.json": json.dumps(entities)}
    for name, content in files.items():
        (work / name).write_text(content, encoding="utf-8")
    (work / "mwt.json").write_text("[]", encoding="utf-8")
    _train_all(work, folder / "en")
    described: dict[str, Any] = {name: {"tiny": {"md5": ""}} for name in ("tokenize", "pos", "ner")}
    package = {"tokenize": "tiny", "pos": "tiny", "ner": "tiny"}
    resources = {"en": {"lang_name": "English", "packages": {"tiny": package, "default": package}, **described}}
    (folder / "resources.json").write_text(json.dumps(resources), encoding="utf-8")


_TOKENIZER = """--steps 100 --eval_steps 100 --hidden_dim 8 --emb_dim 8 --batch_size 4 --lr0 0.02 --no_use_mwt
    --max_seqlen 40 --conv_filters 1 --no-hierarchical"""
_TAGGER = """--no_pretrain --max_steps 60 --eval_interval 60 --fix_eval_interval --batch_size 200 --lr 0.02 --dropout 0
    --word_dropout 0 --hidden_dim 16 --char_hidden_dim 8 --char_emb_dim 8 --word_emb_dim 16 --word_cutoff 1
    --tag_emb_dim 8 --deep_biaff_hidden_dim 16 --composite_deep_biaff_hidden_dim 8 --transformed_dim 16
    --num_layers 1"""
_NER = """--no_pretrain --max_steps 10 --eval_interval 10 --hidden_dim 16 --char_hidden_dim 8 --char_emb_dim 8
    --word_emb_dim 16 --batch_size 32 --lr 0.5"""
_COMMON = "--shorthand en_tiny --cpu --seed 7"


def _train_all(work: Path, models: Path) -> None:
    from stanza.models import ner_tagger, tagger, tokenizer

    text, marks, conll, ner = (str(work / name) for name in ("text.txt", "text.toklabels", "pos.conllu", "ner.json"))

    def run(main: Callable[[list[str]], object], kind: str, settings: str, **files: str) -> None:
        named = [part for option, file in files.items() for part in (f"--{option}", file)]
        place = ["--save_dir", str(models / kind), "--save_name", "tiny.pt"]
        main([*named, *place, *settings.split(), *_COMMON.split()])

    texts = {"txt_file": text, "label_file": marks, "dev_txt_file": text, "dev_label_file": marks}
    other = {"dev_conll_gold": conll, "conll_file": str(work / "out.conllu"), "mwt_json_file": str(work / "mwt.json")}
    run(tokenizer.main, "tokenize", f"{_TOKENIZER} --lang en", **texts, **other)
    run(tagger.main, "pos", f"{_TAGGER} --lang en", train_file=conll, eval_file=conll)
    run(ner_tagger.main, "ner", _NER, train_file=ner, eval_file=ner)


if __name__ == "__main__":
    train_models(Path(sys.argv[1]))
