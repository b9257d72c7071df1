"""Name → a small model of that architecture with random weights, by transformers; nothing is downloaded."""

import importlib
from dataclasses import dataclass

from ..errors import MissingToolError, TaskError, known_names

_SIZES = {
    "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 256,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
_INPUTS = {
    "tokens": '{"input_ids": torch.randint(0, 1024, (1, 64))}',
    "image": '{"pixel_values": torch.randn(1, 3, 64, 64)}',
    "sound": '{"input_features": torch.randn(1, 80, 128)}',
}
"""Inputs of one call, as Python."""


@dataclass(frozen=True)
class Configuration:
    """How a small model of an architecture is made."""

    config: str
    """Class of its configuration in transformers."""
    model: str
    """Class of the model."""
    sizes: dict[str, int | bool | list[int]]
    """Sizes other than the usual ones, by the configuration's names."""
    inputs: str = "tokens"
    """What one call takes: `tokens`, `image` or `sound`."""


CONFIGURATIONS = {
    "llama": Configuration("LlamaConfig", "LlamaForCausalLM", {}),
    "qwen2": Configuration("Qwen2Config", "Qwen2ForCausalLM", {}),
    "mistral": Configuration("MistralConfig", "MistralForCausalLM", {}),
    "gpt2": Configuration("GPT2Config", "GPT2LMHeadModel", {"n_embd": 256, "n_layer": 4, "n_head": 4}),
    "bert": Configuration("BertConfig", "BertModel", {}),
    "mamba": Configuration("MambaConfig", "MambaForCausalLM", {"state_size": 8}),
    "t5-encoder": Configuration(
        "T5Config", "T5EncoderModel", {"d_model": 256, "d_kv": 64, "d_ff": 688, "num_layers": 4, "num_heads": 4}
    ),
    "vit": Configuration("ViTConfig", "ViTModel", {"image_size": 64, "patch_size": 8}, "image"),
    "whisper-encoder": Configuration(
        "WhisperConfig", "WhisperModel",
        {"d_model": 256, "encoder_layers": 4, "encoder_attention_heads": 4, "encoder_ffn_dim": 688,
         "max_source_positions": 64, "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 64},
        "sound",
    ),
}  # fmt: skip
"""Architectures by name, each at a size that a small machine calls in milliseconds."""


def build_text(name: str) -> str:
    """Return Python whose `build()` returns the model of an architecture, and the inputs of one call by name.

    Raises:
        TaskError: no architecture of that name.
        MissingToolError: transformers is not installed.
    """
    found = CONFIGURATIONS.get(name)
    if found is None:
        raise TaskError(f"no architecture is called {name!r}; {known_names(name, CONFIGURATIONS)}")
    try:
        package = importlib.import_module("transformers")
    except ImportError:
        raise MissingToolError(
            f"hf:{name} needs the package transformers: pip install 'kernelwright[transformers]'"
        ) from None
    config = getattr(package, found.config)
    known = config().to_dict()
    sizes = {k: v for k, v in {**_SIZES, **found.sizes, "use_cache": False}.items() if k in known}
    part = ".get_encoder()" if found.inputs == "sound" else ""
    return _TEXT.format(
        config=found.config, model=found.model, sizes=repr(sizes), part=part, inputs=_INPUTS[found.inputs]
    )


_TEXT = """import torch
from transformers import {config}, {model}


def build():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = {model}({config}(**{sizes})).eval(){part}
    return module, {inputs}
"""
