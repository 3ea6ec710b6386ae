"""The learner against a slow and obvious one, and against NLTK's."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.taggers.tbed.learner import learn_rules
from ensemble_deid.taggers.tbed.rule import Condition, Rule
from ensemble_deid.taggers.tbed.templates import Template, parse_templates

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


def holds(condition: Condition, i: int, columns: dict, tags: list[str], bounds: tuple[int, int]) -> bool:
    window = condition.window
    values = tags if window.column == "tag" else columns[window.column]
    return any(bounds[0] <= i + o < bounds[1] and values[i + o] == condition.value for o in window.offsets)


def fires_at(rule: Rule, columns: dict, tags: list[str], sentences: list[tuple[int, int]]) -> list[int]:
    return [
        i
        for i, tag in enumerate(tags)
        if tag == rule.from_tag and all(holds(c, i, columns, tags, sentences[i]) for c in rule.conditions)
    ]


def proposed(template: Template, i: int, columns: dict, tags: list[str], gold: list[str], bounds) -> list[Rule]:
    choices = []
    for window in template.windows:
        values = tags if window.column == "tag" else columns[window.column]
        inside = [i + o for o in window.offsets if bounds[0] <= i + o < bounds[1]]
        choices.append([Condition(window, value) for value in {values[j] for j in inside}])
    return [Rule(tags[i], gold[i], conditions) for conditions in product(*choices)]


def slow_learn(columns, initial, gold, starts, templates, **limits) -> list[Rule]:
    """Brill's search as it is told: every rule counted over the whole corpus, at every step."""
    tags, sentences, rules = list(initial), sentence_of(starts, len(gold)), []
    while len(rules) < limits.get("max_rules", 200):
        best = None
        for t, template in enumerate(templates):
            wrong = [i for i in range(len(tags)) if tags[i] != gold[i]]
            rules_here = {r for i in wrong for r in proposed(template, i, columns, tags, gold, sentences[i])}
            for rule in rules_here:
                places = fires_at(rule, columns, tags, sentences)
                mended = [i for i in places if gold[i] == rule.to_tag]
                fixed = len(mended)
                broken = sum(gold[i] == rule.from_tag for i in places)
                if fixed / (fixed + broken) < limits.get("min_accuracy", 0.0):
                    continue
                if fixed - broken < limits.get("min_score", 2):
                    continue
                if limits.get("patients"):
                    if len({limits["patients"][i] for i in mended}) < limits["min_patients"]:
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


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(corpora(), st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=4, unique=True), st.integers(2, 3))
def test_a_rule_must_help_enough_patients(corpus, names, min_patients):
    templates = parse_templates(names)
    patients = [i // 7 for i in range(len(corpus[1]))]
    limits = {"max_rules": 12, "min_score": 1, "min_patients": min_patients, "patients": patients}
    assert learn_rules(*corpus, templates, **limits) == slow_learn(*corpus, templates, **limits)
