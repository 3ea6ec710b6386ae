"""Transformation-based error-driven learning: rules that correct the tags of an initial tagger, one after another."""

from ensemble_deid.features.windows import Window
from ensemble_deid.taggers.tbed.applier import Firing, RuleApplier
from ensemble_deid.taggers.tbed.learner import learn_rules
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.templates import (
    Condition,
    Rule,
    Template,
    TemplateSet,
    load_templates,
    parse_templates,
)

__all__ = [
    "Condition",
    "Firing",
    "Rule",
    "RuleApplier",
    "RuleList",
    "Template",
    "TemplateSet",
    "Window",
    "learn_rules",
    "load_templates",
    "parse_templates",
]
