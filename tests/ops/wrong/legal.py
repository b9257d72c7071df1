"""A legal call of every public function of the library, small: what wrong calls are made of.

Optimizers are not here: their constructors, and what those say, are torch's.
"""

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.ops import (
    activations,
    attention,
    blr,
    conv,
    embedding,
    gemm,
    graph,
    image,
    kmeans,
    logits,
    loss,
    lowbit,
    moe,
    neighbours,
    norms,
    optim,
    rope,
    scan,
    sparse,
)  # fmt: skip

Call = tuple[Callable[..., Any], dict[str, Any]]


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def ints(*numbers: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype)


def csr(rows: int, columns: int) -> torch.Tensor:
    return floats(rows, columns).relu().to_sparse_csr()


def edges() -> graph.RelationalGraph:
    return graph.RelationalGraph(torch.tensor([[0, 1, 1], [2, 2, 0]]), ints(0, 0, 1), nodes=3, relations=2)


def words(*shape: int) -> torch.Tensor:
    return torch.randint(-(1 << 31), 1 << 31, shape, dtype=torch.int32)


def of_activations() -> list[Call]:
    two = {"gate": floats(3, 5), "up": floats(3, 5)}
    return [
        (activations.swiglu, two), (activations.geglu, two | {"approximate": "tanh"}),
        (activations.swiglu, {"gate": floats(3, 6)}),
        (activations.silu, {"x": floats(7)}), (activations.gelu, {"x": floats(2, 3), "approximate": "none"}),
    ]  # fmt: skip


def of_attention() -> list[Call]:
    q, k = floats(1, 4, 5, 8), floats(1, 2, 6, 8)
    heads = {"sinks": floats(4), "alibi": floats(4)}
    cache, codes = floats(3, 4, 2, 8), torch.randint(-127, 127, (3, 4, 2, 8), dtype=torch.int8)
    scales = torch.rand(3, 4, 2)
    pairs, parts = attention.quantize(floats(3, 4, 2, 64), 4)
    whole = {"lengths": ints(1, 4, dtype=torch.int32), "window": 3, "scale": 0.3, "soft_cap": 5.0, **heads}
    lines = {"q": floats(5, 4, 8), "k": floats(6, 2, 8), "v": floats(6, 2, 8), "q_starts": ints(0, 2, 5)}
    return [
        (attention.attention, {"q": q, "k": k, "v": k, "mask": attention.masks.Causal(), **heads}),
        (attention.attention, {"q": q, "k": k, "v": k, "mask": torch.ones(5, 6) > 0, "scale": 0.5, "soft_cap": 3.0}),
        (attention.attention, {"q": q, "k": k, "v": k, "mask": ints(0, 6).int().expand(5, 1, 2).contiguous(),
                               "return_lse": True}),
        (attention.varlen, {**lines, "k_starts": ints(0, 3, 6), "causal": True, "window": 2, "scale": 0.1,
                            "soft_cap": 2.0, "sinks": floats(4)}),
        (attention.decode, {"q": floats(2, 4, 8), "k_cache": cache, "v_cache": cache, **whole}),
        (attention.decode, {"q": floats(2, 4, 8), "k_cache": codes, "v_cache": codes, "k_scales": scales,
                            "v_scales": scales, "pages": ints(2, 0, dtype=torch.int32)[:, None], **whole}),
        (attention.decode, {"q": floats(2, 4, 64), "k_cache": pairs, "v_cache": pairs, "k_scales": parts,
                            "v_scales": parts, **whole}),
        (attention.quantize, {"x": floats(3, 8)}), (attention.quantize, {"x": floats(3, 64), "bits": 4, "group": 32}),
    ]  # fmt: skip


def of_blr() -> list[Call]:
    sizes = {"groups": 4, "blocks": 2}
    return [
        (blr.monarch, {"x": floats(3, 32), "first": floats(4, 8, 8), "second": floats(4, 5, 8)}),
        (blr.blast, {"x": floats(3, 32), "right": floats(4, 8, 2), "scale": floats(3, 4, 2), "left": floats(3, 5, 2)}),
        (blr.monarch_factors, {"weight": floats(8, 8), **sizes, "rank": 1}),
        (blr.blast_factors, {"weight": floats(8, 8), **sizes, "rank": 3, "rounds": 2}),
        (blr.MonarchLinear, {"in_features": 8, "out_features": 12, "rank": 2, "blocks": 4, "groups": 3, "bias": True}),
        (blr.BlastLinear, {"in_features": 8, "out_features": 12, "rank": 2, "blocks": 4, "groups": 3, "bias": False}),
    ]  # fmt: skip


def of_conv() -> list[Call]:
    image_of = {"x": floats(1, 4, 6, 7), "weight": floats(6, 2, 3, 3), "bias": floats(6), "groups": 2}
    line = {"x": floats(2, 4, 9), "weight": floats(4, 1, 3), "bias": floats(4), "groups": 4}
    return [
        (conv.conv1d, {**line, "padding": "causal", "activation": "silu"}),
        (conv.conv1d, {**line, "padding": 1, "stride": 2, "dilation": 2}),
        (conv.conv2d, {**image_of, "stride": (1, 2), "padding": [1, 0], "dilation": 1, "activation": "relu"}),
        (conv.conv2d, {**image_of, "padding": "same"}),
    ]


def of_embedding() -> list[Call]:
    table = {"ids": ints(0, 3, 4, 1), "weight": floats(5, 3)}
    return [
        (embedding.embedding, {**table, "padding_idx": 1}),
        (embedding.embedding_bag, {**table, "offsets": ints(0, 2), "mode": "sum", "per_sample_weights": floats(4),
                                   "include_last_offset": False, "padding_idx": None}),
        (embedding.embedding_bag, {**table, "offsets": ints(0, 2, 4), "mode": "max", "include_last_offset": True}),
        (embedding.embedding_bag, {**table, "ids": torch.tensor([[0, 1], [4, 2]]), "mode": "mean"}),
    ]  # fmt: skip


def of_gemm() -> list[Call]:
    whole, b = torch.ones(3, 8, dtype=torch.int8), torch.ones(8, 5, dtype=torch.int8)
    after = {"bias": floats(5), "activation": "gelu", "gate": floats(3, 5), "residual": floats(3, 5)}
    return [
        (gemm.matmul, {"a": floats(3, 8), "b": floats(8, 5), **after}),
        (gemm.matmul, {"a": floats(3, 8), "b": gemm.pack(floats(8, 5), follow=False), **after}),
        (gemm.matmul, {"a": floats(3, 8), "b": gemm.pack(floats(8, 5))}),
        (gemm.int_mm, {"a": whole, "b": gemm.pack(b, follow=False), "row_scale": floats(3), "column_scale": floats(5),
                       "bias": floats(5), "activation": "relu"}),
        (gemm.int_mm, {"a": whole, "b": gemm.pack(b)}),
        (gemm.pack, {"b": floats(8, 5), "follow": True}),
        (gemm.faster_natively, {"rows": 3, "columns": 5, "inner": 8, "dtype": torch.float32}),
    ]  # fmt: skip


def of_graph() -> list[Call]:
    x, weight = floats(3, 4), floats(2, 4, 6)
    wide, square = floats(3, 2, 4), floats(2, 2, 4, 4)
    return [
        (graph.RelationalGraph, {"edge_index": torch.tensor([[0, 1], [2, 2]]), "edge_type": ints(0, 1), "nodes": 3,
                                 "relations": 2}),
        (graph.edge_softmax, {"first": ints(0, 1, 3), "scores": floats(3, 2)}),
        (graph.rgcn, {"x": x, "graph": edges(), "weight": weight, "root": floats(4, 6), "bias": floats(6),
                      "aggregate": "sum"}),
        (graph.rgat, {"x": x, "graph": edges(), "weight": weight, "query": floats(6, 2), "key": floats(6, 2),
                      "slope": 0.1, "bias": floats(6)}),
        (graph.hgt, {"query": wide, "key": wide, "value": wide, "graph": edges(), "key_weight": square,
                     "value_weight": square, "prior": floats(2, 2)}),
    ]  # fmt: skip


def of_image() -> list[Call]:
    return [
        (image.resize, {"x": floats(1, 2, 4, 5), "size": (3, 7), "mode": "bicubic", "antialias": True}),
        (image.resize, {"x": floats(1, 2, 4, 5), "size": 3, "mode": "nearest"}),
        (
            image.nms,
            {"boxes": floats(6, 4), "scores": floats(6), "threshold": 0.4, "classes": ints(0, 1, 0, 1, 2, 2)},
        ),
    ]


def of_kmeans() -> list[Call]:
    rows = {"x": floats(20, 3), "centroids": floats(4, 3), "shift": floats(3)}
    settings = {"n_clusters": 3, "init": "k-means++", "n_init": 1, "max_iter": 3, "tol": 1e-3, 
                "random_state": 1, "X": floats(20, 3), "sample_weight": torch.rand(20)}  # fmt: skip
    return [
        (kmeans.assign, rows), (kmeans.step, {**rows, "weights": torch.rand(20)}), (fitted, settings),
        (fitted_in_batches, {**settings, "batch_size": 8, "max_no_improvement": 2}),
    ]  # fmt: skip


def soon(count: Any) -> Any:
    """Return a number of iterations or starts that a test waits for."""
    return min(count, 9) if isinstance(count, int) else count


def fitted(X: Any, sample_weight: Any, max_iter: Any, n_init: Any, **settings: Any) -> kmeans.KMeans:
    return kmeans.KMeans(max_iter=soon(max_iter), n_init=soon(n_init), **settings).fit(
        X, sample_weight=sample_weight
    )


def fitted_in_batches(
    X: Any, sample_weight: Any, max_iter: Any, n_init: Any, **settings: Any
) -> kmeans.MiniBatchKMeans:
    return kmeans.MiniBatchKMeans(max_iter=soon(max_iter), n_init=soon(n_init), **settings).fit(
        X, sample_weight=sample_weight
    )


def of_logits() -> list[Call]:
    rows = {"x": floats(3, 4), "weight": floats(9, 4), "bias": floats(9)}
    return [
        (logits.argmax, rows), (logits.logsumexp, {**rows, "softcap": 3.0}),
        (logits.top_k, {**rows, "count": 3, "softcap": 2.0}),
        (logits.log_probs, {**rows, "tokens": ints(0, 8, -100), "softcap": 3.0, "ignore_index": -100}),
        (logits.sample, {**rows, "seed": 3, "count": 5, "temperature": 0.7, "top_p": 0.9, "min_p": 0.1,
                         "softcap": 5.0}),
    ]  # fmt: skip


def of_loss() -> list[Call]:
    rows = {"x": floats(3, 4), "weight": floats(9, 4), "target": ints(0, 8, -100), "bias": floats(9)}
    more = {"ignore_index": -100, "label_smoothing": 0.1, "z_loss": 0.1, "softcap": 3.0}
    return [
        (loss.linear_cross_entropy, {**rows, **more, "reduction": "mean"}),
        (loss.linear_cross_entropy, {**rows, "x": floats(3, 4).requires_grad_(), "reduction": "none"}),
        (loss.linear_cross_entropy, {**rows, "x": floats(3, 4).requires_grad_(), "reduction": "sum"}),
    ]


def of_lowbit() -> list[Call]:
    weight = floats(5, 64)
    codes = torch.randint(0, 16, (5, 64), dtype=torch.uint8)
    half = torch.rand(2, 8).half()
    return [
        (lowbit.pack, {"weight": weight, "bits": 4, "group": 32, "kind": "int", "symmetric": False,
                       "scale_dtype": torch.bfloat16}),
        (lowbit.pack, {"weight": weight, "bits": None, "group": 0, "kind": "e2m1", "symmetric": True,
                       "scale_dtype": torch.float32}),
        (lowbit.unpack, {"packed": lowbit.pack(weight), "dtype": torch.float32}),
        (lowbit.of, {"codes": codes, "scales": floats(5, 2), "zeros": codes[:, :2], "bits": 4, "group": 32,
                     "exponent": 0, "zero": 0, "order": torch.randperm(64)}),
        (lowbit.linear, {"x": floats(3, 64), "packed": lowbit.pack(weight), "bias": floats(5), "activations": "int8"}),
        (lowbit.linear, {"x": floats(64), "packed": lowbit.pack(weight, 8), "bias": None, "activations": "float"}),
        (lowbit.from_gguf, {"data": torch.zeros(2 * 2 * 18, dtype=torch.uint8), "kind": "Q4_0", "shape": (2, 64)}),
        (lowbit.from_awq, {"qweight": words(64, 1), "qzeros": words(2, 1), "scales": half}),
        (lowbit.from_gptq, {"qweight": words(8, 8), "qzeros": words(2, 1), "scales": half,
                            "g_idx": torch.arange(64) // 32, "bits": 4, "zeros_plus_one": True}),
        (lowbit.LowBitLinear, {"packed": lowbit.pack(weight), "bias": floats(5), "activations": "float"}),
    ]  # fmt: skip


def of_moe() -> list[Call]:
    panels = moe.pack_groups(floats(2, 5, 8))
    packed = moe.pack(floats(4, 64, 32), floats(4, 32, 32), shared=(floats(64, 32), floats(32, 32)))
    return [
        (moe.gate, {"logits": floats(3, 8), "chosen": 2, "bias": floats(8), "sigmoid": True, "groups": 4, "kept": 2,
                    "best_of_group": 2, "renormalised": True, "scale": 2.0}),
        (moe.plan, {"ids": torch.randint(-1, 3, (4, 2)), "groups": 3}),
        (moe.grouped_mm, {"x": floats(4, 8), "panels": panels, "offsets": ints(0, 1, 4), "columns": 5,
                          "gather": ints(3, 0, 1, 1), "scatter": ints(0, 0, 2, 5), "weights": floats(6), "rows": 6}),
        (moe.experts, {"x": floats(3, 32), "packed": packed, "weights": torch.rand(3, 2),
                       "ids": torch.randint(0, 4, (3, 2))}),
        (moe.quantized_experts, {"x": floats(3, 32), "packed": moe.quantize(floats(4, 64, 32), floats(4, 32, 32)),
                                 "weights": torch.rand(3, 2), "ids": torch.randint(0, 4, (3, 2)),
                                 "activations": "float"}),
        (moe.quantize, {"gates_and_ups": floats(2, 6, 8), "downs": floats(2, 8, 3), "bits": 4, "group": 32,
                        "kind": "int", "symmetric": True, "shared": (floats(6, 8), floats(8, 3))}),
        (moe.load, {"ids": torch.randint(0, 4, (3, 2)), "experts": 4}),
        (moe.pack, {"gates_and_ups": floats(2, 6, 8), "downs": floats(2, 8, 3),
                    "shared": (floats(6, 8), floats(8, 3))}),
        (moe.pack_groups, {"weight": floats(2, 5, 8)}),
    ]  # fmt: skip


def of_neighbours() -> list[Call]:
    rows = {"x": floats(3, 4), "points": floats(9, 4), "count": 3}
    return [
        (neighbours.nearest, {**rows, "metric": metric})
        for metric in ("sqeuclidean", "inner_product", "cosine")
    ]


def of_norms() -> list[Call]:
    x, scale = floats(3, 8), floats(8)
    return [
        (norms.rms_norm, {"x": x, "weight": scale, "eps": 1e-6, "offset": 1.0}),
        (norms.add_rms_norm, {"x": x, "residual": floats(3, 8), "weight": scale, "eps": 1e-6, "offset": 0.0}),
        (norms.layer_norm, {"x": x, "weight": scale, "bias": floats(8), "eps": 1e-5}),
        (norms.group_norm_silu, {"x": floats(2, 8, 3), "weight": scale, "bias": floats(8), "groups": 4, "eps": 1e-5,
                                 "silu": True}),
    ]  # fmt: skip


def of_optim() -> list[Call]:
    def of_two() -> list[torch.Tensor]:
        return [torch.rand(3, 4), torch.rand(3, 4)]

    one = {"param": torch.rand(3), "grad": torch.rand(3), "mean": torch.rand(3)}
    numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "maximize": False}
    both = {"params": of_two(), "grads": of_two()}
    rates = {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.1, "maximize": False}
    factored = {
        "lr": 0.1,
        "beta2_decay": -0.8,
        "eps": (None, 1e-3),
        "d": 1.0,
        "weight_decay": 0.0,
        "maximize": True,
    }
    means = {
        "rows": [torch.rand(3, 1), None],
        "columns": [torch.rand(1, 4), None],
        "variances": [None, torch.rand(5)],
    }
    return [
        (optim.adamw_, {**both, "means": of_two(), "squares": of_two(), "largest": of_two(), "steps": [1, 2.0], **rates,
                        "eps": 1e-8}),
        (optim.adamw, {**one, "square": torch.rand(3), "largest": torch.rand(3), "step": 2, **numbers, "eps": 1e-8}),
        (optim.lion, {**one, **numbers}),
        (optim.adafactor, {"param": torch.rand(3, 4), "grad": torch.rand(3, 4), "row": torch.rand(3, 1),
                           "column": torch.rand(1, 4), "step": 2, "lr": 0.1, "beta2_decay": -0.8, "eps1": 1e-7,
                           "eps2": 1e-3, "d": 1.0, "weight_decay": 0.0, "maximize": False}),
        (optim.lion_, {**both, "means": of_two(), **rates}),
        (optim.adafactor_, {"params": [torch.rand(3, 4), torch.rand(5)], "grads": [torch.rand(3, 4), torch.rand(5)],
                            **means, "steps": [1, 2], **factored}),
    ]  # fmt: skip


def of_rope() -> list[Call]:
    turns = {"cos": floats(9, 4), "sin": floats(9, 4), "interleaved": True}
    return [
        (rope.rope, {"q": floats(1, 5, 4, 8), "k": floats(1, 5, 2, 8), **turns, "positions": ints(0, 1, 8, 3, 4)[None],
                     "heads_first": False}),
        (rope.rope, {"q": floats(1, 4, 5, 8), "k": floats(1, 2, 5, 8), **turns, "heads_first": True}),
    ]  # fmt: skip


def of_scan() -> list[Call]:
    one, heads = floats(2, 5, 3), {"q": floats(2, 1, 5, 4), "k": floats(2, 1, 5, 4), "v": floats(2, 2, 5, 3)}
    gates = {"decay": -torch.rand(2, 2, 5), "state": floats(2, 2, 4, 3), "scale": 0.5}
    return [
        (scan.selective_scan, {"u": one, "delta": torch.rand(2, 5, 3), "a": -torch.rand(3, 4), "b": floats(2, 5, 4),
                               "c": floats(2, 5, 4), "d": floats(3), "state": floats(2, 3, 4)}),
        (scan.ssd, {"x": floats(2, 5, 2, 3), "delta": torch.rand(2, 5, 2), "a": -torch.rand(2), "b": floats(2, 5, 1, 4),
                    "c": floats(2, 5, 1, 4), "d": floats(2), "state": floats(2, 2, 4, 3)}),
        (scan.linear_attention, {**heads, **gates}),
        (scan.gated_delta_rule, {**heads, "beta": torch.rand(2, 2, 5), **gates}),
    ]  # fmt: skip


def of_sparse() -> list[Call]:
    return [
        (sparse.spmm, {"a": csr(4, 5), "x": floats(5, 3)}), (sparse.spmm, {"a": csr(4, 5), "x": floats(5)}),
        (sparse.sddmm, {"pattern": csr(4, 5), "a": floats(4, 3), "b": floats(5, 3)}),
        (sparse.spgemm, {"a": csr(4, 5), "b": csr(5, 3), "ascending": True}),
        (sparse.transpose, {"a": csr(4, 5)}),
        (sparse.multiplied, {"crow": ints(0, 1, 3), "col": ints(4, 0, 2), "values": floats(3), "x": floats(5, 2)}),
    ]  # fmt: skip


LEGAL: dict[str, Callable[[], list[Call]]] = {
    name.removeprefix("of_"): made for name, made in list(globals().items()) if name.startswith("of_")
}
"""The legal calls of each family."""
