"""Architecture or config.json → Python that makes a model of transformers with random weights; nothing is downloaded.

Covers: whatever AutoModel makes of a configuration, and calls with token ids, an image, sound features or a waveform,
each alone or with another of them. By name a model is as small as its architecture allows; a `config.json` is taken at
its sizes.
Does not cover: inputs of other kinds, such as videos, trajectories or time series, and backbones of other packages.
"""

import importlib
import inspect
import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from ..errors import MissingToolError, TaskError

_ENCODER = "-encoder"
"""What a name ends in if only the encoder of an architecture is asked for."""
_MOST_PARAMETERS = 300_000_000
"""Of a model by name; what cannot be made smaller than that is refused."""
_LAYERS: dict[str, int] = dict.fromkeys(
    (
        "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers",
        "num_encoder_layers", "num_decoder_layers",
    ), 4,
) | {"use_cache": False}  # fmt: skip
_WIDTHS = _LAYERS | {
    "hidden_size": 256, "d_model": 256, "n_embd": 256, "embedding_size": 256, "word_embed_proj_dim": 256,
    "intermediate_size": 688, "d_ff": 688, "ffn_dim": 688, "encoder_ffn_dim": 688, "decoder_ffn_dim": 688,
    "ffn_hidden_size": 688, "moe_intermediate_size": 172, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_experts": 8,
    "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1024,
    "max_position_embeddings": 256, "n_positions": 256, "max_source_positions": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
_HEADS = _WIDTHS | {
    "num_key_value_heads": 2, "head_dim": 64, "d_kv": 64, "hidden_dim": 688, "dim": 256, "image_size": 64,
    "patch_size": 8, "state_size": 8,
}  # fmt: skip
_WIDE_HEADS = _WIDTHS | {"num_attention_heads": 2, "num_key_value_heads": 1}
_LOSSES = {
    "MASKED_LM": ("AutoModelForMaskedLM", "tokens"), "CAUSAL_LM": ("AutoModelForCausalLM", "tokens"),
    "SEQ_TO_SEQ_CAUSAL_LM": ("AutoModelForSeq2SeqLM", "tokens"),
    "IMAGE_CLASSIFICATION": ("AutoModelForImageClassification", "class"),
    "AUDIO_CLASSIFICATION": ("AutoModelForAudioClassification", "class"),
    "SEQUENCE_CLASSIFICATION": ("AutoModelForSequenceClassification", "class"),
}  # fmt: skip
"""Kinds of models that return a loss: what of transformers makes one, and what its labels are; the first one counts."""
_SMALLER: tuple[dict[str, int], ...] = (_HEADS, _WIDTHS, _WIDE_HEADS, _LAYERS, {})
"""Sizes to try, by the names that configurations use: the smallest model first, which not every architecture allows."""


def architecture(name: str) -> str:
    """Return the name of an architecture as a Python identifier.

    Example:
        >>> architecture("t5-encoder"), architecture("models/mine/config.json")
        ('t5_encoder', 'mine')
    """
    path = Path(name)
    stem = path.parent.name if path.name == "config.json" else path.name.removesuffix(".json")
    return "".join(c if c.isalnum() else "_" for c in stem)


def build_text(name: str, *, training: bool = False) -> str:
    """Return Python whose `build()` returns the model of an architecture, and the inputs of one call by name.

    Args:
        name: A model type of transformers (`roberta`, `qwen3-moe`), `-encoder` after it for its encoder alone; or a
            `config.json`, or the folder that it is in.
        training: Whether the model is to return a loss, of labels that are among its inputs.

    Raises:
        TaskError: no architecture of that name, or one that cannot be made or called here.
        MissingToolError: transformers is not installed.
    """
    package = _transformers(name)
    within = Path(name) / "config.json"
    path = within if within.is_file() else Path(name)
    if path.suffix == ".json":
        kind, given = _read(path)
        sizes, most, part = iter([given]), None, ""
    else:
        kind = _kind(package, name)
        part = ".get_encoder()" if name.endswith(_ENCODER) and kind != name else ""
        known = package.AutoConfig.for_model(kind).to_dict()
        sizes, most = (_shrunk(known, smaller) for smaller in _SMALLER), _MOST_PARAMETERS
    made_by, labels = _with_loss(package, kind, name, part) if training else ("", "")
    failed = ""
    for chosen in sizes:
        try:
            return _tried(package, kind, chosen, part, most, made_by, labels)
        except Exception as error:  # noqa: BLE001  a configuration may raise anything; the first failure is told
            failed = failed or f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    raise TaskError(
        f"hf:{name} could not be made and called with inputs that are known for it ({failed}); write a function "
        "build() that returns (module, inputs) into a file, and name FILE.py:build"
    )


def _transformers(name: str) -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError:
        raise MissingToolError(
            f"hf:{name} needs the package transformers: pip install 'kernelwright[transformers]'"
        ) from None


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the model type of a configuration's file, and the rest of it."""
    try:
        given = json.loads(path.read_text())
        return given.pop("model_type"), given
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise TaskError(
            f"{str(path)!r} is no configuration of transformers: expected JSON with a model_type "
            f"({type(error).__name__}: {error})"
        ) from None


def _kind(package: Any, name: str) -> str:
    """Return the model type that a name stands for."""
    auto = importlib.import_module(f"{package.__name__}.models.auto.modeling_auto")
    known: Mapping[str, Any] = auto.MODEL_MAPPING_NAMES
    for asked in (name, name.removesuffix(_ENCODER)):
        for written in (asked, asked.replace("-", "_"), asked.replace("_", "-")):
            if written in known:
                return written
    nearest = get_close_matches(name, known, n=3)
    hint = (
        f"did you mean {', '.join(map(repr, nearest))}?"
        if nearest
        else "bert, llama and vit are some of them"
    )
    raise TaskError(
        f"no architecture is called {name!r} in transformers {package.__version__}, which knows {len(known)}; {hint}"
    )


def _shrunk(known: Mapping[str, Any], smaller: Mapping[str, int]) -> dict[str, Any]:
    """Return those of the sizes that a configuration has, and those of the configurations in it."""
    found: dict[str, Any] = {
        k: v for k, v in smaller.items() if k in known and isinstance(known[k], int | None)
    }
    for name, inner in known.items():
        if isinstance(inner, dict) and inner.get("model_type"):
            found[name] = {"model_type": inner["model_type"], **_shrunk(inner, smaller)}
    return found


def _with_loss(package: Any, kind: str, name: str, part: str) -> tuple[str, str]:
    """Return what makes the model of an architecture that has a loss, and what its labels are."""
    auto = importlib.import_module(f"{package.__name__}.models.auto.modeling_auto")
    for mapping, found in _LOSSES.items():
        if not part and kind in getattr(auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES"):
            return found
    raise TaskError(
        f"hf:{name} has no loss that is known here; write a function build() that returns (module, inputs) with labels "
        "among the inputs into a file, and name FILE.py:build"
    )


def _tried(
    package: Any, kind: str, sizes: dict[str, Any], part: str, most: int | None, made_by: str, labels: str
) -> str:
    """Return the text for a model of these sizes, once that was made and called."""
    config = package.AutoConfig.for_model(kind, **sizes)
    made_by = made_by or ("AutoModelForCausalLM" if _writes_text(package, kind, config) else "AutoModel")
    auto = getattr(package, made_by)
    with torch.device("meta"):
        count = sum(p.numel() for p in auto.from_config(config).parameters())
    if most is not None and count > most:
        raise TaskError(
            f"it has {count / 1e6:.0f} million parameters at its smallest; {most / 1e6:.0f} at most"
        )
    module = auto.from_config(config).eval()
    module = module.get_encoder() if part else module
    failed: Exception | None = None
    for inputs in _inputs(module, config, labels):
        given = ", ".join(f'"{name}": {text}' for name, text in inputs.items())
        try:
            with torch.no_grad():
                result = module(**eval(f"{{{given}}}", {"torch": torch}))
            if labels and (result.loss is None or result.loss.dim()):
                raise TaskError("it returns no loss, which is a scalar")
        except Exception as error:  # noqa: BLE001  other inputs are tried; the first failure is told
            failed = failed or error
        else:
            return _TEXT.format(
                made_by=made_by, kind=kind, sizes=repr(sizes), part=part, inputs=f"{{{given}}}"
            )
    raise failed or TaskError(f"its main input is {module.main_input_name!r}")


def _writes_text(package: Any, kind: str, config: Any) -> bool:
    """Tell whether an architecture predicts the next token, and does nothing else."""
    auto = importlib.import_module(f"{package.__name__}.models.auto.modeling_auto")
    head = str(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind, ""))
    return (
        head.endswith(("ForCausalLM", "LMHeadModel"))
        and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and not getattr(config, "is_encoder_decoder", False)
    )


def _inputs(module: Any, config: Any, labels: str) -> Iterator[dict[str, str]]:
    """Yield inputs that a model may take, as Python by name: its main one, then that with others, and any labels."""
    words = getattr(config.get_text_config(), "vocab_size", None) or 1000
    seen = getattr(config, "vision_config", config)
    side = getattr(seen, "image_size", 64)
    side = max(side) if isinstance(side, list | tuple) else side
    tokens = f"torch.randint(3, {min(words, 1000)}, (1, 64))"
    bins = getattr(config, "num_mel_bins", None) or getattr(config, "feature_projection_input_dim", 80)
    known = {
        "input_ids": tokens,
        "pixel_values": f"torch.randn(1, {getattr(seen, 'num_channels', None) or 3}, {side}, {side})",
        "input_features": f"torch.randn(1, {bins}, {2 * getattr(config, 'max_source_positions', 64)})",
        "input_values": "torch.randn(1, 16000)",
    }
    taken = inspect.signature(module.forward).parameters
    after = {"decoder_input_ids": tokens} if "decoder_input_ids" in taken else {}
    if labels:
        after["labels"] = tokens if labels == "tokens" else "torch.zeros(1, dtype=torch.int64)"
    main = module.main_input_name
    if main not in known:
        return
    yield {main: known[main]} | after
    for other in ("input_ids", "pixel_values", "input_features"):
        if other in taken and other != main:
            yield {main: known[main], other: known[other]} | after
    if main == "input_values":
        yield {main: f"torch.randn(1, {getattr(config, 'max_length', 1024)}, {bins})"} | after
    if main == "input_features":
        yield {main: f"torch.randn(1, 128, {bins})"} | after


_TEXT = """import torch
from transformers import AutoConfig, {made_by}


def build():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AutoConfig.for_model({kind!r}, **{sizes})
        module = {made_by}.from_config(config).eval(){part}
    return module, {inputs}
"""
