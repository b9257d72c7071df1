"""Bounds held against numbers worked out by hand."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.bound import bound, traffic, work
from kernelwright.devices import Cache, Device, Peak, Peaks
from kernelwright.records import Bound, Contract, Distribution, TensorSpec, Workload
from kernelwright.tasks.capture import Graph, trace

DEVICE = Device(
    kind="cpu",
    name="made up",
    cores=2,
    memory_bytes=1 << 34,
    torch_device="cpu",
    caches=(
        Cache(level="l1", size_bytes=1 << 15, instances=2),
        Cache(level="l2", size_bytes=1 << 20, instances=2),
        Cache(level="l3", size_bytes=1 << 24),
    ),
)
RATES = {
    "dram.read": 8e9, "dram.write": 4e9, "dram.copy": 10e9, "dram.add": 9e9,
    "l3.read": 80e9, "l3.write": 40e9, "l3.copy": 100e9, "l3.add": 90e9,
    "l2.copy": 200e9, "l1.copy": 400e9,
    "float32": 1e11, "tensor-float32": 1e11, "tensor-bfloat16": 4e11,
}  # fmt: skip


def peak(name: str, value: float) -> Peak:
    return Peak.model_validate(
        {"value": value, "unit": "bytes" if "." in name else "flop", "source": "made up"}
    )


PEAKS = Peaks(device=DEVICE.fingerprint, values={name: peak(name, value) for name, value in RATES.items()})


def tensor(
    name: str, *shape: int, dtype: str = "float32", distribution: Distribution | None = None
) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype, distribution=distribution or Distribution())


class FakeProblem:
    def __init__(self, reference: Callable[..., object], contract: Contract) -> None:
        self._reference = reference
        self.task = SimpleNamespace(contract=contract)

    def reference(self, workload: Workload) -> Callable[..., object]:
        return self._reference


def workload_of(*arguments: TensorSpec) -> Workload:
    return Workload(name="w", arguments=arguments)


def graph_of(reference: Callable[..., object], *arguments: TensorSpec) -> Graph:
    return trace(FakeProblem(reference, Contract()), workload_of(*arguments))


def bytes_of(
    reference: Callable[..., object], *arguments: TensorSpec, contract: Contract | None = None
) -> tuple[int, int]:
    moved = traffic(graph_of(reference, *arguments), workload_of(*arguments), contract or Contract())
    return moved.read_bytes, moved.written_bytes


def work_of(reference: Callable[..., object], *arguments: TensorSpec) -> dict[str, float]:
    return work(graph_of(reference, *arguments), workload_of(*arguments))


def bound_of(
    reference: Callable[..., object], *arguments: TensorSpec, contract: Contract | None = None
) -> Bound:
    problem = FakeProblem(reference, contract or Contract())
    return bound(problem, workload_of(*arguments), DEVICE, PEAKS)


INDEX = Distribution(kind="integers", low=0, high=1000)

TRAFFIC = {
    "softmax": (lambda x: torch.softmax(x, -1), [tensor("x", 64, 256)], (65536, 65536)),
    "rmsnorm": (
        lambda x, w: F.rms_norm(x, (256,), w),
        [tensor("x", 64, 256, dtype="bfloat16"), tensor("w", 256, dtype="bfloat16")],
        (32768 + 512, 32768),
    ),
    "matmul": (torch.mm, [tensor("a", 32, 64), tensor("b", 64, 16)], (4 * (2048 + 1024), 4 * 512)),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1),
        [tensor("x", 2, 3, 8, 8), tensor("w", 4, 3, 3, 3)],
        (4 * (384 + 108), 4 * 512),
    ),
    "conv that skips three of four pixels": (
        lambda x, w: F.conv2d(x, w, stride=2),
        [tensor("x", 2, 3, 8, 8), tensor("w", 4, 3, 1, 1)],
        (384 + 4 * 12, 4 * 128),
    ),
    "cumsum": (lambda x: torch.cumsum(x, 1), [tensor("x", 8, 128)], (4096, 4096)),
    "cross-entropy": (
        F.cross_entropy,
        [tensor("x", 64, 1000), tensor("y", 64, dtype="int64", distribution=INDEX)],
        (256000 + 512, 4),
    ),
    "broadcast add": (torch.add, [tensor("x", 64, 128), tensor("y", 128)], (32768 + 512, 32768)),
    "expanded result": (lambda x: (x + 1).expand(64, 128), [tensor("x", 1, 128)], (512, 512)),
    "transpose": (lambda x: x.t().contiguous(), [tensor("x", 64, 128)], (32768, 32768)),
    "max pool": (lambda x: F.max_pool2d(x, 2), [tensor("x", 1, 4, 16, 16)], (4096, 1024)),
    "max pool with gaps": (lambda x: F.max_pool2d(x, 1, 2), [tensor("x", 1, 4, 16, 16)], (1024, 1024)),
    "argmax": (lambda x: x.argmax(-1), [tensor("x", 64, 128)], (32768, 512)),
    "unused input": (lambda x, y: x + 1, [tensor("x", 64), tensor("y", 64)], (256, 256)),
    "slice": (lambda x: x[:, :32] * 2, [tensor("x", 64, 128)], (8192, 8192)),
    "two slices": (lambda x: x[:, :32] * x[:, 32:64], [tensor("x", 64, 128)], (16384, 8192)),
    "overlapping slices": (lambda x: x[:, :32] * x[:, 16:48], [tensor("x", 64, 128)], (12288, 8192)),
    "one token": (
        lambda x, w: F.linear(x, w)[:, -1],
        [tensor("x", 2, 8, 16), tensor("w", 4, 16)],
        (4 * (2 * 16 + 8), 4 * 2 * 4),
    ),
    "lower triangle": (torch.tril, [tensor("x", 64, 64)], (8192, 16384)),
    "in place": (lambda x: x.mul_(2), [tensor("x", 64)], (256, 256)),
    "one row in place": (lambda x, y: x.select(0, 1).copy_(y), [tensor("x", 8, 64), tensor("y", 64)], (256, 256)),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAFFIC)
def test_unavoidable_bytes(case: str) -> None:
    reference, arguments, expected = TRAFFIC[case]
    assert bytes_of(reference, *arguments) == expected


def test_embedding_reads_the_distinct_rows_that_random_indices_point_at() -> None:
    arguments = tensor("i", 500, dtype="int64", distribution=INDEX), tensor("w", 1000, 16)
    read, written = bytes_of(F.embedding, *arguments)
    distinct = 1000 * (1 - (1 - 1 / 1000) ** 500)
    assert read == int(500 * 8 + distinct * 64)
    assert written == 500 * 64
    other = workload_of(*arguments).model_copy(update={"regime": "constant"})
    assert traffic(graph_of(F.embedding, *arguments), other, Contract()).read_bytes == 4000


@pytest.mark.parametrize(
    ("forward", "read"),
    [
        (lambda m, x: m.one(x), 4 * (32 * 16 + 16 * 64)),
        (lambda m, x: m.one(x).sum(1), 4 * 32 * 16),
        (lambda m, x: m.two(m.one(x)), 4 * 32 * 16),
        (lambda m, x: x * m.one.weight.sum(0), 4 * (32 * 16 + 16)),
        (lambda m, x: m.two(torch.relu(m.one(x))), 4 * (32 * 16 + 16 * 64 + 64 * 8)),
    ],
    ids=["product", "sum", "chain", "reduced", "activated"],
)
def test_parameters_are_read_as_they_are_after_what_is_done_ahead(
    forward: Callable[..., object], read: int
) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(16, 64, bias=False), nn.Linear(64, 8, bias=False)

        def forward(self, x: torch.Tensor) -> object:
            return forward(self, x)

    layers = Layers()
    assert bytes_of(layers, tensor("x", 32, 16))[0] == read


def test_a_view_costs_nothing_where_outputs_may_alias() -> None:
    view = (lambda x: x.t()), tensor("x", 64, 128)
    assert bytes_of(*view, contract=Contract(may_alias=True)) == (0, 0)
    assert bytes_of(*view) == (32768, 32768)


WORK = {
    "matmul": (torch.mm, [tensor("a", 32, 64), tensor("b", 64, 16)], {"tensor-float32": 2 * 32 * 64 * 16}),
    "bias is a vector op of its own, left out": (
        F.linear,
        [tensor("x", 32, 64), tensor("w", 16, 64), tensor("b", 16)],
        {"tensor-float32": 2 * 32 * 64 * 16},
    ),
    "conv 1x1": (
        F.conv2d,
        [tensor("x", 2, 3, 8, 8, dtype="bfloat16"), tensor("w", 4, 3, 1, 1, dtype="bfloat16")],
        {"tensor-bfloat16": 2 * 512 * 3},
    ),
    "conv 3x3 may be a fast one": (
        lambda x, w: F.conv2d(x, w, padding=1),
        [tensor("x", 2, 3, 8, 8), tensor("w", 4, 3, 3, 3)],
        {"tensor-float32": 2 * 512 * 27 / 4},
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [tensor(n, 2, 4, 16, 8) for n in "qkv"],
        {"tensor-float32": 2 * (2 * 4 * 16) * 16 * 16 / 2},
    ),
    "two lower triangles": (
        lambda a, b: torch.tril(a @ b),
        [tensor(n, 12, 12, distribution=Distribution(kind="triangular")) for n in "ab"],
        {"tensor-float32": 2 * 12**3 / 6},
    ),
    "product of a sum": (
        lambda a, b: (a @ b).sum(1),
        [tensor("a", 32, 64), tensor("b", 64, 16)],
        {},
    ),
    "chain in the other order": (
        lambda a, b, c: a @ b @ c,
        [tensor("a", 64, 4), tensor("b", 4, 64), tensor("c", 64, 64)],
        {"tensor-float32": 2 * 64 * 64 * 4},
    ),
    "one token is read": (
        lambda x, w: torch.relu(F.linear(x, w))[:, -1],
        [tensor("x", 2, 8, 16), tensor("w", 4, 16)],
        {"tensor-float32": 2 * 2 * 4 * 16, "float32": 0.5 * 2 * 4},
    ),
    "transposed, by phases that are fast ones": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        [tensor("x", 2, 3, 8, 8), tensor("w", 3, 5, 4, 4)],
        {"tensor-float32": 2 * (2 * 3 * 64) * 5 * 16 / 4},
    ),
    "diagonal": (lambda a, b: torch.diag(a) @ b, [tensor("a", 16), tensor("b", 16, 32)], {}),
    "a recurrent layer, its first state and last way back left out": (
        nn.RNN(8, 4, 2, bidirectional=True, batch_first=True),
        [tensor("x", 3, 5, 8)],
        {"tensor-float32": 2 * 3 * (5 - 1) * (2 * (4 * 8 + 4 * 4) + (4 * 8 + 4 * 4))},
    ),
    "early steps of a recurrent layer": (
        lambda x, h, w, u: torch.rnn_tanh(x, h, [w, u], False, 1, 0.0, False, False, False)[0][0],
        [tensor("x", 5, 3, 8), tensor("h", 1, 3, 4), tensor("w", 4, 8), tensor("u", 4, 4)],
        {},
    ),
    "exp and add": (lambda x: x.exp() + x, [tensor("x", 100)], {"float32": 450.0}),
    "copy": (lambda x: x.t().contiguous(), [tensor("x", 4, 5)], {}),
}


@pytest.mark.parametrize("case", WORK)
def test_unavoidable_operations(case: str) -> None:
    reference, arguments, expected = WORK[case]
    assert work_of(reference, *arguments) == pytest.approx(expected)


def test_large_calls_are_bound_by_dram_reading_writing_and_both() -> None:
    found = bound_of(lambda x: x + 1, tensor("x", 1 << 22))
    times = {t.name: t.time_us for t in found.terms}
    assert times["dram"] == pytest.approx(2 * 4 * 2**22 / 10e9 * 1e6)
    assert times["dram-read"] == pytest.approx(4 * 2**22 / 8e9 * 1e6)
    assert times["dram-write"] == pytest.approx(4 * 2**22 / 5e9 * 1e6), (
        "a copy writes faster than writing alone"
    )
    assert found.binding in ("dram", "dram-write")


def test_a_reduction_is_bound_by_reading() -> None:
    found = bound_of(lambda x: x.sum(), tensor("x", 1 << 24))
    assert (found.binding, found.time_us) == ("dram-read", pytest.approx(4 * 2**24 / 8e9 * 1e6))


@pytest.mark.parametrize(
    ("count", "cache", "level"),
    [
        (1 << 12, "auto", "l1"), (1 << 16, "auto", "l2"), (1 << 20, "auto", "l3"), (1 << 22, "auto", "dram"),
        (1 << 12, "cold", "dram"), (1 << 21, "warm", "l3"),
    ],
)  # fmt: skip
def test_the_cache_mode_chooses_the_level(count: int, cache: str, level: str) -> None:
    contract = Contract.model_validate({"cache": cache})
    found = bound_of(lambda x: x + 1, tensor("x", count), contract=contract)
    assert {t.name.split("-")[0] for t in found.terms if t.unit == "bytes"} == {level}


def test_warm_calls_pay_dram_only_for_what_no_cache_can_keep() -> None:
    found = bound_of(lambda x: x + 1, tensor("x", 1 << 22), contract=Contract(cache="warm"))
    (term,) = (t for t in found.terms if t.name == "dram")
    assert term.amount == pytest.approx(2**25 - 2**24)


def test_a_nearer_level_is_never_slower_than_a_farther_one() -> None:
    crossed = PEAKS.model_copy(update={"values": {**PEAKS.values, "l1.copy": peak("l1.copy", 1e9)}})
    found = bound(
        FakeProblem(lambda x: x + 1, Contract()), workload_of(tensor("x", 1 << 10)), DEVICE, crossed
    )
    assert {t.peak for t in found.terms if t.name == "l1"} == {200e9}


def test_large_products_are_bound_by_the_matrix_rate() -> None:
    found = bound_of(torch.mm, tensor("a", 512, 512), tensor("b", 512, 512))
    assert (found.binding, found.time_us) == ("tensor-float32", pytest.approx(2 * 512**3 / 1e11 * 1e6))


def test_what_has_no_peak_has_no_term() -> None:
    problem = FakeProblem(lambda x: x + 1, Contract())
    nothing = Peaks(device="d", values={"launch": peak("launch", 1e6)})
    found = bound(problem, workload_of(tensor("x", 64)), DEVICE, nothing)
    assert [(t.name, t.time_us) for t in found.terms] == [("launch", pytest.approx(1.0))]
