"""Models of transformers by name or by configuration: small ones with random weights, and what is said of others."""

import json

import pytest
import torch

from kernelwright.errors import TaskError
from kernelwright.models import capture_step, load_model
from kernelwright.models._configurations import build_text

pytestmark = [pytest.mark.needs("transformers"), pytest.mark.filterwarnings("ignore")]  # transformers' own


def called(name):
    """Return a model's name, its inputs by name, and its first result."""
    loaded = load_model(name)
    with torch.no_grad():
        first, *_ = loaded.whole(*loaded.whole.tensors)
    return loaded, sorted(loaded.kwargs), first


KINDS = {
    "gpt2": (["input_ids"], (1, 64, 1024)),
    "roberta": (["input_ids"], (1, 64, 256)),
    "vit": (["pixel_values"], (1, 65, 256)),
    "clip": (["input_ids", "pixel_values"], None),
    "t5": (["decoder_input_ids", "input_ids"], (1, 64, 256)),
    "t5-encoder": (["input_ids"], (1, 64, 256)),
    "whisper-encoder": (["input_features"], (1, 64, 256)),
    "qwen3-moe": (["input_ids"], (1, 64, 1024)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_a_small_model_that_can_be_called(kind):
    loaded, names, first = called(f"hf:{kind}")
    expected, shape = KINDS[kind]
    assert names == expected and loaded.name == kind.replace("-", "_")
    assert shape is None or first.shape == shape
    assert sum(p.numel() for p in loaded.module.parameters()) < 20e6


def test_a_name_stands_for_the_same_weights_each_time():
    one, other = (load_model("hf:bert").module.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_configuration_is_taken_at_its_sizes(tmp_path, named):
    folder = tmp_path / "mine"
    folder.mkdir()
    config = {"model_type": "llama", "hidden_size": 96, "intermediate_size": 100, "num_hidden_layers": 1,
              "num_attention_heads": 3, "vocab_size": 200}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    loaded, names, first = called(f"hf:{folder}{'/config.json' if named == 'file' else ''}")
    assert loaded.name == "mine" and names == ["input_ids"] and first.shape == (1, 64, 200)
    assert int(loaded.args == ()) and loaded.kwargs["input_ids"].max() < 200


REFUSED = {
    "robarta": "no architecture is called 'robarta' in transformers .*; did you mean 'roberta'",
    "decision_transformer": "could not be made and called .*its main input is 'states'.*write a function build()",
    "longcat_flash": "million parameters at its smallest; 300 at most",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_made_is_said_in_a_sentence(name):
    with pytest.raises(TaskError, match=REFUSED[name]):
        build_text(name)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model_type": 3'])
def test_a_file_that_is_no_configuration_is_said_to_be_none(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(
        TaskError, match="is no configuration of transformers: expected JSON with a model_type"
    ):
        build_text(str(path))


LOSSES = {"bert": "MaskedLM", "gpt2": "CausalLM"}


@pytest.mark.long
@pytest.mark.parametrize("kind", LOSSES)
def test_a_name_is_a_model_with_a_loss_where_it_is_to_be_trained(kind):
    """Of bert, a tied bias has a name without a gradient; gpt2 has a graph only if it is exported first."""
    loaded = load_model(f"hf:{kind}", training=True)
    loaded.module.train()
    step = capture_step(loaded)
    assert LOSSES[kind] in loaded.text and step.form.others == 1 and step.form.drawn


def test_an_encoder_alone_has_no_loss():
    with pytest.raises(TaskError, match="hf:bert-encoder has no loss that is known here; write a function"):
        load_model("hf:bert-encoder", training=True)
