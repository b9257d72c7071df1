"""The frame of the library: how an op is called, checked, registered, explained, and what runs without a compiler."""

import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from tests.tools import require

from kernelwright import ops
from kernelwright.errors import InputError, NotFoundError
from kernelwright.ops._core import cpu_only

HOME = Path(ops.__file__).parent


@pytest.fixture
def data():
    return torch.randn(300, 20), torch.randn(17, 20)


def test_a_family_is_a_folder_and_an_unknown_one_is_named():
    assert set(ops.families()) == {p.name for p in HOME.iterdir() if (p / "kernel.cpp").is_file()}
    with pytest.raises(AttributeError, match="kmeans"):
        ops.kmean  # noqa: B018
    with pytest.raises(NotFoundError, match="did you mean 'kmeans'"):
        ops.build("kmean")


@pytest.mark.parametrize("name", ops.families())
def test_a_family_has_its_files_and_cases(name):
    from kernelwright.api.ops import cases_of

    module = ops.family(name)
    assert {op.name for op in ops.ops_of(module)} <= set(module.KERNEL.symbols)
    assert {cases.op for cases in cases_of(name)} <= set(module.KERNEL.symbols)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if n != "rope" else ()) for n in ops.families()]
)
def test_there_are_cases_enough(name):
    from kernelwright.api.ops import cases_of, task_of

    for cases in cases_of(name):
        assert len(task_of(name, cases).workloads) >= 30


def test_importing_the_library_imports_no_family():
    code = "import sys, kernelwright.ops; print('kernelwright.ops.kmeans' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_an_op_is_registered_with_torch(data):
    direct = ops.kmeans.assign(*data)
    for one, other in zip(torch.ops.kernelwright.kmeans_assign(*data, None), direct, strict=True):
        assert torch.equal(one, other)
    torch.library.opcheck(torch.ops.kernelwright.kmeans_assign.default, (*data, None))


def test_it_goes_through_compile_and_fake_tensors(data):
    def nearest(x, c):
        return ops.kmeans.assign(x * 2, c)[1] + 1

    compiled = torch.compile(nearest, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*data), nearest(*data))
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in data]
        labels, distances = ops.kmeans.assign(*fake)
    assert labels.shape == distances.shape == (300,)
    assert labels.dtype is torch.int64


def test_explain_says_what_would_serve_and_why_and_runs_nothing(data, monkeypatch):
    (op, *_) = ops.ops_of(ops.kmeans)
    monkeypatch.setattr(op, "_ran", lambda *_: pytest.fail("it ran"))
    monkeypatch.setattr(op.kernel, "function", lambda *_: pytest.fail("it was built or loaded"))
    (one,) = ops.explain(lambda: ops.kmeans.assign(*data))
    assert (one.op, one.serves, one.why, one.time_us) == ("kmeans_assign", "kernel", "", 0)
    assert one.arguments == ((300, 20), (17, 20), None)
    assert "bytes of rows that meet panel after panel" in one.variant
    (one,) = ops.explain(lambda: ops.kmeans.assign(*(t.double() for t in data)))
    assert (one.serves, one.variant) == ("reference", "")
    assert "float64" in one.why
    huge = torch.empty(1, 1).expand(1 << 40, 20)
    assert ops.explain(lambda: ops.kmeans.assign(huge, data[1]))[0].serves == "kernel"


def test_explain_follows_a_call_through_its_gradients_and_says_where_it_would_look_at_values(data):
    def trained():
        x = torch.randn(4, 8, requires_grad=True)
        ops.norms.rms_norm(x, torch.ones(8)).sum().backward()

    assert [one.op for one in ops.explain(trained)] == ["rms_norm", "rms_norm_backward"]
    with pytest.raises(InputError, match=r"looks at values of tensors after kmeans_assign .*`watch` runs it"):
        ops.explain(lambda: float(ops.kmeans.assign(*data)[1].sum()))
    with pytest.raises(InputError, match="centroids is of 3 columns"):
        ops.explain(lambda: ops.kmeans.assign(data[0], data[1][:, :3]))
    (ran,) = ops.watch(lambda: ops.kmeans.assign(*data))
    assert ran.serves == "kernel"
    assert ran.time_us > 0


def test_explain_says_that_there_is_no_compiler(tmp_path):
    code = (
        NEAREST.partition("labels,")[0]
        + """
(one,) = ops.explain(lambda: ops.kmeans.assign(x, c))
print(one.serves, one.why)
"""
    )
    done = run_in(code, KERNELWRIGHT_CXX="no-such-compiler", KERNELWRIGHT_CACHE=str(tmp_path))
    assert done.stdout.startswith("reference no C++ compiler 'no-such-compiler'"), done.stderr


def test_watch_says_what_ran_and_why(data):
    (one,) = ops.watch(lambda: ops.kmeans.assign(*data))
    assert (one.op, one.serves, one.why) == ("kmeans_assign", "kernel", "")
    assert one.arguments == ((300, 20), (17, 20), None)
    with pytest.warns(RuntimeWarning, match="runs its reference: x is of torch.float64"):
        ops.ops_of(ops.kmeans)[0]._said.clear()
        (other,) = ops.watch(lambda: ops.kmeans.assign(*(t.double() for t in data)))
    assert other.serves == "reference"
    assert "float64" in other.why


def test_the_reference_is_told_of_once(data):
    wide = [t.double() for t in data]
    ops.ops_of(ops.kmeans)[0]._said.clear()
    with pytest.warns(RuntimeWarning):
        ops.kmeans.assign(*wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ops.kmeans.assign(*wide)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x, c: (x[0], c), r"kmeans.assign: x is of shape \(20,\); expected a matrix"),
        (lambda x, c: (x.long(), c), "x is of torch.int64; expected float32"),
        (lambda x, c: (x, c[:, :3]), "centroids is of 3 columns; expected 20, as x has"),
        (lambda x, c: (x, c[:0]), "centroids is empty; expected at least one row"),
        (
            lambda x, c: (x, c.bfloat16()),
            "centroids is of torch.bfloat16; expected torch.float32, as x is, or torch.float32",
        ),
        (lambda x, c: (x.tolist(), c), "x is a list; expected a tensor"),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(data, change, says):
    with pytest.raises(InputError, match=says) as error:
        ops.kmeans.assign(*change(*data))
    assert isinstance(error.value, ValueError)
    assert str(error.value).count("\n") == 0


def run_in(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )  # fmt: skip


NEAREST = """
import torch, kernelwright.ops as ops
x, c = torch.randn(200, 8), torch.randn(9, 8)
labels, distances = ops.kmeans.assign(x, c)
assert torch.allclose(distances, torch.cdist(x, c).square().amin(1), atol=1e-4)
print(*{one.serves for one in ops.watch(lambda: ops.kmeans.assign(x, c))})
"""


def test_tensors_without_values_run_the_reference_and_nothing_is_said():
    x, c = (
        torch.empty(300, 20, device="meta"),
        torch.empty(17, 20, device="meta"),
    )  # a warning would be an error
    labels, _ = ops.kmeans.assign(x, c)
    assert labels.is_meta and labels.shape == (300,)


def test_without_a_compiler_the_reference_runs_and_says_so(tmp_path):
    done = run_in(NEAREST, KERNELWRIGHT_CXX="no-such-compiler", KERNELWRIGHT_CACHE=str(tmp_path))
    assert done.stdout == "reference\n", done.stderr
    assert len(re.findall("runs its reference: its kernel could not be built here", done.stderr)) == 1


@pytest.mark.long
@pytest.mark.slow
def test_the_first_use_builds_with_one_line_and_the_second_is_silent(tmp_path):
    first, second = (run_in(NEAREST, KERNELWRIGHT_CACHE=str(tmp_path)) for _ in range(2))
    assert first.stdout == second.stdout == "kernel\n"
    assert first.stderr == "kernelwright: building kmeans_assign for this processor (once)\n"
    assert second.stderr == ""


def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have():
    code = """
import os, signal, torch, kernelwright.ops as ops
torch.set_num_threads(2)
x, c = torch.randn(20000, 32), torch.randn(64, 32)
before = ops.kmeans.assign(x, c)[0]
child = os.fork()
if child == 0:
    signal.alarm(30)
    same = bool((ops.kmeans.assign(x, c)[0] == before).all())
    os._exit(0 if same else 1)
print(os.waitpid(child, 0)[1], torch.get_num_threads())
"""
    assert run_in(code).stdout == "0 2\n"


def test_threads_may_call_at_once(data):
    expected = ops.kmeans.assign(*data)[0]
    wrong = []

    def call():
        for _ in range(20):
            if not torch.equal(ops.kmeans.assign(*data)[0], expected):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_kernel_is_not_for_other_devices():
    assert cpu_only(torch.ones(1)) is None
    assert "meta" in cpu_only(torch.ones(1, device="meta"))


def test_a_kernel_is_built_from_every_header_that_it_includes_and_no_other():
    sources = {s.path: s.text for s in ops.kmeans.KERNEL.sources}
    included = {
        n for text in sources.values() for n in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
    }
    assert included - {n for n in included if "/" in n} <= set(sources)
    assert set(sources) - {"kernel.cpp"} <= included  # an edit of any other builds nothing again
    assert "kernelwright.h" in sources


@pytest.fixture
def silu():
    """An op, its memory of this one served call, and what it is called with."""
    require("C++ compiler")
    (op,) = (op for op in ops.ops_of(ops.activations) if op.name == "activation")
    op._served = None  # forgets the calls of other tests
    op._load()
    x = torch.randn(4, 7)
    op(x, 0)
    assert op._served is not None
    return op, op._served, x


def test_a_call_alike_goes_straight_to_the_kernel(silu, monkeypatch):
    op, served, _ = silu
    monkeypatch.setattr(op, "check", lambda *_: pytest.fail("it is checked again"))
    other = torch.randn(4, 7)
    found, direct = op(other, 0), served(other, 0)
    assert torch.equal(found, direct)
    assert torch.allclose(found, torch.nn.functional.silu(other))
    assert found.shape == (4, 7) and found.dtype is torch.float32 and found.data_ptr() != other.data_ptr()


OTHERS = {
    "another size": lambda x: (torch.randn(4, 8), 0),
    "another rank": lambda x: (torch.randn(28), 0),
    "other strides": lambda x: (torch.randn(7, 4).T, 0),
    "another dtype": lambda x: (x.bfloat16(), 0),
    "another device": lambda x: (x.to("meta"), 0),
    "another kind": lambda x: (torch.nn.Parameter(x), 0),
    "a gradient": lambda x: (x.clone().requires_grad_(), 0),
    "negated later": lambda x: (torch.complex(x, x).conj().imag, 0),
    "another number": lambda x: (x, 1),
    "a flag for a number": lambda x: (x, False),
    "a real number for a whole one": lambda x: (x, 0.0),
    "no number": lambda x: (x, None),
    "more": lambda x: (x, 0, 0),
    "fewer": lambda x: (x,),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_call_is_not_alike(silu, name):
    _, served, x = silu
    assert served(*OTHERS[name](x)) is None
    assert served(x, 0) is not None


def test_transforms_modes_and_inference_are_not_alike(silu):
    _, served, x = silu
    within: list[object] = []
    torch.vmap(lambda row: (within.append(served(row, 0)), row)[1])(x)
    assert within == [None]
    with torch.inference_mode():
        assert served(x, 0) is None
    with torch._subclasses.FakeTensorMode() as mode:
        assert served(mode.from_tensor(x), 0) is None


def test_a_memory_is_short_and_what_is_forgotten_is_checked_again(silu):
    op, served, x = silu
    for n in range(1, 9):
        op(torch.randn(n), 0)
    assert served(x, 0) is None
    op(x, 0)
    assert served(x, 0) is not None


@pytest.mark.usefixtures("silu")
def test_what_a_kernel_refuses_is_raised_as_it_is_without_a_memory():
    weight, good, bad = torch.randn(5, 3), torch.tensor([0, 4]), torch.tensor([0, 5])
    ops.embedding.embedding(good, weight)
    (op,) = (op for op in ops.ops_of(ops.embedding) if op.name == "embedding")
    assert op._served(weight, good, -1) is not None and op._served(weight, bad, -1) is None
    for _ in range(2):
        with pytest.raises(IndexError, match="ids is out of range"):
            ops.embedding.embedding(bad, weight)
    assert torch.equal(ops.embedding.embedding(good, weight), weight[good])
