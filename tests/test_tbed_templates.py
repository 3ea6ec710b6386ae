"""Templates as text and in TOML files."""

import pytest

from ensemble_deid.errors import RuleError
from ensemble_deid.taggers.tbed import (
    Template,
    Window,
    load_templates,
    parse_templates,
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
