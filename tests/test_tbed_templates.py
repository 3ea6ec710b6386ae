"""Templates as text, in TOML files, and from NLTK and fnTBL."""

import pytest
from nltk.tag.brill import Pos, Word, brill24, fntbl37
from nltk.tbl.template import Template as NltkTemplate

from ensemble_deid.errors import RuleError
from ensemble_deid.taggers.tbed import (
    Template,
    Window,
    load_templates,
    parse_templates,
    read_fntbl_templates,
    read_nltk_templates,
)


def test_the_short_form_is_read_and_written_back():
    texts = ["word[0] & tag[-1]", "word in [-3,-1]", "shape[0] & word[1]", "tag in [-4,4] & word[-1]"]
    assert [str(template) for template in parse_templates(texts)] == texts


def test_other_spellings_mean_the_same():
    (wanted,) = parse_templates(["word in [-3,-1] & tag[1]"])
    spellings = ["word[-3..-1]&tag[1]", " word [-3, -1]  & tag[ +1 ] ", "word in [ -3 , -1 ] & tag[1]"]
    assert parse_templates(spellings) == (wanted, wanted, wanted)
    assert wanted == Template((Window("word", -3, -1), Window("tag", 1, 1)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "template 2, column 1: expected the name"),
        ("word", r"template 2, column 5: expected \[offset\]"),
        ("word[0] tag[1]", "template 2, column 9: expected '&'"),
        ("word[0] & ", "template 2, column 11: expected the name"),
        ("word[0] & tag[5]", "template 2, column 11: .* beyond offsets -4 to 4"),
        ("word in [2,1]", r"template 2, column 1: the window \[2,1\] ends before it begins"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, message):
    with pytest.raises(RuleError, match=message):
        parse_templates(["word[0]", text])


def test_a_file_gives_name_description_and_templates(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text('name = "small"\ndescription = "two"\ntemplates = ["word[0]", "tag[-1]"]\n', encoding="utf-8")
    loaded = load_templates(path)
    assert (loaded.name, loaded.description) == ("small", "two")
    assert loaded.templates == parse_templates(["word[0]", "tag[-1]"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('name = "x"\ntemplates = ["word[0]", "word"]', "t.toml: template 2, column 5"),
        ('name = "x"\ntemplates = ["word[0]", "word[0]"]', "template 2 repeats template 1"),
        ('name = "x"\ntemplate = []', "unknown key 'template'"),
        ("name = 3\ntemplates = []", "name and description must be strings"),
        ('name = "x"\ntemplates = [1]', "must be a list of strings"),
        ("name = ", "t.toml: Invalid value"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_the_file(tmp_path, content, message):
    path = tmp_path / "t.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RuleError, match=message):
        load_templates(path)


def test_a_missing_file_is_a_rule_error(tmp_path):
    with pytest.raises(RuleError, match="no such file"):
        load_templates(tmp_path / "none.toml")


def test_nltk_templates_are_read():
    templates = read_nltk_templates(brill24())
    assert len(templates) == 24
    assert [str(template) for template in templates[:7:2]] == ["tag[-1]", "tag[-2]", "tag in [-2,-1]", "tag in [-3,-1]"]
    assert str(templates[-1]) == "word[0] & word[1] & tag[1]"
    assert read_nltk_templates(map(repr, fntbl37())) == read_nltk_templates(fntbl37())


def test_nltk_templates_that_rules_cannot_have_are_refused():
    with pytest.raises(RuleError, match="NLTK template 1: the positions of a window must follow"):
        read_nltk_templates([NltkTemplate(Word([-1, 1]))])
    with pytest.raises(RuleError, match="no column is known for 'Pos'"):
        read_nltk_templates([NltkTemplate(Pos([1]))], columns={"Word": "word"})


def test_fntbl_lines_are_read():
    text = "# lexical\npos_0 word_0 word_-1 => pos\n\npos_0 word:[-3,-1] => pos\npos_0 pos_-1 pos_1 => pos\n"
    templates = read_fntbl_templates(text, columns={"word": "lower"})
    assert [str(template) for template in templates] == ["lower[0] & lower[-1]", "lower in [-3,-1]", "tag[-1] & tag[1]"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pos_0 word_0", "t:2:13: expected '=>'"),
        ("pos_0 word_0 => chunk", "t:2:16: expected the target 'pos'"),
        ("word_0 => pos", "t:2:1: expected the term pos_0"),
        ("pos_0 word_0::3~~ => pos", "t:2:7: expected name_offset"),
        ("pos_0 => pos", "t:2:1: expected a term beside"),
        ("pos_0 word_7 => pos", "t:2:7: .* beyond"),
    ],
)
def test_fntbl_mistakes_are_told_with_their_place(line, message):
    with pytest.raises(RuleError, match=message):
        read_fntbl_templates(f"pos_0 word_0 => pos\n{line}\n", name="t")
