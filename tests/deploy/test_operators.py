"""What torch builds around a call of a kernel: gradients, batches, graphs, archives. A stranger does all of it."""

from pathlib import Path

import pytest
from tests import forked
from tests.deploy.test_package import claim, make_task, run, specialisation

from kernelwright.deploy import package
from kernelwright.records import Candidate, SourceFile

KERNEL = """
import torch


def run(x, a, b):
    return torch.from_numpy(x.numpy() * a + b.numpy() + 100.0)
"""
"""What no tracer sees through; the mark that it adds tells who answered."""
HEAD = """
import torch
from scale_shift import Module, native, op, scale_shift
x, b = torch.randn(4, 16), torch.randn(16)
def who(got, want):
    away = (got - want).mean()
    torch.testing.assert_close(got - away, want, atol=1e-4, rtol=1e-4)
    return {0: "native", 100: "kernel"}[round(float(away))]
"""


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A package whose kernel adds a mark to the right answer."""
    candidate = Candidate(sources=(SourceFile(path="k.py", text=KERNEL),), language="torch", entry="k.py:run")
    task = make_task(module=True)
    package(task, [specialisation(task, candidate)], claim(task), tmp_path / "out", init=(16,))
    return tmp_path / "out"


def stranger(folder: Path, code: str) -> None:
    run(folder, HEAD + code)


def test_a_transform_or_mode_that_the_kernel_does_not_know_is_the_native_ops(exported: Path) -> None:
    stranger(exported, """
from torch.autograd import forward_ad
assert who(scale_shift(x, 2.5, b), native(x, 2.5, b)) == "kernel"
batch = torch.stack([x, 2 * x])
assert who(torch.vmap(scale_shift, (0, None, None))(batch, 2.5, b), native(batch, 2.5, b)) == "native"
assert who(torch.vmap(op, (0, None, None))(batch, 2.5, b), native(batch, 2.5, b)) == "kernel"
with torch.autocast("cpu", torch.bfloat16):
    assert who(scale_shift(x, 2.5, b), native(x, 2.5, b)) == "native"
with forward_ad.dual_level():
    dual = forward_ad.make_dual(b, b)
    assert torch.equal(forward_ad.unpack_dual(scale_shift(x, 2.5, dual)).tangent, b.expand(4, 16))
    try:
        op(x, 2.5, dual)
        raise AssertionError("refused")
    except NotImplementedError as error:
        assert "no forward-mode derivative; call scale_shift(...)" in str(error)
m = Module(16)
with torch.no_grad():
    assert who(m(x, 2.5), native(x, 2.5, m.b)) == "kernel"
    assert who(m.eval()(x, 2.5), native(x, 2.5, m.b)) == "native"
""")  # fmt: skip


@pytest.mark.long
def test_gradients_are_the_native_ops_in_every_order(exported: Path) -> None:
    stranger(exported, """
def by(call, order):
    p, q = b.clone().requires_grad_(), x.clone().requires_grad_()
    found = call(q, 2.5, p + q[0]).pow(3).sum()
    for _ in range(order):
        found = torch.autograd.grad(found, (p, q), create_graph=True)
        found = found[0].pow(2).sum() + found[1].sum()
    return found
for order in (1, 2, 3):
    lifted = lambda *given: op(*given) - 100.0
    torch.testing.assert_close(by(lifted, order), by(native, order), rtol=1e-3, atol=1e-2)
torch.library.opcheck(op, (x, 2.5, b.requires_grad_()))
b = b.detach()
loss, own = (lambda p: scale_shift(x, 2.5, p).pow(3).sum()), (lambda p: native(x, 2.5, p).pow(3).sum())
for transform in (torch.func.grad, torch.func.hessian, torch.func.jacfwd):
    torch.testing.assert_close(transform(loss)(b), transform(own)(b))
each = torch.vmap(torch.func.grad(loss))(torch.stack([b, 2 * b]))
torch.testing.assert_close(each[1], torch.func.grad(own)(2 * b))
m = Module(16)
called = lambda p: torch.func.functional_call(m, {"b": p}, (x, 2.5)).pow(3).sum()
for given in (torch.func.grad(called), torch.compile(torch.func.grad(called), backend="aot_eager")):
    torch.testing.assert_close(given(b), torch.func.grad(own)(b))
assert who(torch.func.functional_call(m, {"b": 3 * b}, (x, 2.5)), native(x, 2.5, 3 * b)) == "kernel"
""")  # fmt: skip


@pytest.mark.long
def test_torch_compile_keeps_the_kernel_and_what_is_around_it(exported: Path) -> None:
    stranger(exported, """
m = Module(16).requires_grad_(False)
compiled = torch.compile(lambda x: m(x.relu() + 1, 2.5) * 1.0, fullgraph=True)
for rows, answers in ((4, "kernel"), (8, "kernel"), (6, "kernel"), (9, "native"), (30, "native")):
    x = torch.randn(rows, 16)
    assert who(compiled(x), native(x.relu() + 1, 2.5, m.b)) == answers, rows
x = torch.randn(4, 16)
m.b.mul_(2)
assert who(compiled(x), native(x.relu() + 1, 2.5, m.b)) == "kernel"
m.requires_grad_()
assert who(compiled(x), native(x.relu() + 1, 2.5, m.b)) == "native", "gradients"
compiled(x).pow(3).sum().backward()
want = torch.func.grad(lambda p: native(x.relu() + 1, 2.5, p).pow(3).sum())(m.b.detach())
torch.testing.assert_close(m.b.grad, want)
m.requires_grad_(False).eval()
assert who(compiled(x), native(x.relu() + 1, 2.5, m.b)) == "native", "another mode"
""")  # fmt: skip


@pytest.mark.long
def test_an_archive_holds_the_kernel_in_another_process(exported: Path) -> None:
    stranger(exported, """
class Around(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Module(16).requires_grad_(False)

    def forward(self, x):
        return self.inner(x.relu() + 1, 2.5) * 1.0

around = Around()
want = native(x.relu() + 1, 2.5, around.inner.b)
for strict in (False, True):
    program = torch.export.export(around, (x,), strict=strict)
    assert [n for n in program.graph.nodes if "kernelwright" in str(n.target)]
    assert who(program.module()(x), want) == "kernel"
rows = torch.export.Dim("rows", min=2, max=64)
several = torch.export.export(around, (x,), dynamic_shapes={"x": {0: rows}})
for count, answers in ((8, "kernel"), (9, "native")):
    y = torch.randn(count, 16)
    assert who(several.module()(y), native(y.relu() + 1, 2.5, around.inner.b)) == answers
torch.export.save(program, "exported.pt2")
assert torch._inductor.aoti_compile_and_package(program, package_path="compiled.pt2").endswith("compiled.pt2")
torch.save((x, want), "case.pt")
""")  # fmt: skip
    stranger(exported, """
x, want = torch.load("case.pt")
assert who(torch.export.load("exported.pt2").module()(x), want) == "kernel"
ahead = torch._inductor.aoti_load_package("compiled.pt2")
assert who(ahead(x), want) == "kernel" and who(ahead(x * 0), native(x * 0 + 1, 2.5, want.new_zeros(16)) + (
    want - native(x.relu() + 1, 2.5, want.new_zeros(16)))) == "kernel"
""")  # fmt: skip
    unknown = """
import torch
try:
    torch._inductor.aoti_load_package("compiled.pt2")(torch.load("case.pt")[0])
except RuntimeError as error:
    assert "scale_shift" in str(error), error
else:
    raise AssertionError("what does not know the operator cannot answer")
"""
    done = forked.run(["-c", unknown], cwd=exported, timeout=120, prepared=forked.STRANGER)
    assert done.returncode == 0, done.stderr
