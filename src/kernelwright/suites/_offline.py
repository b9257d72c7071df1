"""Problems that read a model's configuration and weights from the network: a small one of the same kind instead."""

import re

_NAMED = re.compile(r'^model_name = "(.*)"', re.MULTILINE)
_KINDS = {
    "gpt2": "'gpt2', n_layer=2, n_embd=64, n_head=4",
    "EleutherAI/gpt-neo-2.7B": (
        "'gpt_neo', num_layers=2, hidden_size=64, num_heads=4, attention_types=[[['global', 'local'], 1]]"
    ),
    "facebook/opt-1.3b": (
        "'opt', num_hidden_layers=2, hidden_size=64, ffn_dim=128, num_attention_heads=4, word_embed_proj_dim=64"
    ),
    "facebook/bart-large": (
        "'bart', d_model=64, encoder_layers=2, decoder_layers=2, decoder_ffn_dim=128, encoder_ffn_dim=128, "
        "decoder_attention_heads=4"
    ),
    "google/bigbird-roberta-base": (
        "'big_bird', num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, is_decoder=True"
    ),
    "google/electra-small-discriminator": (
        "'electra', num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, is_decoder=True"
    ),
    "google/reformer-enwik8": (
        "'reformer', is_decoder=True, vocab_size=258, hidden_size=64, attention_head_size=16, num_attention_heads=2, "
        "feed_forward_size=64, axial_pos_embds_dim=(16, 48), attn_layers=('local', 'lsh'), num_buckets=8, hash_seed=0"
    ),
}


def offline(text: str) -> str:
    """Put a small configuration and random weights in the place of those on the network; other texts stay.

    Example:
        >>> offline('model_name = "gpt2"\\nc = AutoConfig.from_pretrained(model_name)').splitlines()[1]
        "c = AutoConfig.for_model('gpt2', n_layer=2, n_embd=64, n_head=4)"
    """
    found = _NAMED.search(text)
    if found is None or found[1] not in _KINDS:
        return text
    text = text.replace("AutoConfig.from_pretrained(model_name)", f"AutoConfig.for_model({_KINDS[found[1]]})")
    made = (
        "from_config(self.config)\n        self.eval()"  # the mode in which `from_pretrained` leaves a model
    )
    return text.replace("from_pretrained(self.model_name, config=self.config)", made)
