"""Models made to exhaust time or memory: each is refused at once, or bounded, whatever its hashes say."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounded_work import no_hang
from safetensors.numpy import load, save

from ensemble_deid.cli.main import main
from ensemble_deid.errors import ModelError
from ensemble_deid.features import patterns
from ensemble_deid.model.directory import write_manifest
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, read_manifest

Forge = Callable[[Path, Manifest], Manifest]


@pytest.fixture
def forged(tiny_model: Path, tmp_path: Path) -> Callable[[Forge], Path]:
    """Change a copy of a model and make its hashes right again."""

    def forge(change: Forge) -> Path:
        model = tmp_path / "model"
        shutil.copytree(tiny_model, model)
        write_manifest(model, change(model, read_manifest(model)))
        return model

    return forge


def with_config(section: str, **values: object) -> Forge:
    def change(_: Path, manifest: Manifest) -> Manifest:
        config: dict[str, Any] = json.loads(json.dumps(manifest.config))
        (config[section] if section else config).update(values)
        return replace(manifest, config=config)

    return change


def with_labels(model: Path, manifest: Manifest) -> Manifest:
    return replace(manifest, labels=tuple(f"L{k}" for k in range(3_000)))


def with_long_label(model: Path, manifest: Manifest) -> Manifest:
    return replace(manifest, labels=("L" * 1_000_000, *manifest.labels[1:]))


def with_vocabulary(model: Path, manifest: Manifest) -> Manifest:
    """A network of a million words, whose tables would take 16 GB with the largest dimension."""
    content = json.loads((model / "network.json").read_text(encoding="utf-8"))
    content["vocabularies"]["words"] = [str(k) for k in range(1_000_000)]
    (model / "network.json").write_text(json.dumps(content), encoding="utf-8")
    return with_config("neural", word_dimension=4096)(model, manifest)


def with_pieces(model: Path, manifest: Manifest) -> Manifest:
    source = (model / "patterns.toml").read_text(encoding="utf-8")
    doubling = "\n".join(f"w{k} = '(?&w{k - 1})(?&w{k - 1})'" for k in range(1, 31))
    (model / "patterns.toml").write_text(f"[words]\nw0 = 'a'\n{doubling}\n{source}", encoding="utf-8")
    return manifest


def with_nan(name: str) -> Forge:
    def change(model: Path, manifest: Manifest) -> Manifest:
        data = (model / name).read_bytes()
        length = int.from_bytes(data[:8], "little")
        arrays = {key: np.full_like(array, np.nan) for key, array in load(data).items()}
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__")
        (model / name).write_bytes(save(arrays, metadata=metadata))
        return manifest

    return change


FORGED: dict[str, tuple[Forge, str]] = {
    "a million sequences": (with_config("stack", n_best=1_000_000), "stack.n_best: Input should be less"),
    "endless sequences": (with_config("crf", max_sequence=10**12), "crf.max_sequence: Input should be less"),
    "a wide network": (with_config("neural", hidden=10**9), "neural.hidden: Input should be less"),
    "long kernels": (with_config("neural", kernel_sizes=[10**6]), "neural.kernel_sizes.0: Input should be less"),
    "many kernels": (with_config("neural", kernel_sizes=[2] * 10**5), "neural.kernel_sizes: Tuple should have at most"),
    "stanza models of another folder": (with_config("text", stanza="../../models"), "text.stanza: String should match"),
    "many windows": (with_config("crf", windows=["lower[0]"] * 10**5), "crf.windows: Tuple should have at most"),
    "thousands of labels": (with_labels, "3000 labels of up to 5 characters; 200 of up to 100 are possible"),
    "a long label": (with_long_label, "labels of up to 1000000 characters"),
    "a large vocabulary": (with_vocabulary, "the network's files are damaged"),
    "doubling pieces": (with_pieces, "longer than 1,000,000 characters"),
    "a network without numbers": (with_nan("network.safetensors"), "the network's files are damaged"),
    "a stacker without numbers": (with_nan("stacker.safetensors"), "a number in it is none"),
}


def memory(measure: str) -> int:
    """Return kB of this process: `VmRSS` now, or `VmHWM`, the most since `forget_the_most`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{measure}:")[2].split()[0])


def forget_the_most() -> None:
    """Let VmHWM begin anew: what other tests needed before has no say (see proc(5), `clear_refs`)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").is_file(), reason="memory is measured in /proc")
def test_the_measure_of_memory_sees_what_is_given_back() -> None:
    forget_the_most()
    before = memory("VmRSS")
    assert bytes(1) * 100_000_000
    assert memory("VmHWM") - before > 90_000
    forget_the_most()
    assert memory("VmHWM") - before < 50_000


@pytest.mark.skipif(not Path("/proc/self/clear_refs").is_file(), reason="memory is measured in /proc")
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_is_refused_at_once(forged: Callable[[Forge], Path], name: str) -> None:
    change, expected = FORGED[name]
    model = forged(change)
    forget_the_most()
    before = memory("VmRSS")
    with no_hang(), pytest.raises(ModelError) as caught:
        load_model(model)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert memory("VmHWM") - before < 1_000_000


@pytest.mark.parametrize("kept", [(), ("patterns.toml", "lexicon.json")])
def test_a_manifest_that_leaves_files_out_is_refused(tiny_model: Path, tmp_path: Path, kept: tuple[str, ...]) -> None:
    shutil.copytree(tiny_model, tmp_path, dirs_exist_ok=True)
    manifest = read_manifest(tmp_path)
    short = replace(manifest, files={name: manifest.files[name] for name in kept})
    (tmp_path / "manifest.json").write_text(short.to_json(), encoding="utf-8")
    with pytest.raises(ModelError, match=r"MODEL_CARD\.md: not part of the model"):
        load_model(tmp_path)


def test_a_regex_without_end_withholds_the_note_and_no_other(
    forged: Callable[[Forge], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def with_endless_regex(model: Path, manifest: Manifest) -> Manifest:
        path = model / "patterns.toml"
        source = path.read_text(encoding="utf-8")
        endless = "[[pattern]]\nname = 'endless'\nlabel = 'DATE'\nregex = '(?:a|a)*$'\n"
        path.write_text(source + endless, encoding="utf-8")
        return manifest

    monkeypatch.setattr(patterns, "_SECONDS", 0.3)
    model = forged(with_endless_regex)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "bad.txt").write_text("a" * 50 + "b", encoding="utf-8")
    (notes / "good.txt").write_text("Seen on 03/04/2019.", encoding="utf-8")
    assert main(["deidentify", str(model), str(notes), "--out", str(tmp_path / "out")]) == 3
    said = capsys.readouterr()
    assert said.err == "ensemble-deid: withheld: bad: the pattern endless takes too long on this note\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.txt"]
