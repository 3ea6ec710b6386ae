"""The TBED submodel over a batch: rules learned, applied, given a confidence, saved."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_notes import SCHEME, plain, tiny_batch, tiny_notes

from ensemble_deid.config import TbedConfig
from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.windows import Window
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.tbed.curve import CountsByRule, best_number_of_rules
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import CONFIDENCE, RULES, TbedTagger, find_templates
from ensemble_deid.taggers.tbed.templates import Condition, Rule

HEADER = {"corpus": "tiny", "templates": "by hand", "initial tagger": "regex"}
CONFIG = TbedConfig()
TRAIN = tiny_notes(16)


def fit(batch: Batch, config: TbedConfig = CONFIG) -> TbedTagger:
    return TbedTagger.fit(batch, None, FitOptions(SCHEME, config, seed=13))


def rule(from_tag: str, to_tag: str, column: str, offset: int, value: str) -> Rule:
    return Rule(from_tag, to_tag, (Condition(Window(column, offset, offset), value),))


@pytest.fixture(scope="module")
def tagger() -> TbedTagger:
    return fit(tiny_batch(TRAIN))


def right(spans: tuple[tuple[Span, ...], ...], batch: Batch) -> int:
    pairs = zip(spans, batch.documents, strict=True)
    return sum(span.key in {gold.key for gold in document.spans} for found, document in pairs for span in found)


def test_its_rules_mend_the_initial_tags(tagger: TbedTagger) -> None:
    batch = tiny_batch(tiny_notes(8, seed=2), learned_from=TRAIN)
    assert right(tagger.propose(batch, n_best=1).best, batch) > right(batch.initial, batch)
    assert fit(tiny_batch(TRAIN)).rules.text() == tagger.rules.text()


def test_limits_are_those_of_the_configuration() -> None:
    assert len(fit(tiny_batch(TRAIN), TbedConfig(max_rules=2)).rules) == 2
    assert len(fit(tiny_batch(TRAIN), TbedConfig(max_rules=0)).rules) == 0
    few = fit(tiny_batch(TRAIN), TbedConfig(min_score=12, min_accuracy=1.0))
    assert all(r.broken == 0 and r.fixed >= 12 for r in few.rules)


def test_a_span_comes_from_the_last_rule_that_changed_one_of_its_tokens() -> None:
    rules = RuleList(
        (
            rule("O", "B-NAME", "lower", -1, "dr"),
            rule("O", "B-NAME", "lower", -2, "dr"),
            rule("O", "I-NAME", "tag", -1, "B-NAME"),
            rule("B-NAME", "O", "lower", 0, "."),
        ),
        HEADER,
    )
    batch = plain([Document("1", "Dr. Lee Moss 10/10", (Span(0, 12, "NAME"), Span(13, 18, "DATE")))])
    tagger = TbedTagger.measured(rules, batch, scheme=SCHEME)
    assert tagger.propose(batch, n_best=1).best == (
        (Span(4, 12, "NAME", 1 / 3, "rule 3"), Span(13, 18, "DATE", 2 / 3, "initial DATE")),
    )
    assert dict(tagger.confidence.counts) == {"initial DATE": (1, 1), "rule 3": (0, 1)}


def test_initial_tags_outside_the_scheme_are_left_out() -> None:
    tagger = TbedTagger.measured(RuleList((), HEADER), plain([]), scheme=TagScheme(("DATE",)))
    assert [span.label for span in tagger.propose(plain([Document("1", "4711 10/10")]), n_best=1).best[0]] == ["DATE"]


def test_damaged_files_are_told_with_their_place(tagger: TbedTagger, tmp_path: Path) -> None:
    tagger.save(tmp_path)
    with pytest.raises(ModelError, match=r"tbed\.rules: rule \d+ has a tag that the model does not know"):
        TbedTagger.load(tmp_path, scheme=TagScheme(("DATE",)), config=CONFIG, device="cpu")
    text = (tmp_path / RULES).read_text()
    (tmp_path / RULES).write_text(text + "change O\n")
    with pytest.raises(ModelError, match=rf"tbed\.rules:{text.count(chr(10)) + 1}:"):
        TbedTagger.load(tmp_path, scheme=SCHEME, config=CONFIG, device="cpu")
    (tmp_path / RULES).write_text(text)
    (tmp_path / CONFIDENCE).write_text("{")
    with pytest.raises(ModelError, match="damaged"):
        TbedTagger.load(tmp_path, scheme=SCHEME, config=CONFIG, device="cpu")


def test_templates_are_found_by_name_or_file(tmp_path: Path) -> None:
    assert find_templates("default").name == "default"
    with pytest.raises(RuleError, match=r"no template set 'defualt'; there are: .*default"):
        find_templates("defualt")
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ndescription = "one"\ntemplates = ["word[0]"]\n')
    assert find_templates(str(path)).name == "mine"


def test_the_number_of_rules_is_the_one_that_is_best_on_all_held_out_folds_together() -> None:
    # Matches and entities found before the first rule and after each; 10 annotated in each fold.
    folds = [CountsByRule(((5, 6), (7, 8), (8, 9), (8, 14)), 10), CountsByRule(((4, 6), (5, 7), (5, 9)), 10)]
    f1 = [2 * (5 + 4) / (20 + 12), 2 * (7 + 5) / (20 + 15), 2 * (8 + 5) / (20 + 18), 2 * (8 + 5) / (20 + 23)]
    assert best_number_of_rules(folds) == f1.index(max(f1)) == 1
    assert best_number_of_rules([CountsByRule(((0, 0), (0, 0)), 0)]) == 0
    # Nothing is annotated, and the first rule removes all that was found: F1 is 0 before, and undefined after.
    assert best_number_of_rules([CountsByRule(((0, 3), (0, 0)), 0)]) == 1
    assert best_number_of_rules([CountsByRule(((0, 0), (0, 3)), 0)]) == 0


def test_rules_that_only_training_bears_out_are_kept_as_remarks() -> None:
    """Cut lists apply the first rules only, and say so in the file, which reads back as it is."""
    notes = tiny_notes(24)
    # Every note ends in a word of its own; that three of them are annotated can be learned by heart, and helps nowhere.
    for k, note in enumerate(notes):
        text = f"{note.text} {chr(97 + k) * 3}"
        odd = (Span(len(text) - 3, len(text), "ID"),) if k in (3, 8, 17) else ()
        notes[k] = replace(note, text=text, spans=(*note.spans, *odd))
    batch = tiny_batch(notes)
    whole, cut = (
        TbedTagger.fit(
            batch,
            None,
            FitOptions(SCHEME, TbedConfig(initial="none", cv_folds=folds, min_score=1, min_patients=1), seed=3),
        ).rules
        for folds in (0, 3)
    )
    assert 0 < len(cut) < len(whole)
    assert cut.rules == whole.rules[: len(cut)]
    text = cut.text()
    assert f"# Not used: on held-out groups the list is best after {len(cut)} of {len(whole)} rules." in text
    assert text.count("\n# change ") == len(whole) - len(cut)
    assert RuleList.parse(text) == cut
