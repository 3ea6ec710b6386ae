"""Signed models: where a key is configured, nothing but a model signed with it is loaded."""

import hashlib
import hmac
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_keys import KEY

from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ModelError
from ensemble_deid.model.directory import update_model, write_manifest
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest, sign_model
from ensemble_deid.model.signature import FILE, VARIABLE


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY.text}\n", encoding="ascii")
    return path


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def signed(model: Path, key: Path) -> Path:
    assert main(["model", "sign", str(model), "--key-file", str(key)]) == 0
    return model


def test_the_signature_is_hmac_over_the_checksum(signed: Path) -> None:
    checksum = json.loads((signed / "manifest.json").read_text(encoding="utf-8"))["checksum"]
    message = b"ensemble_deid model manifest\n" + checksum.encode()
    expected = hmac.new(KEY.secret, message, hashlib.sha256).hexdigest()
    assert (signed / FILE).read_text(encoding="ascii") == f"hmac-sha256 {expected}\n"


def test_a_signed_model_is_verified_and_loaded(
    signed: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "verify", str(signed), "--key-file", str(key)]) == 0
    assert "is whole and signed with this key" in capsys.readouterr().out
    load_model(signed, key=key)
    Deidentifier.load(signed, key=key)
    # A signature does not hinder those who have no key.
    load_model(signed)
    monkeypatch.setenv(VARIABLE, str(key))
    load_model(signed)


def edited(model: Path) -> None:
    """Change a file and make all hashes right again, as somebody who knows the format could."""
    path = model / "stacker.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "threshold": 1.0}), encoding="utf-8")
    write_manifest(model, read_manifest_unsigned(model))


def read_manifest_unsigned(model: Path) -> object:
    from ensemble_deid.model.manifest import Manifest

    content = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    del content["checksum"]
    content["labels"], content["rules_replaced"] = tuple(content["labels"]), tuple(content["rules_replaced"])
    return Manifest(**content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda model: (model / FILE).unlink(), "is not signed, and a key is configured"),
        (lambda model: (model / FILE).write_bytes(b"hmac-sha256 " + b"0" * 64 + b"\n"), "signed with another key"),
        (lambda model: (model / FILE).write_bytes(b""), "not a signature"),
        (lambda model: (model / FILE).write_bytes(b"\xff" * 77), "not a signature"),
        (edited, "or changed since"),
    ],
)
def test_without_the_right_signature_nothing_is_loaded(
    signed: Path,
    key: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path], object],
    said: str,
) -> None:
    change(signed)
    assert main(["audit", "verify", str(signed), "--key-file", str(key)]) == 2
    with pytest.raises(ModelError, match=said):
        Deidentifier.load(signed, key=key)
    monkeypatch.setenv(VARIABLE, str(key))
    capsys.readouterr()
    out = signed.parent / "out"
    for arguments in (
        ["predict", str(signed), "demo:dev", "--out", str(out)],
        ["predict", str(signed), "demo:dev", "--out", str(out), "--jobs", "2"],
        ["evaluate", "demo:dev", str(signed)],
        ["rules", "show", str(signed)],
        ["research", "ablate", str(signed), "demo:dev"],
        ["model", "export", str(signed), "--out", str(out)],
    ):
        assert main(arguments) == 2
        printed = capsys.readouterr()
        assert said in printed.err
        assert printed.err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("content", [b"", b"short\n", None])
def test_an_unusable_key_opens_nothing(
    signed: Path, key: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    if content is None:
        key.unlink()
    else:
        key.write_bytes(content)
    monkeypatch.setenv(VARIABLE, str(key))
    with pytest.raises(ModelError, match="key"):
        load_model(signed)
    with pytest.raises(ModelError, match="key"):
        sign_model(signed, key)


def test_an_empty_variable_opens_nothing(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(ModelError, match="the key file cannot be read"):
        load_model(signed)


def test_a_change_ends_the_signature(signed: Path, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(key))
    update_model(signed, lambda scratch, manifest: manifest)
    assert not (signed / FILE).exists()
    with pytest.raises(ModelError, match="is not signed"):
        read_manifest(signed)
    sign_model(signed, key)
    read_manifest(signed)


def test_a_signature_goes_with_an_export_only_where_the_manifest_stays(signed: Path, key: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    assert main(["model", "export", str(signed), "--out", str(out)]) == 0
    assert not (out / FILE).exists()
    sign_model(out, key)
    assert main(["model", "export", str(out), "--out", str(again)]) == 0
    assert main(["audit", "verify", str(again), "--key-file", str(key)]) == 0
