"""What takes long to compile is built for kinds of calls: a call builds its own kind, and all kinds are known."""

import pytest
import torch

from kernelwright import ops
from kernelwright.ops import attention, conv, lowbit
from kernelwright.ops._core import op as op_module
from kernelwright.ops._core import unremembered
from kernelwright.records import Build, BuildStatus

SPLIT = {"lowbit": "lowbit_linear", "attention": "attention_decode", "conv": "conv"}


def split(family):
    (op,) = (one for one in ops.ops_of(ops.family(family)) if one.name == SPLIT[family])
    return op


def linear(dtype, activations, bits=4):
    x = torch.ones(2, 64, dtype=dtype)
    return lambda: lowbit.linear(x, lowbit.pack(torch.ones(8, 64), bits), activations=activations)


def decode(dtype, bits=None):
    q, kept = torch.ones(1, 2, 32, dtype=dtype), torch.ones(1, 4, 1, 32)
    if bits is None:
        return lambda: attention.decode(
            q, kept.to(dtype), kept.to(dtype), torch.tensor([4], dtype=torch.int32)
        )
    cached, scales = attention.quantize(kept, bits)
    return lambda: attention.decode(
        q, cached, cached, torch.tensor([4], dtype=torch.int32), k_scales=scales, v_scales=scales
    )


def convolved(channels, groups, stride=1):
    x, weight = torch.ones(1, channels, 8, 8), torch.ones(channels, channels // groups, 3, 3)
    return lambda: conv.conv2d(x, weight, stride=stride, groups=groups)


CALLS = [
    ("lowbit", linear(torch.float32, "int8"), "-DKW_PLANES=1"),
    ("lowbit", linear(torch.float32, "int8", 8), "-DKW_PLANES=1"),
    ("lowbit", linear(torch.float32, "int8", 3), "-DKW_PLANES=4"),
    ("lowbit", linear(torch.bfloat16, "float"), "-DKW_PLANES=2"),
    ("lowbit", linear(torch.float32, "float"), "-DKW_PLANES=3"),
    ("attention", decode(torch.float32), "-DKW_CACHE=0"),
    ("attention", decode(torch.bfloat16), "-DKW_CACHE=1"),
    ("attention", decode(torch.float16), "-DKW_CACHE=1"),
    ("attention", decode(torch.float32, 8), "-DKW_CACHE=2"),
    ("attention", decode(torch.float32, 4), "-DKW_CACHE=3"),
    ("conv", convolved(4, 4), "-DKW_BY_CHANNEL=1"),
    ("conv", convolved(4, 4, 2), "-DKW_BY_CHANNEL=0"),
    ("conv", convolved(4, 1), "-DKW_BY_CHANNEL=0"),
]


@pytest.mark.filterwarnings("ignore:kernelwright .* runs its reference")
@pytest.mark.parametrize(("family", "call", "part"), CALLS)
def test_a_call_builds_the_part_for_its_kind_and_no_other(family, call, part, monkeypatch):
    op, asked = split(family), []
    monkeypatch.setattr(op, "_entries", {})
    monkeypatch.setattr(op.kernel, "function", lambda symbol, part="": asked.append((symbol, part)))
    with unremembered():
        call()
    assert asked == [(op.name, part)]


@pytest.mark.parametrize("family", SPLIT)
def test_every_kind_of_call_has_a_part_and_all_are_built_ahead(family, monkeypatch):
    op, asked = split(family), []
    assert {part for name, _, part in CALLS if name == family} == {op.parts.flag(v) for v in op.parts.values}

    def build(symbol, part):
        asked.append((symbol, part))
        return Build(status=BuildStatus.OK)

    monkeypatch.setattr(op.kernel, "_build", build)
    op.kernel.build()
    flags = {op.parts.flag(value) for value in op.parts.values}
    assert {part for symbol, part in asked if symbol == op.name} == flags
    assert {symbol for symbol, part in asked if not part} == set(op.kernel.symbols) - {op.name}


@pytest.mark.parametrize("family", SPLIT)
def test_the_judge_takes_all_parts_at_once(family):
    op = split(family)
    assert not any(op.parts.macro in flag for flag in op.kernel.candidate(op.name).flags)
    assert any(op.parts.macro in source.text for source in op.kernel.sources)


def test_what_is_remembered_of_one_part_stays_when_another_is_loaded(monkeypatch):
    op, made = split("conv"), []
    monkeypatch.setattr(op, "_entries", {})
    monkeypatch.setattr(op, "_addresses", {})
    monkeypatch.setattr(op, "_served", None)
    monkeypatch.setattr(op.kernel, "function", lambda symbol, part="": part)
    monkeypatch.setattr(op.kernel, "address", lambda symbol, part="": 1)
    monkeypatch.setattr(op_module, "served_calls", lambda: lambda _: made.append(object()) or made[-1])
    op._load("-DKW_BY_CHANNEL=0")
    first = op._served
    op._load("-DKW_BY_CHANNEL=1")
    assert op._served is first is made[0] and len(op._entries) == 2
