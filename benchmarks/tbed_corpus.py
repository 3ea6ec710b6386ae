"""Tagged corpora for the benchmarks of transformation learning: a generated one, and MEDDOCAN where it is available."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

MEDDOCAN = Path(__file__).parents[1].parent / "shared" / "corpora" / "meddocan" / "train"

# Thirty templates over words and tags, single, paired and in windows, as in Brill (1995) and fnTBL.
TEMPLATES_30 = [
    "tag[-1]",
    "tag[1]",
    "tag[-2]",
    "tag[2]",
    "tag in [-2,-1]",
    "tag in [1,2]",
    "tag in [-3,-1]",
    "tag in [1,3]",
    "tag[-1] & tag[1]",
    "tag[-2] & tag[-1]",
    "tag[1] & tag[2]",
    "word[-1]",
    "word[1]",
    "word[-2]",
    "word[2]",
    "word in [-2,-1]",
    "word in [1,2]",
    "word in [-3,-1]",
    "word in [1,3]",
    "word[-1] & word[0]",
    "word[0] & word[1]",
    "word[0]",
    "word[-1] & tag[-1]",
    "word[1] & tag[1]",
    "word[0] & tag[-1]",
    "word[0] & tag[1]",
    "word[0] & word[-1] & tag[-1]",
    "word[0] & word[1] & tag[1]",
    "word[-1] & word[0] & word[1]",
    "word[0] & tag[-1] & tag[1]",
]
# Thirty more of the same kinds, to see what twice the templates cost.
TEMPLATES_60 = [
    *TEMPLATES_30,
    "tag[-3]",
    "tag[3]",
    "tag in [-4,-1]",
    "tag in [1,4]",
    "tag in [-1,1]",
    "tag[-3] & tag[-1]",
    "tag[1] & tag[3]",
    "tag[-2] & tag[1]",
    "tag[-1] & tag[2]",
    "tag[-2] & tag[2]",
    "tag[-2] & tag[-1] & tag[1]",
    "word[-3]",
    "word[3]",
    "word in [-1,0]",
    "word in [0,1]",
    "word in [-4,-1]",
    "word in [1,4]",
    "word[-2] & word[0]",
    "word[0] & word[2]",
    "word[-2] & word[-1]",
    "word[1] & word[2]",
    "word[-1] & word[1]",
    "word[0] & tag[-2]",
    "word[0] & tag[2]",
    "word[-1] & tag[1]",
    "word[1] & tag[-1]",
    "word[-2] & tag[-1]",
    "word[2] & tag[1]",
    "word[-2] & word[-1] & word[0]",
    "word[0] & word[1] & word[2]",
]


@dataclass(frozen=True)
class TaggedCorpus:
    """Words, gold tags and a first guess at them, token by token, and where the sentences start."""

    name: str
    words: list[str]
    initial: list[str]
    gold: list[str]
    starts: list[int]

    def first(self, n_tokens: int) -> "TaggedCorpus":
        """Return the first sentences, of about this many tokens."""
        starts = [start for start in self.starts if start < n_tokens]
        return TaggedCorpus(self.name, self.words[:n_tokens], self.initial[:n_tokens], self.gold[:n_tokens], starts)


def generate(n_tokens: int, *, seed: int = 0) -> TaggedCorpus:
    """Return a corpus with Zipfian words whose tags depend on the word and on what stands before it."""
    random = np.random.default_rng(seed)
    n_words, n_tags = 30_000, 9
    ranks = np.arange(1, n_words + 1)
    words = random.choice(n_words, size=n_tokens, p=(1 / ranks) / (1 / ranks).sum())
    lengths = random.integers(5, 30, size=n_tokens // 5)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    starts = starts[starts < n_tokens]
    usual = random.choice(n_tags, size=n_words, p=[0.6, *[0.05] * (n_tags - 1)])
    other = random.integers(0, n_tags, size=n_words)
    # Words of two readings take the second after some words, or after some tags.
    ambiguous = random.random(n_words) < 0.3
    trigger_word = random.random(n_words) < 0.2
    trigger_tag = random.random((n_tags, n_tags)) < 0.15
    gold = usual[words].copy()
    first = np.zeros(n_tokens, bool)
    first[starts] = True
    for i in range(1, n_tokens):
        if not first[i] and ambiguous[words[i]]:
            before = trigger_word[words[i - 1]] or trigger_tag[gold[i - 1], gold[i]]
            if before and random.random() < 0.9:
                gold[i] = other[words[i]]
    noise = random.random(n_tokens) < 0.01
    gold[noise] = random.integers(0, n_tags, size=int(noise.sum()))
    names = ["O", *(f"{bio}-{label}" for label in ("LOC", "MISC", "ORG", "PER") for bio in "BI")]
    gold_tags = [names[tag] for tag in gold]
    texts = [f"w{word}" for word in words]
    return TaggedCorpus("generated", texts, most_frequent_tags(texts, gold_tags), gold_tags, starts.tolist())


def most_frequent_tags(words: list[str], gold: list[str]) -> list[str]:
    """Return each word's most frequent tag, the usual first guess; ties go to the first tag in the alphabet."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(words, gold, strict=True):
        counts[word][tag] += 1
    best = {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in counts.items()}
    return [best[word] for word in words]


def meddocan() -> TaggedCorpus | None:
    """Return the training notes of MEDDOCAN with BIO tags, a line a sentence; None where they are not available."""
    words: list[str] = []
    gold: list[str] = []
    starts: list[int] = []
    for path in sorted(MEDDOCAN.glob("*.xml")):
        root = ElementTree.parse(path).getroot()
        text = root.findtext("TEXT") or ""
        marks = root.find("TAGS")
        spans = [(int(m.get("start", 0)), int(m.get("end", 0)), m.get("TYPE", "")) for m in marks or ()]
        label_at = {c: (label, start) for start, end, label in spans for c in range(start, end)}
        line_at = 0
        for line in text.split("\n"):
            found = list(re.finditer(r"[^\W\d_]+|\d+|\S", line))
            if found:
                starts.append(len(words))
            previous = None
            for token in found:
                mark = label_at.get(line_at + token.start())
                gold.append("O" if mark is None else f"{'I' if mark == previous else 'B'}-{mark[0]}")
                words.append(token[0])
                previous = mark
            line_at += len(line) + 1
    if not words:
        return None
    return TaggedCorpus("MEDDOCAN train", words, most_frequent_tags(words, gold), gold, starts)
