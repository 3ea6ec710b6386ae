"""A recognizer for Presidio's analyzer: our model beside, or in the place of, Presidio's own recognizers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from presidio_analyzer import AnalysisExplanation, EntityRecognizer, RecognizerResult

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.one_pass import log_remark, predicted_by
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import to_presidio
from ensemble_deid.note.rtf import DATA
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.sequence_scores import SOURCE
from ensemble_deid.training.explain import NET, Candidate, PlaceExplanation, explain


class EnsembleRecognizer(EntityRecognizer):
    """Recognizes the PHI that a model finds.

    `model` is a `Deidentifier`, a model's folder, or the name of an installed model. `label_map` is from the model's
    labels to entity types; a label that is not in it has the type of `to_presidio` (`DOCTOR`: `PERSON`). With
    `explanations`, the decision process (`analyze(..., return_decision_process=True)`) names patterns, rules and the
    submodels' confidences, at some twice the time. Each text is processed alone: what is found in it is searched in the
    whole text, and not in others. `choices` are those of `RunOptions.choose`, such as `threshold` and `lists`. Raises
    ModelError where the model cannot be loaded, ConfigError.
    """

    def __init__(
        self,
        model: Deidentifier | str | Path,
        *,
        label_map: Mapping[str, str] | None = None,
        supported_language: str = "en",
        explanations: bool = False,
        name: str = "EnsembleRecognizer",
        **choices: Unpack[RunChoices],
    ) -> None:
        self.model = model if isinstance(model, Deidentifier) else Deidentifier.load(model)
        self.options = RunOptions.choose(self.model.labels, **choices)
        self.explanations = explanations
        self.own_name = name
        names = self.options.names(self.model.labels)
        self.entity_type = {label: to_presidio(label) for label in names} | dict(label_map or {})
        super().__init__(
            supported_entities=sorted({self.entity_type[label] for label in names}),
            name=name,
            supported_language=supported_language,
        )

    def load(self) -> None:
        """Do nothing: the model was loaded with the recognizer."""

    def analyze(self, text: str, entities: Sequence[str], nlp_artifacts: Any = None) -> list[RecognizerResult]:
        """Return the spans of the entity types asked for. Raises CorpusError for a text that cannot be processed."""
        (result,) = self.model.process([Document("the text", text)], self.options)
        if result.error is not None:
            raise CorpusError(result.error)
        log_remark(result)
        # Data in RTF is no entity that anybody asks for, and nobody has read it.
        wanted = [s for s in result.spans if not entities or s.label == DATA or self._type(s) in entities]
        if not wanted:
            return []
        places: Sequence[PlaceExplanation | None] = [None] * len(wanted)
        if self.explanations:
            asked = [(span.start, span.end) for span in wanted]
            places = explain(self.model.ensemble, Document("the text", text), places=asked).places
        return [self._result(span, place) for span, place in zip(wanted, places, strict=True)]

    def _type(self, span: Span) -> str:
        """Return the entity type of a span; the labels of lists need not be the model's."""
        return self.entity_type.get(span.label) or to_presidio(span.label)

    def _result(self, span: Span, place: PlaceExplanation | None) -> RecognizerResult:
        explanation = AnalysisExplanation(
            self.own_name, span.score, textual_explanation="; ".join(_reasons(span, place))
        )
        pattern = None if place is None else _pattern(span, place)
        if pattern is not None:
            explanation.pattern_name = pattern
        metadata = {
            RecognizerResult.RECOGNIZER_NAME_KEY: self.own_name,
            RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
        }
        return RecognizerResult(
            self._type(span), span.start, span.end, span.score, explanation, recognition_metadata=metadata
        )


def _pattern(span: Span, place: PlaceExplanation) -> str | None:
    """Return the name of the pattern that matched just this span."""
    return next((m.pattern for m in place.patterns if m.used and (m.start, m.end, m.label) == span.key), None)


def _reasons(span: Span, place: PlaceExplanation | None) -> list[str]:
    """Return why a span was found; none of it quotes the text."""
    reasons = [f"label {span.label}, predicted by {predicted_by(span.source)}"]
    if place is None:
        return reasons
    candidate: Candidate | None = next((c for c in place.candidates if c.key == span.key), None)
    if candidate is not None:
        reasons += [
            f"{proposal.submodel}: confidence {four_digits(proposal.confidence)}"
            for proposal in candidate.proposals
            if proposal.submodel not in (NET, SOURCE)
        ]
    reasons += [f"pattern {match.pattern}" for match in place.patterns if match.used]
    reasons += [f"rule {rule.number}: {rule.words}" for rule in place.rules]
    return reasons
