"""Signed models: where keys are trusted, nothing but a model that one of them signed is loaded."""

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.keys import SigningKey, TrustedKeys, key_fingerprint
from ensemble_deid.model.directory import update_model, write_manifest
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import SIGNATURE as FILE
from ensemble_deid.model.manifest import VARIABLE, read_manifest, sign_model


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key; the public one is beside it."""
    path = tmp_path / "officer.pem"
    assert main(["keygen", str(path), "--signing"]) == 0
    return path


@pytest.fixture
def trust(key: Path) -> Path:
    return key.with_name("officer.pem.pub")


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def signed(model: Path, key: Path) -> Path:
    assert main(["model", "sign", str(model), "--key", str(key)]) == 0
    return model


def test_a_pair_of_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, trust = tmp_path / "officer.pem", tmp_path / "officer.pem.pub"
    assert main(["keygen", str(key), "--signing"]) == 0
    said = capsys.readouterr().out
    public = SigningKey.from_file(key).public
    assert trust.read_text(encoding="utf-8") == f"officer: ed25519 {public}\n"
    assert key_fingerprint(public) in said
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert public not in repr(SigningKey.from_file(key))
    assert main(["keygen", str(key), "--signing"]) == 2
    key.unlink()
    # The public key of an earlier pair is not overwritten either.
    assert main(["keygen", str(key), "--signing"]) == 2
    assert not key.exists()


def test_the_signature_is_ed25519_over_the_checksum(signed: Path, key: Path) -> None:
    checksum = json.loads((signed / "manifest.json").read_text(encoding="utf-8"))["checksum"]
    kind, public, signature = (signed / FILE).read_text(encoding="ascii").split()
    assert (kind, public) == ("ed25519", SigningKey.from_file(key).public)
    verifier = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    verifier.verify(bytes.fromhex(signature), b"ensemble_deid model\n" + checksum.encode())


def test_a_signature_is_for_one_purpose_and_of_one_list(key: Path, trust: Path, tmp_path: Path) -> None:
    signature, trusted = SigningKey.from_file(key).sign("model", b"x"), TrustedKeys.from_file(trust)
    assert trusted.check(signature, "model", b"x").startswith("officer (")
    for purpose, content in (("release", b"x"), ("model", b"y")):
        with pytest.raises(ConfigError, match="not valid"):
            trusted.check(signature, purpose, content)
    other = tmp_path / "other.pem"
    assert main(["keygen", str(other), "--signing"]) == 0
    beside = other.with_name("other.pem.pub")
    signer = key_fingerprint(SigningKey.from_file(key).public)
    with pytest.raises(ConfigError, match=f"{signer}, which .* does not list"):
        TrustedKeys.from_file(beside).check(signature, "model", b"x")
    both = tmp_path / "trusted"
    both.write_text(f"# of the site\n{trust.read_text()}\n{beside.read_text()}", encoding="ascii")
    assert TrustedKeys.from_file(both).check(signature, "model", b"x").startswith("officer (")
    both.write_text("officer: ed25519 00\n", encoding="ascii")
    with pytest.raises(ConfigError, match="line 1: not a public key"):
        TrustedKeys.from_file(both)


def test_a_signed_model_is_verified_and_loaded(
    signed: Path, trust: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "verify", str(signed), "--trust", str(trust)]) == 0
    assert "is whole and signed by officer (" in capsys.readouterr().out
    assert main(["audit", "verify", str(signed)]) == 2
    load_model(signed, trust=trust)
    Deidentifier.load(signed, trust=trust)
    # A signature does not hinder those who trust no key.
    load_model(signed)
    monkeypatch.setenv(VARIABLE, str(trust))
    load_model(signed)
    assert main(["audit", "verify", str(signed)]) == 0


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
        (lambda model: (model / FILE).unlink(), "is not signed, and trusted keys are configured"),
        (lambda model: (model / FILE).write_bytes(b"ed25519 " + b"0" * 64 + b" " + b"0" * 128), "does not list"),
        (lambda model: (model / FILE).write_bytes(b""), "not a signature"),
        (lambda model: (model / FILE).write_bytes(b"\xff" * 77), "not a signature"),
        (edited, "was changed since"),
    ],
)
def test_without_the_right_signature_nothing_is_loaded(
    signed: Path,
    trust: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path], object],
    said: str,
) -> None:
    change(signed)
    assert main(["audit", "verify", str(signed), "--trust", str(trust)]) == 2
    with pytest.raises(ModelError, match=said):
        Deidentifier.load(signed, trust=trust)
    monkeypatch.setenv(VARIABLE, str(trust))
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


@pytest.mark.parametrize("content", [b"", b"short\n", b"-----BEGIN PRIVATE KEY-----\n", None])
def test_an_unusable_key_opens_nothing(
    signed: Path, key: Path, trust: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    for path in (key, trust):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    monkeypatch.setenv(VARIABLE, str(trust))
    with pytest.raises(ModelError, match=r"officer\.pem\.pub"):
        load_model(signed)
    with pytest.raises(ConfigError, match=r"officer\.pem: "):
        sign_model(signed, key)


def test_an_empty_variable_opens_nothing(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(signed)


def test_a_change_ends_the_signature(signed: Path, key: Path, trust: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(trust))
    update_model(signed, lambda scratch, manifest: manifest)
    assert not (signed / FILE).exists()
    with pytest.raises(ModelError, match="is not signed"):
        read_manifest(signed)
    sign_model(signed, key)
    read_manifest(signed)


def test_a_signature_goes_with_an_export_only_where_the_manifest_stays(
    signed: Path, key: Path, trust: Path, tmp_path: Path
) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    assert main(["model", "export", str(signed), "--out", str(out)]) == 0
    assert not (out / FILE).exists()
    sign_model(out, key)
    assert main(["model", "export", str(out), "--out", str(again)]) == 0
    assert main(["audit", "verify", str(again), "--trust", str(trust)]) == 0
