"""Search without a GPU: of right kernels the first by the modelled time comes back, and nothing is claimed of it."""

import pytest

import kernelwright as kw
from kernelwright.records import Budget, Candidate, CheckStatus, DecisionStatus, SourceFile
from kernelwright.search.proposals import _proposals
from kernelwright.search.session import _choices
from kernelwright.store import Store

pytestmark = [pytest.mark.needs("no GPU"), pytest.mark.needs("triton"), pytest.mark.long]

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 96, "columns": 256}], hidden=[{"rows": 7, "columns": 100}])
def scaled(x):
    return 2 * x + 1
"""
TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, out, rows, columns, BLOCK: tl.constexpr):
{body}

def run(x):
    out = torch.empty_like(x)
    rows, columns = x.shape
    scale[{grid}](x, out, rows, columns, BLOCK={block})
    return {result}
"""
BY_ROWS = """
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < columns
    tl.store(out + at, 2 * tl.load(x + at, mask=mask) + 1, mask=mask)
"""
BY_COLUMNS = """
    at = tl.arange(0, BLOCK) * columns + tl.program_id(0)
    mask = tl.arange(0, BLOCK) < rows
    tl.store(out + at, 2 * tl.load(x + at, mask=mask) + 1, mask=mask)
"""
BY_ONE = """
    for row in range(rows):
        at = row * columns + tl.arange(0, BLOCK)
        mask = tl.arange(0, BLOCK) < columns
        tl.store(out + at, 2 * tl.load(x + at, mask=mask) + 1, mask=mask)
"""
WIDE, TALL = "triton.next_power_of_2(columns)", "triton.next_power_of_2(rows)"


def candidate(name, body, grid, block, result="out"):
    text = TRITON.format(body=body, grid=grid, block=block, result=result)
    source = SourceFile(path="k.py", text=text)
    return Candidate(sources=(source,), language="triton", entry="k.py:run", style="function", reason=name)


KERNELS = {
    "by one": candidate("by one", BY_ONE, "(1,)", WIDE),
    "by columns": candidate("by columns", BY_COLUMNS, "(columns,)", TALL),
    "wrong": candidate("wrong", BY_ROWS.replace("+ 1,", "+ 2,"), "(rows,)", WIDE),
    "by torch": candidate("by torch", BY_ROWS, "(1,)", WIDE, "2 * x + 1"),
    "by rows": candidate("by rows", BY_ROWS, "(rows,)", WIDE),
}


class Proposer:
    name = "given"

    def propose(self, request):
        yield from KERNELS.values()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modelled")
    (folder / "scaled.py").write_text(TASK)
    events = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (_choices, _proposals):
            patch.setattr(module, "make_proposers", lambda names: [Proposer()])
        patch.setenv("KERNELWRIGHT_CACHE", str(folder / "cache"))
        result = kw.optimize(
            folder / "scaled.py", languages=("triton",), proposers=("start",), device="cpu", baselines=("eager",),
            budget=Budget(evaluations=9, minutes=10), learn=False, store=folder / "store", on_event=events.append,
        )  # fmt: skip
    with Store(folder / "store") as store:
        yield result, {e.candidate.reason: e for e in store.evaluations(result.run)}, events


def test_the_first_by_the_model_comes_back_and_nothing_is_claimed(found):
    result, evaluations, _ = found
    assert result.executed == KERNELS["by rows"].key, {n: str(e.decision) for n, e in evaluations.items()}
    assert (result.decision, result.kernel, result.speedup, result.time_us) == (
        DecisionStatus.UNKNOWN,
        None,
        None,
        None,
    )
    assert str(result.modelled[0]).startswith("modelled for NVIDIA H100 SXM") and "not timed" in str(
        result.modelled[0]
    )
    assert "of 3 right candidates" in result.reason


def test_right_kernels_have_an_interval_and_wrong_ones_none(found):
    _, evaluations, _ = found
    order = sorted((e for e in evaluations.values() if e.is_executed), key=lambda e: -e.executed_order)
    assert [e.candidate.reason for e in order] == ["by rows", "by columns", "by one"]
    assert all(0 < e.modelled[0].low_us < e.modelled[0].high_us for e in order)
    assert all(e.timing is None and e.decision.status is DecisionStatus.UNKNOWN for e in order)
    assert (
        not evaluations["wrong"].modelled and evaluations["wrong"].decision.status is DecisionStatus.REJECTED
    )


def test_what_torch_computes_has_no_modelled_time(found):
    evaluation = found[1]["by torch"]
    (finding,) = (f for f in evaluation.verdict.findings if f.check == "modelled")
    assert finding.status is CheckStatus.UNKNOWN and "computes in the call" in finding.message
    assert not evaluation.modelled


def test_the_first_was_verified_in_full_under_the_sanitiser(found):
    _, evaluations, events = found
    best = evaluations["by rows"]
    checks = {f.check: f.status for f in best.verdict.findings}
    assert best.stage == "full" and checks["sanitised"] is CheckStatus.PASS
    assert [c for c, status in checks.items() if status is not CheckStatus.PASS] == ["timed"]
    assert [e.data["candidate"] for e in events if e.event == "executed"] == [best.candidate.key]
