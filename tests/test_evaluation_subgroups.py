"""Groups of annotations: how they are told apart, their recall against a slow count, and when one is flagged."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.evaluation.bootstrap import sign_flip_p
from ensemble_deid.evaluation.evaluate import Resampling
from ensemble_deid.evaluation.pairs import Pair, pair_documents
from ensemble_deid.evaluation.render.html.labels import verdict
from ensemble_deid.evaluation.subgroups import MIN_PATIENTS, Subgroup, Subgroups, measure_subgroups, seen_key
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

QUICK = Resampling(200, 0.95, 0)
NONE = Resampling(0, 0.95, 0)


def by_name(subgroups: Subgroups, dimension: str) -> dict[str, Subgroup]:
    return {group.name: group for group in subgroups.groups if group.dimension == dimension}


def pair(name: str, words: str, found: str, *, patient: str | None = None, **more: str) -> Pair:
    """Return a note whose words are all PATIENT, of which the words at a `1` of `found` are covered."""
    spans, start = [], 0
    for word in words.split():
        spans.append(Span(start, start + len(word), "PATIENT"))
        start += len(word) + 1
    metadata = {"kind": more["kind"]} if "kind" in more else {}
    gold = Document(name, " ".join(words.split()), tuple(spans), patient, metadata, more.get("site"))
    return Pair(gold, gold.with_spans(span for span, one in zip(spans, found, strict=True) if one == "1"))


# Which group an annotation is in


def test_each_dimension_tells_its_groups() -> None:
    pairs = [
        pair("a", "ANNA BELL", "10", kind="letter", site="A"),
        pair("b", "anna bell", "11", kind="note", site="A"),
        pair("c", "Anna 17", "01", kind="letter", site="B"),
    ]
    found = measure_subgroups(pairs, resampling=NONE, seen={"anna"}, name_lists={"x": {"anna"}, "y": {"bell"}})
    counts = {(g.dimension, g.name): (g.annotations, g.recall.value) for g in found.groups}
    assert counts == {
        ("Kind of note", "letter"): (4, 0.5),
        ("Kind of note", "note"): (2, 1.0),
        ("Site", "A"): (4, 0.75),
        ("Site", "B"): (2, 0.5),
        ("Case of the note", "upper"): (2, 0.5),
        ("Case of the note", "lower"): (2, 1.0),
        ("Case of the note", "mixed"): (2, 0.5),
        ("Case of the annotation", "upper"): (2, 0.5),
        ("Case of the annotation", "lower"): (2, 1.0),
        ("Case of the annotation", "mixed"): (1, 0.0),
        ("Names, by list", "x"): (3, pytest.approx(2 / 3)),
        ("Names, by list", "y"): (2, 0.5),
        ("Names, by list", "on no list"): (1, 1.0),
        ("String in the training notes", "seen"): (3, pytest.approx(2 / 3)),
        ("String in the training notes", "unseen"): (3, pytest.approx(2 / 3)),
    }
    assert all(g.p is None and g.holm_p is None and not g.worse for g in found.groups)
    assert found.without == {}


def test_what_cannot_be_told_is_said() -> None:
    found = measure_subgroups([pair("a", "12 34", "11")], resampling=QUICK)
    assert not by_name(found, "Site")
    assert dict(found.without) == {
        "Kind of note": "No note tells its kind.",
        "Site": "No note tells its site.",
        "Case of the note": "No note has letters.",
        "Case of the annotation": "No annotation has letters.",
        "Names, by list": "No lists of names by origin were given, so origins of names are not compared.",
        "String in the training notes": "The system is not a model: strings seen in its training are unknown.",
    }
    assert measure_subgroups([], resampling=QUICK).groups == ()


def test_names_alone_have_an_origin_and_may_have_two() -> None:
    note = Document("a", "Li Bell, 3 May.", (Span(0, 8, "DOCTOR"), Span(9, 14, "DATE")))
    pairs = pair_documents([note], [note])
    found = measure_subgroups(pairs, resampling=NONE, name_lists={"x": {"li"}, "y": {"bell", "may"}})
    assert {name: g.annotations for name, g in by_name(found, "Names, by list").items()} == {"on several lists": 1}


def test_seen_strings_are_compared_without_white_space_and_case() -> None:
    assert seen_key(" O'Brien \n Smith") == seen_key("o'brien smith") == "".join(("o", "'", "brien", "smith"))


# Recall


@given(
    st.lists(
        st.tuples(st.sampled_from("pqr"), st.sampled_from("AB"), st.text("01", min_size=1, max_size=4)), max_size=6
    )
)
def test_recall_is_that_of_a_plain_count(rows: list[tuple[str, str, str]]) -> None:
    pairs = [
        pair(str(k), " ".join(["word"] * len(found)), found, patient=patient, site=site)
        for k, (patient, site, found) in enumerate(rows)
    ]
    groups = by_name(measure_subgroups(pairs, resampling=NONE), "Site")
    for site in {site for _, site, _ in rows}:
        mine = "".join(found for _, other, found in rows if other == site)
        others = "".join(found for _, other, found in rows if other != site)
        group = groups[site]
        assert (group.annotations, group.recall.value) == (len(mine), pytest.approx(mine.count("1") / len(mine)))
        assert group.patients == len({patient for patient, other, _ in rows if other == site})
        assert group.rest == (pytest.approx(others.count("1") / len(others)) if others else None)


# The test


def test_the_p_value_is_that_of_all_sign_flips() -> None:
    contributions = np.array([-2.0, -1.0, 0.5, -0.25, 1.5, -3.0])
    sums = [np.dot(signs, contributions) for signs in itertools.product((-1, 1), repeat=len(contributions))]
    exact = np.mean(np.array(sums) <= contributions.sum() + 1e-12)
    assert sign_flip_p(contributions, resamples=20_000) == pytest.approx(exact, abs=0.01)
    assert sign_flip_p(np.zeros(4), resamples=99) == 1.0
    assert sign_flip_p(contributions, resamples=500, seed=3) == sign_flip_p(contributions, resamples=500, seed=3)


def site_pairs(n: int, missed_at_b: int) -> list[Pair]:
    """Return n patients at each of two sites, four names each; at site B so many of each patient are missed."""
    found = {"A": "1111", "B": "0" * missed_at_b + "1" * (4 - missed_at_b)}
    return [
        pair(f"{site}{k}", "Ann Bob Cyd Dan", found[site], patient=f"{site}{k}", site=site)
        for site in "AB"
        for k in range(n)
    ]


def test_a_site_that_fares_worse_is_flagged_and_the_better_one_is_not() -> None:
    groups = by_name(measure_subgroups(site_pairs(12, 2), resampling=Resampling(2000, 0.95, 0)), "Site")
    assert (groups["A"].worse, groups["B"].worse) == (False, True)
    assert groups["B"].recall.interval is not None
    equal = measure_subgroups(site_pairs(12, 0), resampling=QUICK)
    assert not any(group.worse for group in equal.groups)


def test_one_patient_alone_makes_no_site_worse() -> None:
    """All that is missed is one patient's: their annotations are not independent."""
    pairs = site_pairs(12, 0)
    pairs[-1] = Pair(pairs[-1].gold, pairs[-1].gold.with_spans(()))
    group = by_name(measure_subgroups(pairs, resampling=Resampling(2000, 0.95, 0)), "Site")["B"]
    assert group.recall.value == pytest.approx(44 / 48)
    assert not group.worse


def test_few_patients_are_not_tested() -> None:
    groups = by_name(measure_subgroups(site_pairs(MIN_PATIENTS - 1, 4), resampling=QUICK), "Site")
    assert groups["B"].holm_p is None
    assert groups["B"].recall.value == 0.0
    groups = by_name(measure_subgroups(site_pairs(MIN_PATIENTS, 4), resampling=QUICK), "Site")
    assert groups["B"].holm_p is not None


def test_many_groups_cost_each_of_them() -> None:
    """The same difference is flagged among few groups, and is no longer among many."""
    alone = by_name(measure_subgroups(site_pairs(12, 2), resampling=QUICK), "Site")["B"]
    pairs = site_pairs(12, 2)
    kinds = [replace(p.gold, metadata={"kind": str(k % 2)}) for k, p in enumerate(pairs)]
    more = measure_subgroups([Pair(gold, p.system) for gold, p in zip(kinds, pairs, strict=True)], resampling=QUICK)
    among = by_name(more, "Site")["B"]
    assert alone.p == among.p
    assert alone.holm_p is not None
    assert among.holm_p is not None
    assert alone.holm_p < among.holm_p


def test_what_hides_phi_hides_it_under_any_label() -> None:
    gold = Document("a", "Anna", (Span(0, 4, "PATIENT"),), site="A")
    pairs = pair_documents([gold], [gold.with_spans([Span(0, 4, "DATE")])])
    assert by_name(measure_subgroups(pairs, resampling=NONE), "Site")["A"].recall.value == 1.0


def test_nothing_is_said_of_groups_too_small_to_test() -> None:
    few = [pair(f"a{k}", "Ann Lee", "11", patient=f"p{k}", kind="letter") for k in range(MIN_PATIENTS - 1)]
    many = [pair(f"b{k}", "Ann Lee", "11", patient=f"q{k}", kind="note") for k in range(MIN_PATIENTS)]
    groups = measure_subgroups([*few, *many], resampling=QUICK).groups
    kinds = [group for group in groups if group.dimension == "Kind of note"]
    said = verdict(kinds)
    assert said == (
        "None of the 1 groups tested is worse than the rest beyond chance. "
        f"Nothing is said of groups of fewer than {MIN_PATIENTS} patients (1)."
    )
    alone = [group for group in kinds if group.name == "letter"]
    assert verdict(alone).startswith("No group was tested.")
