"""What is attainable, held against counts worked out by hand and against a processor that really computes."""

import math

import pytest
import torch
import torch.nn.functional as F

from kernelwright.bound import Rates, bound, rates_of
from kernelwright.bound._algebra import Algebra
from kernelwright.bound._functions import functions as functions_of
from kernelwright.bound._masks import Masks
from kernelwright.bound._products import products as products_of
from kernelwright.config import Settings
from kernelwright.devices import Peak, detect
from kernelwright.records import Contract, Distribution

from .test_bound import DEVICE, PEAKS, FakeProblem, graph_of, tensor, workload_of

N = 1 << 10


def functions(graph):
    algebra = Algebra(graph)
    return functions_of(graph, algebra, Masks(graph, algebra))


def products(graph, error_factor=1.0):
    algebra = Algebra(graph)
    return products_of(graph, algebra, Masks(graph, algebra), error_factor)


def rate(value, unit="elements"):
    return Peak(value=value, unit=unit, source="planted")


@pytest.mark.parametrize(
    ("reference", "counted"),
    [
        (lambda x: torch.exp(x) + 1, {"exp": N, "simple": N}),
        (F.gelu, {"gelu": N}),
        (lambda x: F.gelu(x, approximate="tanh"), {"gelu_tanh": N}),
        (lambda x: torch.rsqrt(x), {"sqrt": N, "div": N}),
        (lambda x: x**2, {"simple": N}),
        (lambda x: x**0.5, {"sqrt": N}),
        (lambda x: x**1.7, {"pow": N}),
        (lambda x: x**3.0, {"simple": 2 * N}),
        (lambda x: x**8, {"simple": 3 * N}),
        (lambda x: x**17, {"pow": N}),
        (lambda x: x / 3.0, {"simple": N}),
        (lambda x: x / (x + 1), {"simple": N, "div": N}),
        (F.mish, {"simple": 2 * N, "mish": N}),
        (lambda x: torch.tanh(torch.log1p(torch.exp(x))), {"exp": N, "log1p": N, "tanh": N}),
    ],
)
def test_functions_are_counted_by_what_they_are_made_of(reference, counted):
    assert functions(graph_of(reference, tensor("x", N))) == counted


def test_a_division_by_something_smaller_is_a_product():
    graph = graph_of(lambda x, s: x / s, tensor("x", 8, 16), tensor("s", 8, 1))
    assert functions(graph) == {"simple": 128}


def test_float64_and_integers_have_no_rates():
    for reference in (torch.exp, F.mish):
        assert functions(graph_of(reference, tensor("x", N, dtype="float64"))) == {}
    assert functions(graph_of(F.mish, tensor("x", N, dtype="bfloat16")))["mish"] == N


def test_products_are_counted_in_full():
    x, w = tensor("x", 2, 3, 8, 8), tensor("w", 4, 3, 3, 3)
    assert products(graph_of(F.conv2d, x, w)) == {"tensor-float32": 2 * 2 * 4 * 36 * 27}
    a, b = tensor("a", 5, 7), tensor("b", 7, 11)
    assert products(graph_of(torch.mm, a, b)) == {"tensor-float32": 2 * 5 * 7 * 11}
    up = graph_of(F.conv_transpose2d, x, tensor("w", 3, 4, 2, 2))
    assert products(up) == {"tensor-float32": 2 * x.shape[0] * 3 * 64 * 16}


def attainable(reference, *arguments, **rates):
    planted = Rates(device=DEVICE.fingerprint, values={n: rate(v) for n, v in rates.items()})
    return bound(
        FakeProblem(reference, Contract(cache="cold")), workload_of(*arguments), DEVICE, PEAKS, planted
    )


def test_what_takes_longer_than_memory_limits_and_the_floor_stays():
    n = 1 << 20
    slow = attainable(torch.erf, tensor("x", n), erf=1e8)
    assert slow.limit == "erf" and slow.attainable_us == pytest.approx(n / 1e8 * 1e6)
    floor = bound(FakeProblem(torch.erf, Contract(cache="cold")), workload_of(tensor("x", n)), DEVICE, PEAKS)
    assert (slow.binding, slow.time_us) == (floor.binding, floor.time_us), "an alarm asks for physics alone"
    quick = attainable(torch.erf, tensor("x", n), erf=1e12)
    assert quick.limit == floor.binding and quick.attainable_us == quick.time_us


def test_functions_take_turns_on_the_vector_units():
    one = attainable(lambda x: torch.exp(x), tensor("x", N), exp=1e6, log=1e6)
    both = attainable(lambda x: torch.log(torch.exp(x)), tensor("x", N), exp=1e6, log=1e6)
    assert both.attainable_us == pytest.approx(2 * one.attainable_us)


def test_outputs_that_are_mapped_afresh_cost_page_faults_after_all_else():
    small, large = tensor("x", (32 << 18) - 1), tensor("x", 32 << 18)
    rates = Rates(device="d", values={"fresh": rate(1e9, "bytes")})
    terms = {}
    for x in (small, large):
        found = bound(FakeProblem(torch.neg, Contract()), workload_of(x), DEVICE, PEAKS, rates, fresh=True)
        terms[x.shape] = {term.name: term for term in found.terms}
        kept = bound(FakeProblem(torch.neg, Contract()), workload_of(x), DEVICE, PEAKS, rates)
        assert "page-faults" not in {term.name for term in kept.terms}, "a worker's memory stays with it"
    assert "page-faults" not in terms[small.shape]
    assert terms[large.shape]["page-faults"].time_us == pytest.approx((32 << 20) / 1e9 * 1e6)


def test_fresh_memory_comes_no_faster_than_memory_is_written():
    rates, given = Rates(device="d", values={"fresh": rate(9e9, "bytes")}), workload_of(tensor("x", 32 << 18))
    found = bound(FakeProblem(torch.neg, Contract()), given, DEVICE, PEAKS, rates, fresh=True)
    (pages,) = (term for term in found.terms if term.name == "page-faults")
    assert pages.peak == PEAKS.values["dram.write"].value


def test_a_call_comes_on_top_of_what_it_computes():
    found = attainable(torch.neg, tensor("x", N), call=1e6)
    without = attainable(torch.neg, tensor("x", N))
    assert found.attainable_us == pytest.approx(without.attainable_us + 1)
    assert (found.binding, found.time_us) == (without.binding, without.time_us)


@pytest.mark.parametrize(
    ("reference", "rows", "width", "pages"),
    [
        (lambda i, w: F.embedding(i, w), 1 << 15, 128, 64),  # 16 MiB, half a kilobyte a row
        (lambda i, w: F.embedding(i, w), 1 << 14, 2048, 2 * 64),  # two pages a row
        (lambda i, w: w.index_select(0, i), 1 << 15, 128, 64),
        (lambda i, w: F.embedding(i, w), (1 << 15) - 1, 128, 0),  # the addresses of all pages are known
        (lambda i, w: w * 2, 1 << 15, 128, 0),
    ],
)
def test_rows_of_a_large_table_cost_the_pages_that_they_lie_on(reference, rows, width, pages):
    rates = Rates(device="d", values={"pages": rate(1e6)})
    given = workload_of(
        tensor("i", 64, dtype="int64", distribution=Distribution(kind="integers", low=0, high=rows)),
        tensor("w", rows, width),
    )
    found = bound(FakeProblem(reference, Contract()), given, DEVICE, PEAKS, rates)
    assert sum(term.time_us for term in found.terms if term.name == "pages") == pages


@pytest.mark.needs("C++ compiler")
def test_rates_are_measured_once_and_lie_near_what_a_kernel_reaches(tmp_path, monkeypatch):
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})
    device = detect("cpu")
    rates = rates_of(device, settings)
    assert {"exp", "erf", "div", "fresh", "pages", "call"} <= rates.values.keys()
    assert all(math.isfinite(r.value) and r.value > 0 for r in rates.values.values())
    assert rates.values["pow"].value < rates.values["erf"].value < rates.values["exp"].value
    monkeypatch.setattr("kernelwright.bound._rates._measured", lambda *_: pytest.fail("not from the cache"))
    assert rates_of(device, settings) == rates
