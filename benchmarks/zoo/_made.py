"""Models by configuration, with random weights: nothing is downloaded."""

import torch

SIZES = {
    "hidden_size": 256, "d_model": 256, "n_embd": 256, "dim": 256, "embedding_size": 256, "intermediate_size": 688,
    "d_ff": 688, "ffn_dim": 688, "encoder_ffn_dim": 688, "decoder_ffn_dim": 688, "hidden_dim": 688,
    "num_hidden_layers": 4, "num_layers": 4, "n_layer": 4, "n_layers": 4, "encoder_layers": 4, "decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "d_kv": 64, "vocab_size": 1024,
    "max_position_embeddings": 256, "n_positions": 256, "word_embed_proj_dim": 256,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "use_cache": False,
}  # fmt: skip
"""A small real shape, by the names that configurations use."""


def of(package, config, model, **sizes):
    """Return a model of a configuration: the sizes that it knows, and those that are given."""
    kind = getattr(package, config)
    known = kind().to_dict()
    torch.manual_seed(0)
    return getattr(package, model)(kind(**{**{k: v for k, v in SIZES.items() if k in known}, **sizes})).eval()


def tokens(count=64, batch=1):
    """Return the inputs of a language model."""
    return {"input_ids": torch.randint(3, 1000, (batch, count))}


def image(side=64, batch=1, channels=3):
    """Return the inputs of a model of images."""
    return {"pixel_values": torch.randn(batch, channels, side, side)}
