"""Language models and encoders whose every weight meets every token."""

import transformers
from _made import of, tokens


def llama(batch=1, seq=64):
    return of(transformers, "LlamaConfig", "LlamaForCausalLM"), tokens(seq, batch)


def llama_decode():
    """One token of a batch of eight."""
    return of(transformers, "LlamaConfig", "LlamaForCausalLM"), tokens(1, batch=8)


def qwen3():
    return of(transformers, "Qwen3Config", "Qwen3ForCausalLM"), tokens()


def mistral():
    return of(transformers, "MistralConfig", "MistralForCausalLM"), tokens()


def gemma2():
    return of(transformers, "Gemma2Config", "Gemma2ForCausalLM"), tokens()


def olmo2():
    return of(transformers, "Olmo2Config", "Olmo2ForCausalLM"), tokens()


def phi():
    return of(transformers, "PhiConfig", "PhiForCausalLM", num_key_value_heads=4), tokens()


def gpt2():
    return of(transformers, "GPT2Config", "GPT2LMHeadModel"), tokens()


def gpt_neox():
    return of(transformers, "GPTNeoXConfig", "GPTNeoXForCausalLM"), tokens()


def opt():
    return of(transformers, "OPTConfig", "OPTForCausalLM"), tokens()


def bloom():
    return of(transformers, "BloomConfig", "BloomForCausalLM"), tokens()


def bert():
    return of(transformers, "BertConfig", "BertModel"), tokens()


def roberta():
    return of(transformers, "RobertaConfig", "RobertaModel"), tokens()


def distilbert():
    return of(transformers, "DistilBertConfig", "DistilBertModel"), tokens()


def electra():
    return of(transformers, "ElectraConfig", "ElectraModel"), tokens()


def albert():
    return of(transformers, "AlbertConfig", "AlbertModel"), tokens()


def deberta():
    return of(transformers, "DebertaV2Config", "DebertaV2Model"), tokens()


def t5_encoder():
    return of(transformers, "T5Config", "T5EncoderModel"), tokens()


def clip_text():
    return of(transformers, "CLIPTextConfig", "CLIPTextModel"), tokens()
