"""How fast transformation rules are learned and applied, beside NLTK on the same data in the same process.

    OMP_NUM_THREADS=1 python benchmarks/tbed_speed.py [--tokens 20000 200000] [--rounds 3] [--generated-only]

All times are processor time of this process. The two learners take turns, so that a slow spell of the machine
meets both; ratios are of medians. Both start from strings: words, initial tags and gold tags.
"""

import argparse
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence

from nltk.tag import BrillTaggerTrainer
from nltk.tag.api import TaggerI
from nltk.tag.brill import Pos, Word
from nltk.tbl.template import Template as NltkTemplate
from tbed_corpus import TEMPLATES_30, TEMPLATES_60, TaggedCorpus, generate, meddocan

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed import Rule, RuleApplier, Template, learn_rules, parse_templates

MAX_RULES = 200
MIN_SCORE = 1


class Given(TaggerI):
    """Gives sentences the tags found beforehand."""

    def __init__(self, tagged: list[list[tuple[str, str]]]) -> None:
        self._tagged = iter(tagged)

    def tag(self, tokens: list[str]) -> list[tuple[str, str]]:
        return next(self._tagged)


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def learn(corpus: TaggedCorpus, templates: Sequence[Template]) -> list[Rule]:
    """Learn 200 rules from strings."""
    return learn_rules(
        {"word": corpus.words},
        corpus.initial,
        corpus.gold,
        corpus.starts,
        templates,
        max_rules=MAX_RULES,
        min_score=MIN_SCORE,
    )


def nltk_trainer(corpus: TaggedCorpus, templates: Sequence[Template]) -> Callable[[], object]:
    """Return the call that makes NLTK learn the same; its sentences are made beforehand, outside the clock."""
    features = {"word": Word, "tag": Pos}
    NltkTemplate._cleartemplates()
    theirs = [NltkTemplate(*(features[w.column](list(w.offsets)) for w in t.windows)) for t in templates]
    bounds = list(zip(corpus.starts, [*corpus.starts[1:], len(corpus.words)], strict=True))
    words = [corpus.words[a:b] for a, b in bounds]
    gold = [list(zip(corpus.words[a:b], corpus.gold[a:b], strict=True)) for a, b in bounds]
    initial = [list(zip(w, corpus.initial[a:b], strict=True)) for w, (a, b) in zip(words, bounds, strict=True)]

    def train() -> object:
        trainer = BrillTaggerTrainer(Given(initial), theirs, deterministic=True)
        return trainer.train(gold, max_rules=MAX_RULES, min_score=MIN_SCORE)

    return train


def compare_with_nltk(corpus: TaggedCorpus, templates: Sequence[Template], *, rounds: int) -> float:
    """Print and return the ratio to NLTK, and check that both learn the same rules."""
    train = nltk_trainer(corpus, templates)
    ours: list[float] = []
    theirs: list[float] = []
    tagger = train()
    rules = learn(corpus, templates)
    expected = [(r.original_tag, r.replacement_tag, [v for _, v in r._conditions]) for r in tagger.rules()]
    found = [(r.from_tag, r.to_tag, [c.value for c in r.conditions]) for r in rules]
    for _ in range(rounds):
        ours += [seconds(lambda: learn(corpus, templates)) for _ in range(3)]
        theirs.append(seconds(train))
        ours += [seconds(lambda: learn(corpus, templates)) for _ in range(3)]
    mine, nltks = statistics.median(ours), statistics.median(theirs)
    print(
        f"{corpus.name}, {len(corpus.words):,} tokens, 30 templates, {len(rules)} rules: NLTK {nltks:.2f} s,"
        f" here {mine * 1000:.0f} ms, ratio {nltks / mine:.0f}; same rules: {'yes' if found == expected else 'NO'}"
    )
    return nltks / mine


def scaling(make: Callable[[int], TaggedCorpus], rounds: int) -> None:
    """Print what twice the tokens and twice the templates cost."""
    half, whole = make(100_000), make(200_000)
    thirty, sixty = parse_templates(TEMPLATES_30), parse_templates(TEMPLATES_60)
    times: dict[str, list[float]] = {"half": [], "whole": [], "sixty": []}
    learn(half, thirty)
    for _ in range(2 * rounds):
        times["half"].append(seconds(lambda: learn(half, thirty)))
        times["whole"].append(seconds(lambda: learn(whole, thirty)))
        times["sixty"].append(seconds(lambda: learn(whole, sixty)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(
        f"{whole.name}: tokens 100,000 -> {len(whole.words):,}: {medians['whole'] / medians['half']:.2f}x the time;"
        f" templates 30 -> 60: {medians['sixty'] / medians['whole']:.2f}x"
    )


def memory(corpus: TaggedCorpus) -> None:
    """Print the most memory held at once while rules are learned, over what the data take."""
    templates = parse_templates(TEMPLATES_30)
    tracemalloc.start()
    learn(corpus, templates)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{corpus.name}: memory over the loaded data: {peak / 2**20:.0f} MB")


def application(corpus: TaggedCorpus, rounds: int) -> None:
    """Print how many tokens a second 200 rules tag, from encoded columns."""
    rules = learn(corpus, parse_templates(TEMPLATES_30))
    columns, initial = {"word": Column.from_strings(corpus.words)}, Column.from_strings(corpus.initial)
    applier = RuleApplier(rules)
    times = [seconds(lambda: applier.apply(columns, initial, corpus.starts)) for _ in range(5 * rounds)]
    rate = len(corpus.words) / statistics.median(times) / 1e6
    print(f"{corpus.name}: applying {len(rules)} rules: {rate:.1f} million tokens/s")


def corpora(generated_only: bool) -> list[Callable[[int], TaggedCorpus]]:
    """Return makers of corpora of a size: the generated one, and MEDDOCAN where it is available."""
    notes = None if generated_only else meddocan()
    return [generate] if notes is None else [generate, notes.first]


@as_script
def main() -> None:
    """Run everything and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="*", default=[20_000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--generated-only", action="store_true")
    options = parser.parse_args()
    makers = corpora(options.generated_only)
    for make in makers:
        application(make(200_000), options.rounds)
        memory(make(200_000))
        scaling(make, options.rounds)
    for tokens in options.tokens:
        for make in makers:
            compare_with_nltk(
                make(tokens), parse_templates(TEMPLATES_30), rounds=options.rounds if tokens < 100_000 else 1
            )


if __name__ == "__main__":
    sys.exit(main())
