"""The learner against a slow and obvious one, and against NLTK's."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tag import BrillTaggerTrainer
from nltk.tag.api import TaggerI
from nltk.tag.brill import Pos, Word, brill24
from nltk.tbl.template import Template as NltkTemplate

from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed import RuleApplier, learn_rules, parse_templates
from ensemble_deid.taggers.tbed.templates import Condition, Rule, Template

TEMPLATES = [
    "word[0]",
    "word[-1]",
    "tag[-1]",
    "tag[1]",
    "word[0] & tag[-1]",
    "tag[-1] & tag[1]",
    "word in [-2,-1]",
    "word in [0,2]",
    "tag in [1,3]",
    "tag in [-2,1]",
    "shape[0] & word[1]",
    "word in [-2,-1] & tag in [1,2]",
    "word[-1] & word[0] & word[1]",
    "shape in [-4,4]",
    "tag[-2] & tag[-1] & shape[0]",
]


def sentence_of(starts: list[int], n_tokens: int) -> list[tuple[int, int]]:
    ends = [*starts[1:], n_tokens]
    return [(start, end) for start, end in zip(starts, ends, strict=True) for _ in range(start, end)]


def holds(condition: Condition, i: int, columns: Any, tags: list[str], bounds: tuple[int, int]) -> bool:
    window = condition.window
    values = tags if window.column == "tag" else columns[window.column]
    return any(bounds[0] <= i + o < bounds[1] and values[i + o] == condition.value for o in window.offsets)


def fires_at(rule: Rule, columns: Any, tags: list[str], sentences: list[tuple[int, int]]) -> list[int]:
    return [
        i
        for i, tag in enumerate(tags)
        if tag == rule.from_tag and all(holds(c, i, columns, tags, sentences[i]) for c in rule.conditions)
    ]


def proposed(template: Template, i: int, columns: Any, tags: list[str], gold: list[str], bounds) -> list[Rule]:
    choices = []
    for window in template.windows:
        values = tags if window.column == "tag" else columns[window.column]
        inside = [i + o for o in window.offsets if bounds[0] <= i + o < bounds[1]]
        choices.append([Condition(window, value) for value in {values[j] for j in inside}])
    return [Rule(tags[i], gold[i], conditions) for conditions in product(*choices)]


def slow_learn(columns, initial, gold, starts, templates, **limits) -> list[Rule]:
    """Brill's search as he describes it: every rule counted over the whole corpus, at every step."""
    tags, sentences, rules = list(initial), sentence_of(starts, len(gold)), []
    while len(rules) < limits.get("max_rules", 200):
        best = None
        for t, template in enumerate(templates):
            wrong = [i for i in range(len(tags)) if tags[i] != gold[i]]
            rules_here = {r for i in wrong for r in proposed(template, i, columns, tags, gold, sentences[i])}
            for rule in rules_here:
                places = fires_at(rule, columns, tags, sentences)
                put_right = [i for i in places if gold[i] == rule.to_tag]
                fixed = len(put_right)
                broken = sum(gold[i] == rule.from_tag for i in places)
                if fixed / (fixed + broken) < limits.get("min_accuracy", 0.0):
                    continue
                if fixed - broken < limits.get("min_score", 2):
                    continue
                patients = {limits["patients"][i] for i in put_right} if "patients" in limits else {1}
                if len(patients) < limits.get("min_patients", 1):
                    continue
                if any(c.value in limits.get("unsaid", {}).get(c.window.column, ()) for c in rule.conditions):
                    continue
                order = (broken - fixed, t, repr(rule.from_tag), repr(rule.to_tag))
                order += tuple(repr(condition.value) for condition in rule.conditions)
                if best is None or order < best[0]:
                    best = (order, Rule(*rule.identity, fixed, broken), places)
        if best is None:
            break
        rules.append(best[1])
        for i in best[2]:
            tags[i] = best[1].to_tag
    return rules


@st.composite
def corpora(draw):
    n = draw(st.integers(1, 40))
    words = draw(st.lists(st.sampled_from(["a", "b", "it's", 'q"', "é"]), min_size=n, max_size=n))
    tag = st.sampled_from(["O", "B", "I'", "C"][: draw(st.integers(1, 4))])
    gold = draw(st.lists(tag, min_size=n, max_size=n))
    initial = draw(st.one_of(st.just(["O"] * n), st.lists(tag, min_size=n, max_size=n)))
    starts = [0, *sorted(draw(st.sets(st.integers(1, n - 1), max_size=5)))] if n > 1 else [0]
    columns = {"word": words, "shape": [str(len(w)) for w in words]}
    return columns, initial, gold, starts


@settings(max_examples=100)
@given(
    corpora(),
    st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=5, unique=True),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5, 0.7, 1.0]),
)
def test_learns_what_the_slow_learner_learns(corpus, names, min_score, min_accuracy):
    templates = parse_templates(names)
    limits = {"max_rules": 12, "min_score": min_score, "min_accuracy": min_accuracy}
    assert learn_rules(*corpus, templates, **limits) == slow_learn(*corpus, templates, **limits)


@settings(max_examples=40)
@given(corpora(), st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=4, unique=True), st.integers(2, 3))
def test_a_rule_must_help_enough_patients(corpus, names, min_patients):
    templates = parse_templates(names)
    patients = [i // 7 for i in range(len(corpus[1]))]
    limits = {"max_rules": 12, "min_score": 1, "min_patients": min_patients, "patients": patients}
    assert learn_rules(*corpus, templates, **limits) == slow_learn(*corpus, templates, **limits)


@settings(max_examples=40)
@given(corpora(), st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=4, unique=True), st.sampled_from([1, 2]))
def test_a_rule_names_nothing_unsaid(corpus, names, min_patients):
    templates = parse_templates(names)
    patients = [i // 7 for i in range(len(corpus[1]))]
    limits = {"max_rules": 12, "min_score": 1, "min_patients": min_patients, "patients": patients}
    limits["unsaid"] = {"word": {"a", 'q"'}}
    assert learn_rules(*corpus, templates, **limits) == slow_learn(*corpus, templates, **limits)


def zipfian_corpus(n: int, seed: int) -> tuple[dict[str, list[str]], list[str], list[str], list[int]]:
    """Words of two readings, the second after some words and before some others, with a little noise."""
    random = np.random.default_rng(seed)
    ranks = np.minimum(random.zipf(1.3, n), 90)
    tags = ["O", "B-X", "I-X", "B-Y"]
    initial = [tags[rank % 4] for rank in ranks]
    second = (np.roll(ranks, 1) % 5 == 0) & (ranks % 3 > 0) | (np.roll(ranks, -1) % 7 == 3) & (ranks % 2 == 0)
    second ^= random.random(n) < 0.03
    gold = [
        tags[(rank + 1 + rank // 8) % 4] if other else tag
        for rank, other, tag in zip(ranks, second, initial, strict=True)
    ]
    starts = [0, *(1 + np.flatnonzero(random.random(n - 1) < 0.1)).tolist()]
    return {"word": [f"w{rank}" for rank in ranks]}, initial, gold, starts


class _Given(TaggerI):
    """Tags sentences with tags given beforehand."""

    def __init__(self, tagged: list[list[tuple[str, str]]]) -> None:
        self._tagged = iter(tagged)

    def tag(self, tokens: list[str]) -> list[tuple[str, str]]:
        return next(self._tagged)


def nltk_template_text(template: NltkTemplate) -> str:
    """Write a template of NLTK as ours; its positions follow one another."""
    columns = {Word: "word", Pos: "tag"}
    return " & ".join(
        f"{columns[type(feature)]} in [{feature.positions[0]},{feature.positions[-1]}]"
        for feature in template._features
    )


def nltk_rules(words, initial, gold, starts, templates, *, max_rules: int, min_score: int, min_acc: float | None):
    spans = list(zip(starts, [*starts[1:], len(words)], strict=True))
    tagged = [list(zip(words[a:b], initial[a:b], strict=True)) for a, b in spans]
    sentences = [list(zip(words[a:b], gold[a:b], strict=True)) for a, b in spans]
    trainer = BrillTaggerTrainer(_Given(tagged), templates, deterministic=True)
    tagger = trainer.train(sentences, max_rules=max_rules, min_score=min_score, min_acc=min_acc)
    rules = [
        (r.original_tag, r.replacement_tag, [(tuple(f.positions), v) for f, v in r._conditions]) for r in tagger.rules()
    ]
    return rules, tagger.train_stats("rulescores")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("min_accuracy", [None, 0.8])
def test_nltk_learns_the_same_rules_with_the_same_scores(seed, min_accuracy):
    columns, initial, gold, starts = zipfian_corpus(1500, seed)
    NltkTemplate._cleartemplates()
    theirs = [*brill24(), NltkTemplate(Word([-1, 0, 1])), NltkTemplate(Pos([-1, 0]), Word([1, 2]))]
    expected, scores = nltk_rules(
        columns["word"], initial, gold, starts, theirs, max_rules=60, min_score=2, min_acc=min_accuracy
    )
    rules = learn_rules(
        columns,
        initial,
        gold,
        starts,
        parse_templates(map(nltk_template_text, theirs)),
        max_rules=60,
        min_accuracy=min_accuracy or 0.0,
    )
    ours = [(r.from_tag, r.to_tag, [(tuple(c.window.offsets), c.value) for c in r.conditions]) for r in rules]
    assert ours == expected
    assert [rule.score for rule in rules] == scores
    assert len(rules) > 10


@settings(max_examples=40)
@given(corpora(), st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=5, unique=True))
def test_rules_apply_as_they_were_learned(corpus, names):
    columns, initial, gold, starts = corpus
    rules = learn_rules(*corpus, parse_templates(names), min_score=1)
    tags, sentences = list(initial), sentence_of(starts, len(gold))
    errors = sum(a != b for a, b in zip(tags, gold, strict=True))
    for rule in rules:
        # All places first, then all changes: a rule does not see what it changes itself.
        for i in fires_at(rule, columns, tags, sentences):
            tags[i] = rule.to_tag
    assert RuleApplier(rules).apply(columns, initial, starts).strings() == tags
    assert sum(a != b for a, b in zip(tags, gold, strict=True)) == errors - sum(rule.score for rule in rules)


@pytest.mark.parametrize("n_values", [1 << 17, 1 << 21])
def test_keys_stay_exact_beyond_what_a_double_or_an_integer_holds(n_values):
    """Three windows of 2**17 values and 40 tags pass 2**53; three of 2**21 values pass 2**63."""
    columns, initial, gold, starts = zipfian_corpus(250, 5)
    tags = [f"T{i}" for i in range(36)]
    gold = [tags[(i // 7) % 36] if tag == "B-Y" else tag for i, tag in enumerate(gold)]
    templates = parse_templates(["word[-1] & word[0] & word[1]", "word in [-1,1] & word[0] & tag[-1]", "tag[1]"])
    narrow = Column.from_strings(columns["word"])
    step = n_values // len(narrow.values)
    values = [f"unused {i}" for i in range(n_values)]
    for code, value in enumerate(narrow.values):
        values[code * step] = value
    wide = Column(narrow.codes * np.int32(step), tuple(values))
    rules = learn_rules({"word": wide}, initial, gold, starts, templates, min_score=1, max_rules=30)
    assert rules == learn_rules(columns, initial, gold, starts, templates, min_score=1, max_rules=30)
    assert rules[:3] == slow_learn(columns, initial, gold, starts, templates, min_score=1, max_rules=3)


def test_windows_do_not_cross_sentences():
    words = ["Mr", "Ada", "Mr", "Ada", "Mr", "Bob"]
    gold = ["O", "B", "O", "B", "O", "B"]
    templates = parse_templates(["word[-1]"])
    (rule,) = learn_rules({"word": words}, ["O"] * 6, gold, [0], templates)
    assert (rule.fixed, rule.broken) == (3, 0)
    assert learn_rules({"word": words}, ["O"] * 6, gold, [0, 1, 3, 5], templates) == []
    assert RuleApplier([rule]).apply({"word": words}, ["O"] * 6, [0, 1, 3, 5]).strings() == ["O"] * 6


def test_a_rule_sees_no_change_of_its_own():
    rule = Rule("O", "B", (Condition(parse_templates(["tag[-1]"])[0].windows[0], "O"),))
    assert RuleApplier([rule]).apply({}, ["O"] * 4, [0]).strings() == ["O", "B", "B", "B"]


def test_one_patients_words_make_no_rule():
    words = ["Ada"] * 5 + ["Bob", "Bob"]
    initial, gold = ["O"] * 7, ["B"] * 7
    templates = parse_templates(["word[0]"])
    patients = [0, 0, 0, 0, 0, 1, 2]
    rules = learn_rules({"word": words}, initial, gold, [0], templates, min_patients=2, patients=patients)
    assert [rule.conditions[0].value for rule in rules] == ["Bob"]


def test_nothing_to_learn_gives_no_rules():
    templates = parse_templates(["word[0]"])
    assert learn_rules({"word": []}, [], [], [], templates) == []
    assert learn_rules({"word": ["a", "b"]}, ["O", "B"], ["O", "B"], [0], templates) == []
    assert learn_rules({"word": ["a", "b"]}, ["O", "O"], ["B", "B"], [0], []) == []
    assert RuleApplier([]).apply({}, [], []).strings() == []


@pytest.mark.parametrize(
    ("starts", "message"),
    [([1], "must start at token 0"), ([0, 2, 2], "must rise"), ([0, 3], "must rise"), ([], "must start at token 0")],
)
def test_sentence_starts_are_checked(starts, message):
    with pytest.raises(ValueError, match=message):
        learn_rules({"word": list("abc")}, ["O"] * 3, ["B"] * 3, starts, parse_templates(["word[0]"]))


def test_missing_or_short_columns_are_told():
    templates = parse_templates(["shape[0]"])
    with pytest.raises(RuleError, match="no feature column 'shape'; there are: word"):
        learn_rules({"word": ["a"]}, ["O"], ["B"], [0], templates)
    with pytest.raises(ValueError, match="column 'shape' has 2 tokens, the tags have 1"):
        learn_rules({"shape": ["a", "b"]}, ["O"], ["B"], [0], templates)
    with pytest.raises(ValueError, match="1 initial tags and 2 gold tags"):
        learn_rules({"shape": ["a", "b"]}, ["O"], ["B", "B"], [0], templates)
    with pytest.raises(ValueError, match="min_patients needs"):
        learn_rules({"shape": ["a"]}, ["O"], ["B"], [0], templates, min_patients=2)
