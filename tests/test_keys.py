"""Keys: what is none is refused, and neither a key nor what was given for one is ever told."""

import os
import stat
from pathlib import Path

import pytest
from made_keys import KEY, made_key

from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, needs_extra
from ensemble_deid.keys import VARIABLE, Key, make_key_file
from ensemble_deid.service.settings import ServiceSettings

NEW, OLD = made_key("new"), made_key("old")


def test_keygen_makes_a_key_that_only_its_owner_may_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys" / "key"
    assert main(["keygen", str(path)]) == 0
    key = Key.from_file(path)
    said = capsys.readouterr().out
    assert key.id in said
    assert key.secret.hex() not in said
    assert not key.throwaway
    assert path.read_text(encoding="ascii") == f"{key.text}\n"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


@pytest.mark.parametrize("standing", ["a file", "a folder", "a link to nowhere"])
def test_keygen_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], standing: str) -> None:
    path = tmp_path / "key"
    if standing == "a file":
        path.write_text("precious", encoding="utf-8")
    elif standing == "a folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nowhere")
    assert main(["keygen", str(path)]) == 2
    assert "no key is ever overwritten" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]
    assert not path.is_file() or path.read_text(encoding="utf-8") == "precious"


def test_a_key_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        make_key_file(tmp_path / "key")
    assert not list(tmp_path.iterdir())


def test_a_key_file_has_keys_by_name_of_which_the_first_counts(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of the study\n\n2026b: {NEW.text}\n2026a:\t{OLD.text} \n{KEY.text}\n", encoding="ascii")
    assert Key.from_file(file) == Key.find(file) == Key.find(str(file)) == NEW
    assert Key.from_file(file, name="2026a") == OLD
    with pytest.raises(ConfigError, match="holds no key called '2025'"):
        Key.from_file(file, name="2025")


def test_without_a_file_the_key_is_that_of_the_environment_or_a_fresh_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{KEY.text}\n")
    assert Key.find() == KEY
    assert Key.find(OLD.text) == OLD
    monkeypatch.delenv(VARIABLE)
    assert Key.find().throwaway
    assert Key.find() != Key.find()


def test_an_id_tells_keys_apart_and_is_no_plain_hash() -> None:
    assert len({key.id for key in (KEY, NEW, OLD)}) == 3
    assert all(len(key.id) == 12 for key in (KEY, NEW))
    assert KEY.fingerprint("notes", b"x") != KEY.fingerprint("files", b"x") != NEW.fingerprint("files", b"x")


_DIGITS = KEY.secret.hex()
NO_KEYS = {
    "a table": "note_id,text\n1,Seen by Quillfeather\n",
    "sixteen letters": "aaaaaaaaaaaaaaaa",
    "a pass phrase": "Quillfeather and other words of sixteen letters",
    "a named pass phrase": "2026: Quillfeather and other words",
    "hexadecimal digits": "9f" * 32,
    "a key cut short": KEY.text[:-1],
    "a key with another digit": KEY.text.replace(
        KEY.secret.hex(), ("0" if KEY.text[18] != "0" else "1") + KEY.secret.hex()[1:]
    ),
    "a key and something else": f"{KEY.text} Quillfeather",
    "a key below a table": f"note_id,text\n{KEY.text}\n",
    "nothing": "",
    "a comment": "# Quillfeather\n",
    "no text": "\xff\xfe\x00",
    "a large file": f"{KEY.text}\n" * 2000,
}


@pytest.mark.parametrize("content", NO_KEYS.values(), ids=NO_KEYS.keys())
def test_what_is_no_key_is_refused_and_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    file = tmp_path / "some-file"
    file.write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError, match=str(file)) as told:
        Key.find(file)
    errors = [told]
    with pytest.raises(ConfigError) as told:
        Key.find(content)
    errors.append(told)
    if "\0" not in content:
        monkeypatch.setenv(VARIABLE, content)
        with pytest.raises(ConfigError, match="the variable holds the key itself") as told:
            Key.find()
        errors.append(told)
    for error in errors:
        said = f"{error.value!s} {error.value!r} {error.value.__cause__!r}"
        assert "Quillfeather" not in said
        assert KEY.secret.hex()[8:40] not in said
        assert not content or content[:14] not in said


def test_a_path_in_the_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(make_key_file(tmp_path / "key") and tmp_path / "key"))
    with pytest.raises(ConfigError, match="the variable holds the key itself, not a file's name"):
        Key.find()


@pytest.mark.parametrize(
    "secret", [b"a" * 16, b"a" * 32, b"thirty-two letters, quite random", bytes(32), KEY.secret[:31], KEY.text]
)
def test_a_key_is_made_of_random_bytes(secret: bytes) -> None:
    with pytest.raises(ConfigError) as told:
        Key(secret)
    assert repr(secret)[2:-1] not in str(told.value)


def test_no_repr_and_no_error_of_a_model_has_the_key(tiny_model: Path) -> None:
    assert KEY.secret.hex() not in repr(KEY)
    assert repr(KEY.secret)[2:20] not in repr(KEY)
    model = Deidentifier.load(tiny_model)
    for key in ("Quillfeather and other words", KEY.text[:-1], "Quillfeather\0", f"{KEY.text}\n" * 3):
        with pytest.raises(ConfigError) as told:
            model.deidentify("Date: 03/04/2019", style="surrogate", key=key)
        assert "Quillfeather" not in str(told.value)
        assert KEY.secret.hex() not in str(told.value)
    same = [model.deidentify("Date: 03/04/2019", style="surrogate", key=key).text for key in (KEY, KEY.text)]
    assert same[0] == same[1]


def test_a_service_has_a_key_that_it_does_not_show() -> None:
    found = ServiceSettings(Path("model"), choices={"key": None}).choices["key"]
    assert isinstance(found, Key)
    given = ServiceSettings(Path("model"), choices={"key": KEY.text})
    assert given.choices["key"] == KEY
    assert KEY.text not in repr(given)
    with pytest.raises(ConfigError, match="least_recall must be between 0 and 1"):
        ServiceSettings(Path("model"), choices={"least_recall": 7})


def test_a_library_that_cannot_be_loaded_is_named() -> None:
    for error, said in (
        (ModuleNotFoundError(name="cryptography"), "signing needs cryptography, which is not installed"),
        (ImportError("libssl", name="cryptography"), "signing needs cryptography, which cannot be loaded"),
        (ImportError("libssl"), "signing needs a library, which cannot be loaded"),
    ):
        with pytest.raises(ConfigError, match=said), needs_extra("sign", "signing"):
            raise error
