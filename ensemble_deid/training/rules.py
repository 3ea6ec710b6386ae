"""A model's rule list at work on notes: checked rule by rule, applied, explained, compared with another list.

Rules read the feature table of their own model: its patterns, its lexicon, its columns. So a list is only ever run
inside a model, in the place of the list that the model holds.

`rule_curve` has strict F1 and token recall after each rule: once dev stops rising, further rules only memorise the
training notes.
"""

import difflib
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from ensemble_deid.arrays import Flags, Int32s
from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.errors import ModelError, RuleError, needs_extra
from ensemble_deid.evaluation.views import Place, token_keys
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.ensemble import Ensemble, as_seen
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.note.counts import f1_score
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import read
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme, entity_rows, tags_to_spans
from ensemble_deid.taggers.tbed.applier import Firing, RuleApplier
from ensemble_deid.taggers.tbed.curve import CountsByRule, after_each_rule, counts_by_rule
from ensemble_deid.taggers.tbed.initial import fit_initial
from ensemble_deid.taggers.tbed.rule_text import write_rule
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import TbedTagger, final_tags
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN, Rule

_SUBMODEL = "tbed"


@dataclass(frozen=True, slots=True)
class RuleModel:
    """A model whose rule list is to be run, or the model with another list in the place of its own."""

    ensemble: Ensemble = field(repr=False)
    tagger: TbedTagger

    @classmethod
    def load(cls, directory: Path) -> "RuleModel":
        """Raises ModelError for a model that cannot be read or has no rule list."""
        ensemble, _ = load_model(directory)
        tagger = ensemble.taggers.get(_SUBMODEL)
        if not isinstance(tagger, TbedTagger):
            raise ModelError(f"{directory}: the model has no rule list: it was trained without tbed")
        return cls(ensemble, tagger)

    def with_rules(self, rules: RuleList, *, name: str = "rules") -> "RuleModel":
        """Return the model with another list in the place of its own; `name` begins the message of an error.

        Raises RuleError for another initial tagger, a label that the model does not know or a column that it lacks.
        """
        columns = {TAG_COLUMN, *self.batch(()).table.names}
        for number, rule in enumerate(rules, 1):
            for condition in rule.conditions:
                if condition.window.column not in columns:
                    raise RuleError(
                        f"{name}: rule {number} reads the column {condition.window.column!r}, which the model's table"
                        f" does not have; it has: {', '.join(sorted(columns))}"
                    )
        try:
            tagger = self.tagger.with_rules(rules)
        except RuleError as error:
            raise RuleError(f"{name}: {error}") from None
        taggers = {**self.ensemble.taggers, _SUBMODEL: tagger}
        return RuleModel(replace(self.ensemble, taggers=taggers), tagger)

    @property
    def rules(self) -> RuleList:
        return self.tagger.rules

    def batch(self, documents: Sequence[Document]) -> Batch:
        """Return the notes as the model sees new notes: their annotations have no part in it."""
        return self.ensemble.feature_extractor.extract([as_seen(document) for document in documents])

    def firings(self, batch: Batch) -> Iterator[Firing]:
        """Yield the rules that change tags of a batch, in order, with the tokens that they change."""
        columns, starts = batch.table.columns, batch.tokens.sentence_starts
        return RuleApplier(self.rules.rules).firings(columns, self.tagger.initial.tag(batch), starts)


Effect = Literal["fixed", "broken", "still wrong"]


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A place where a rule changed the tag of a word, characters `[start, end)`, and what came of it."""

    document: Document
    start: int
    end: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule on a corpus: the tags it put right and wrong there, at its turn in the list; the rest stayed wrong.

    `mislabelled` counts those of the rest that had and have a label, by what they are.
    """

    number: int
    rule: Rule
    fixed: int = 0
    broken: int = 0
    changed: int = 0
    mislabelled: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[RuleExample, ...] = ()

    @property
    def score(self) -> int:
        return self.fixed - self.broken


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span of the final tags, the pattern that started it ("" where none did), and the rules that changed it."""

    span: Span
    pattern: str
    rules: tuple[int, ...]


def check_rules(model: RuleModel, documents: Sequence[Document], *, examples: int = 0) -> list[CheckedRule]:
    """Return every rule with what it does on annotated notes, in list order; a rule that never fires has zeros.

    A label that the model does not know counts as what it is: a tag that no rule can put right. At most `examples`
    places are given with each rule, those of fixed and broken tags by turns.
    """
    batch = model.batch(documents)
    scheme = TagScheme.from_labels({*model.tagger.scheme.labels, *(s.label for d in documents for s in d.spans)})
    gold = np.array(scheme.tags, dtype=object)[batch.gold(scheme)]
    checked = [CheckedRule(number, rule) for number, rule in enumerate(model.rules, 1)]
    for firing in model.firings(batch):
        row, right = checked[firing.rule], gold[firing.tokens]
        fixed, broken = right == row.rule.to_tag, right == row.rule.from_tag
        masks: dict[Effect, Flags] = {"fixed": fixed, "broken": broken, "still wrong": ~(fixed | broken)}
        places = {effect: firing.tokens[mask][:examples].tolist() for effect, mask in masks.items()}
        checked[firing.rule] = replace(
            row,
            fixed=int(fixed.sum()),
            broken=int(broken.sum()),
            changed=len(right),
            mislabelled=_mislabelled(row.rule, right[masks["still wrong"]].tolist()),
            examples=tuple(_examples(batch, documents, places)[:examples]),
        )
    return checked


def _mislabelled(rule: Rule, right: Sequence[str]) -> dict[str, int]:
    """Count what words are whose label is wrong before a rule, and another wrong one after it."""
    labels = (rule.from_tag[2:], rule.to_tag[2:])
    if "" in labels or labels[0] == labels[1]:
        return {}
    return dict(Counter(tag if tag == "O" else tag[2:] for tag in right if tag[2:] not in labels).most_common())


def _examples(batch: Batch, documents: Sequence[Document], tokens: Mapping[Effect, Sequence[int]]) -> list[RuleExample]:
    """Return the places of tokens in the documents: fixed and broken ones by turns, then those that stayed wrong."""
    ordered: list[tuple[Effect, int]] = []
    for fixed, broken in zip_longest(tokens["fixed"], tokens["broken"]):
        ordered += [("fixed", fixed)] if fixed is not None else []
        ordered += [("broken", broken)] if broken is not None else []
    ordered += [("still wrong", token) for token in tokens["still wrong"]]
    starts, ends, owners = batch.tokens.start, batch.tokens.end, batch.tokens.document
    found = []
    for effect, token in ordered:
        document = documents[owners[token]]
        place = read(document.text).original(int(starts[token]), int(ends[token]))
        found.append(RuleExample(document, *place, effect))
    return found


def apply_rules_to(model: RuleModel, documents: Sequence[Document]) -> list[Document]:
    """Return the notes with what the TBED submodel finds by these rules."""
    found = model.ensemble.predict(documents, PredictionOptions(submodel=_SUBMODEL))
    return [document.with_spans(spans) for document, spans in zip(documents, found, strict=True)]


def explain_note(model: RuleModel, document: Document) -> list[TracedSpan]:
    """Return how every span that the rules leave on a note came about."""
    batch = model.batch([document])
    tagger = model.tagger
    touched: list[list[int]] = [[] for _ in range(len(batch.tokens))]
    for firing in model.firings(batch):
        for token in firing.tokens.tolist():
            touched[token].append(firing.rule + 1)
    codes = final_tags(model.rules.rules, batch, tagger.initial.tag(batch), tagger.scheme)
    spans = [span for found in tags_to_spans(codes, batch.tokens, tagger.scheme, source="tbed") for span in found]
    first, after, _ = entity_rows(codes, batch.tokens)
    traced: list[TracedSpan] = []
    reading = read(document.text)
    started = batch.initial[0] if tagger.initial.kind == "regex" else ()
    for span, low, high in zip(spans, first.tolist(), after.tolist(), strict=True):
        numbers = sorted({number for row in range(low, high) for number in touched[row]})
        pattern = next((start.source for start in started if start.overlaps(span)), "")
        traced += [TracedSpan(part, pattern, tuple(numbers)) for part in reading.original_spans([span])]
    return traced


def diff_rules(a: RuleList, b: RuleList) -> list[str]:
    """Return one line a difference, in the order of the lists: `-` only in A, `+` only in B (a moved rule is both)."""
    before = [rule.identity for rule in a.rules]
    after = [rule.identity for rule in b.rules]
    lines = []
    for how, low, high, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if how != "equal":
            lines += [f"- {k + 1}: {write_rule(a.rules[k])}" for k in range(low, high)]
            lines += [f"+ {k + 1}: {write_rule(b.rules[k])}" for k in range(start, end)]
    return lines


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Strict entity F1 on train and dev after the first `rules` rules, and token recall on dev; None if undefined."""

    rules: int
    train_f1: float | None
    dev_f1: float | None
    dev_recall: float | None = None


def rule_curve(tagger: TbedTagger, train: Batch, dev: Batch | None) -> list[CurvePoint]:
    start = fit_initial(tagger.initial.kind, train, tagger.scheme)[1]
    on_train = _f1_by_rule(counts_by_rule(tagger.rules.rules, train, start, tagger.scheme))
    if dev is None:
        return [CurvePoint(k, f1, None) for k, f1 in enumerate(on_train)]
    initial = tagger.initial.tag(dev)
    on_dev = _f1_by_rule(counts_by_rule(tagger.rules.rules, dev, initial, tagger.scheme))
    measure = partial(_token_recall, dev, [_phi_runs(note) for note in dev.documents], tagger.scheme)
    recall = after_each_rule(tagger.rules.rules, dev, initial, tagger.scheme, measure=measure)
    return [CurvePoint(k, *figures) for k, figures in enumerate(zip(on_train, on_dev, recall, strict=True))]


def _token_recall(batch: Batch, gold: Sequence[Set[Place]], scheme: TagScheme, codes: Int32s) -> float | None:
    """Return the recall of tags in the view "token-binary", None without annotated PHI."""
    answers = zip(batch.documents, tags_to_spans(codes, batch.tokens, scheme), gold, strict=True)
    found = sum(len(runs & _phi_runs(note.with_spans(spans))) for note, spans, runs in answers)
    return found / wanted if (wanted := sum(map(len, gold))) else None


def _phi_runs(note: Document) -> set[Place]:
    return {(start, end) for start, end, _ in token_keys(note)}


def model_curve(model: Path) -> list[CurvePoint]:
    """Return the curve that training measured. Raises ModelError where there is none."""
    points = read_manifest(model).figures.get("rule_curve")
    if not points:
        raise ModelError(f"{model}: the model has no rule list: it was trained without tbed")
    # Earlier models have no recall there.
    return [CurvePoint(int(rules), *figures) for rules, *figures in points]


def curve_lines(points: Sequence[CurvePoint]) -> list[str]:
    """Return the curve as a table of text, at 0, 1, 2, 5, 10, 20, 50 ... rules and at the last."""
    shown = [p for p in points if p.rules in (0, points[-1].rules) or str(p.rules).rstrip("0") in ("1", "2", "5")]
    rows = [(str(p.rules), *(percent(x, sign="") for x in (p.train_f1, p.dev_f1, p.dev_recall))) for p in shown]
    head = ("rules", "F1 on train", "F1 on dev", "token recall on dev")
    return ["  ".join(cell.rjust(len(name)) for cell, name in zip(row, head, strict=True)) for row in (head, *rows)]


def _f1_by_rule(counts: CountsByRule) -> list[float | None]:
    return [f1_score(right, gold=counts.n_gold, system=found) for right, found in counts.by_rule]


def draw_curve(points: Sequence[CurvePoint], path: Path) -> None:
    """Write the curves of train and, where it was measured, dev as a PNG. Raises ConfigError without matplotlib."""
    with needs_extra("plot", "drawing"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    rules = [point.rules for point in points]
    for name, values in (("train", [point.train_f1 for point in points]), ("dev", [point.dev_f1 for point in points])):
        defined = [(k, 100 * value) for k, value in zip(rules, values, strict=True) if value is not None]
        if defined:
            axes.step(*zip(*defined, strict=True), where="post", label=name)
    axes.set_xlabel("rules applied")
    axes.set_ylabel("strict entity F1 (%)")
    axes.set_title("The rule list, rule by rule")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    picture = io.BytesIO()
    # Without the library's version in the file, the same curve is the same bytes.
    figure.savefig(picture, format="png", dpi=150, metadata={"Software": None})
    write_bytes_atomically(path, picture.getvalue())
