"""Language models whose layers route tokens to experts."""

import transformers
from _made import of, tokens


def mixtral():
    return of(transformers, "MixtralConfig", "MixtralForCausalLM", num_local_experts=4), tokens()


def qwen2_moe():
    sizes = {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 172,
        "shared_expert_intermediate_size": 344,
    }
    return of(transformers, "Qwen2MoeConfig", "Qwen2MoeForCausalLM", **sizes), tokens()


def olmoe():
    sizes = {"num_experts": 8, "num_experts_per_tok": 2, "num_key_value_heads": 4}
    return of(transformers, "OlmoeConfig", "OlmoeForCausalLM", **sizes), tokens()


def granite_moe():
    sizes = {"num_local_experts": 8, "num_experts_per_tok": 2}
    return of(transformers, "GraniteMoeConfig", "GraniteMoeForCausalLM", **sizes), tokens()
