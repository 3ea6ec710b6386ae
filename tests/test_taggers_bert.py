"""Our own forward pass of BERT, against that of the library `transformers`."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, no_progress, tiny_batch, tiny_notes
from transformers import BertConfig, BertModel

from ensemble_deid.config import TransformerConfig
from ensemble_deid.taggers.transformer.network import BertEncoder, encoder_to_read, is_plain_bert
from ensemble_deid.taggers.transformer.tagger import TransformerTagger

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 30,
}


@pytest.fixture(scope="module")
def both() -> tuple[BertModel, BertEncoder]:
    """The library's model and ours with the same random weights."""
    torch.manual_seed(5)
    theirs = BertModel(BertConfig(**SIZES)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(-0.5, 0.5)
    ours = BertEncoder(theirs.config.to_dict()).eval()
    # All names and shapes are the same, or this would fail.
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("padding", [0, 4])
def test_it_computes_what_the_library_computes(both: tuple[BertModel, BertEncoder], padding: int) -> None:
    theirs, ours = both
    torch.manual_seed(6)
    ids = torch.randint(0, 50, (3, 17))
    mask = None
    if padding:
        mask = torch.ones(3, 17, dtype=torch.long)
        mask[1, -padding:] = 0
    with torch.inference_mode():
        embedded = ours.get_input_embeddings()(ids)
        found = ours(embedded, mask).last_hidden_state
        expected = theirs(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
    valid = torch.ones(3, 17, dtype=torch.bool) if mask is None else mask.bool()
    torch.testing.assert_close(found[valid], expected[valid], atol=1e-5, rtol=1e-4)


def test_only_a_plain_bert_is_read_by_it(both: tuple[BertModel, BertEncoder]) -> None:
    config = both[0].config.to_dict()
    assert is_plain_bert(config)
    assert not is_plain_bert({})
    for change in ({"model_type": "roberta"}, {"hidden_act": "relu"}, {"is_decoder": True}):
        assert not is_plain_bert({**config, **change})
    assert isinstance(encoder_to_read({**config, "hidden_act": "relu"}), BertModel)
    with pytest.raises(ValueError, match="more than 100 layers"):
        encoder_to_read({**config, "num_hidden_layers": 101})


def test_a_model_is_read_without_what_only_training_needs(tmp_path: Path) -> None:
    config = TransformerConfig(encoder=tiny_encoder(), window=40, overlap=8, epochs=1, batch_pieces=200)
    batch = tiny_batch(tiny_notes(4))
    TransformerTagger.fit(batch, None, scheme=SCHEME, config=config, seed=1, device="cpu", progress=no_progress).save(
        tmp_path
    )
    code = (
        "import sys; from pathlib import Path\n"
        "from ensemble_deid.config import TransformerConfig\n"
        "from ensemble_deid.deidentify import deidentifier\nfrom ensemble_deid.model import directory\n"
        "from ensemble_deid.taggers.transformer.tagger import TransformerTagger\n"
        "from ensemble_deid.note.tags import TagScheme\n"
        f"TransformerTagger.load(Path({str(tmp_path)!r}), scheme=TagScheme({SCHEME.labels!r}),"
        f" config=TransformerConfig(encoder={config.encoder!r}), device='cpu')\n"
        "print([name for name in ('transformers', 'sklearn', 'scipy.stats', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
