"""The templates' forms in Triton: interpreted against float64, in float32 and float16, and compiled for every GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.languages import get_language
from kernelwright.languages.triton import Triton
from kernelwright.ops._templates import triton_form, triton_forms
from kernelwright.records import BuildStatus

pytestmark = pytest.mark.needs("triton")
GPUS = ("sm_80", "sm_90", "sm_100", "gfx942", "gfx950")
TOLERANCES = {torch.float32: 2e-6, torch.float16: 2e-3}
Tensor = torch.Tensor


@pytest.fixture
def form(request) -> Callable[..., Any]:
    """The form of the template that a test names."""
    language, candidate = Triton(), triton_form(request.param)  # interpreted, whatever it holds
    text = candidate.sources[0].text.replace("TRITON_EVIDENCE", "NOT_COMPILED_HERE")
    source = candidate.sources[0].model_copy(update={"text": text})
    candidate = candidate.model_copy(update={"sources": (source,)})
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    return language.load(candidate, Path(build.artefact or ""), ())


def near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    scale = expected.abs().max().clamp(min=1.0)
    assert (found.double() - expected).abs().max() <= TOLERANCES[dtype] * scale * 4


@pytest.mark.parametrize("form", ["stream_reduce"], indirect=True)
@pytest.mark.parametrize(
    ("dtype", "rows", "count", "inner"),
    [
        (torch.float32, 65, 70, 33),
        (torch.float16, 3, 129, 40),
        pytest.param(torch.float32, 1, 1, 1, marks=pytest.mark.long),
        pytest.param(torch.float16, 130, 64, 64, marks=pytest.mark.long),
    ],
)
def test_folds_of_a_product(form, dtype, rows, count, inner):
    torch.manual_seed(rows)
    x, c = torch.randint(-3, 4, (rows, inner)).to(dtype), torch.randint(-3, 4, (count, inner)).to(dtype)
    bias = torch.randint(-3, 4, (count,)).float()
    best, place, lse = form(x, c, bias)
    product = x.double() @ c.double().T + bias.double()
    assert torch.equal(best.double(), product.amax(1)), "products of small whole numbers are exact"
    assert torch.equal(place, (product == product.amax(1, keepdim=True)).int().argmax(1)), (
        "the first of equals"
    )
    near(lse, product.logsumexp(1), torch.float32)


@pytest.mark.parametrize("form", ["gathered_gemm"], indirect=True)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    ("offsets", "inner", "columns"),
    [([0, 3, 3, 40], 33, 70), pytest.param([0, 33, 97], 64, 5, marks=pytest.mark.long)],
)
def test_products_of_groups(form, dtype, offsets, inner, columns):
    torch.manual_seed(len(offsets))
    entries, groups, n, rows = offsets[-1], len(offsets) - 1, 9, 11
    x, w = torch.randn(n, inner).to(dtype), torch.randn(groups, columns, inner).to(dtype)
    gather, scatter, weights = torch.randint(n, (entries,)), torch.randint(rows, (entries,)), torch.rand(rows)
    found = form(x, w, torch.tensor(offsets), gather, scatter, weights)
    expected = torch.zeros(rows, columns, dtype=torch.float64)
    for group in range(groups):
        for i in range(offsets[group], offsets[group + 1]):
            expected[scatter[i]] += weights[scatter[i]].double() * (w[group].double() @ x[gather[i]].double())
    near(found, expected, dtype)


@pytest.mark.parametrize("form", ["segments"], indirect=True)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    ("n", "groups", "columns"), [(50, 7, 30), pytest.param(300, 300, 257, marks=pytest.mark.long)]
)
def test_plans_and_sums_of_segments(form, dtype, n, groups, columns):
    torch.manual_seed(n)
    x, keys = torch.randn(n, columns).to(dtype), torch.randint(-1, groups + 1, (n,))
    order, offsets, sums = form(x, keys, groups)
    known = (keys >= 0) & (keys < groups)
    counts = torch.bincount(keys[known], minlength=groups)
    assert torch.equal(offsets, torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))))
    ordered = torch.where(known, keys, groups)[order]
    assert torch.equal(ordered, ordered.sort().values)
    assert torch.equal(order.sort().values, torch.arange(n))
    expected = torch.zeros(groups, columns, dtype=torch.float64)
    near(sums, expected.index_add_(0, keys[known], x[known].double()), dtype)


@pytest.mark.parametrize("form", ["lowbit"], indirect=True)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "inner", "group"),
    [(3, 70, 96, 32), pytest.param(17, 5, 128, 2, marks=pytest.mark.long)],
)
def test_products_of_packed_weights(form, dtype, rows, columns, inner, group):
    torch.manual_seed(rows)
    codes = torch.randint(0, 16, (columns, inner), dtype=torch.uint8)
    scales, zeros = torch.rand(columns, inner // group), torch.randint(0, 16, (columns, inner // group))
    x = torch.randn(rows, inner).to(dtype)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    found = form(x, packed.contiguous(), scales, zeros.to(torch.uint8), group)
    wide = [t.double().repeat_interleave(group, 1) for t in (zeros, scales)]
    near(found, x.double() @ ((codes.double() - wide[0]) * wide[1]).T, dtype)


@pytest.mark.long
@pytest.mark.parametrize("template", triton_forms())
def test_forms_compile_for_every_gpu_without_spills(template):
    build = get_language("triton").build(triton_form(template), deadline_s=600)
    assert build.status is BuildStatus.OK and not build.findings, build.findings
    for gpu in GPUS:
        assert build.evidence[f"{gpu}.spill_bytes"] == 0
        assert int(str(build.evidence[f"{gpu}.registers"])) > 0
        assert int(str(build.evidence[f"{gpu}.shared_bytes"])) >= 0
