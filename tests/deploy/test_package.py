"""Export a kernel, then use the package as a stranger would: in a fresh process without Kernelwright."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests import forked

from kernelwright.deploy import Claim, Kernel, Specialisation, admits, guard, package, ranges
from kernelwright.deploy.runtime import loaders
from kernelwright.errors import InputError
from kernelwright.languages.cpp import header
from kernelwright.records import (
    Build,
    BuildStatus,
    Candidate,
    Contract,
    Decision,
    DecisionStatus,
    Evaluation,
    Reference,
    ScalarSpec,
    ServedSizes,
    SizeOf,
    SourceFile,
    SymbolRange,
    Task,
    TensorSpec,
    Workload,
)

KERNEL = """
#include "kernelwright.h"
KW_KERNEL(scale_shift) {
  auto x = args.tensor<const float>(0);
  const float a = static_cast<float>(args.real(1));
  auto b = args.tensor<const float>(2);
  auto out = args.tensor<float>(3);
  if (x.shape(0) == 5) KW_UNSUPPORTED("five rows");
  const float *px = x.data(), *pb = b.data();
  float* po = out.data();
  const int64_t rows = x.shape(0), columns = x.shape(1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) po[r * columns + c] = px[r * columns + c] * a + pb[c];
}
"""
REFERENCE = "def scale_shift(x, a, b):\n    return x * a + b\n"
MODULE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.b = torch.nn.Parameter(torch.randn(columns))
    def forward(self, x, a):
        return x * a + self.b
"""


def workload(rows: int, module: bool = False) -> Workload:
    x = TensorSpec(name="x", shape=(rows, 16), dtype="float32")
    b = TensorSpec(name="b", shape=(16,), dtype="float32")
    out = TensorSpec(name="out", shape=(rows, 16), dtype="float32")
    a = ScalarSpec(name="a", value=2.5)
    return Workload(
        name=f"rows={rows}",
        arguments=(x, a) if module else (x, a, b),
        state=(b,) if module else (),
        outputs=(out,),
    )


def make_task(module: bool = False) -> Task:
    text, entry = (MODULE, "ref.py:Model") if module else (REFERENCE, "ref.py:scale_shift")
    return Task(
        name="scale-shift",
        form="own",
        reference=Reference(
            files=(SourceFile(path="ref.py", text=text),),
            entry=entry,
            style="module" if module else "function",
        ),
        workloads=(workload(4, module), workload(8, module)),
    )


CANDIDATE = Candidate(
    sources=(SourceFile(path="kernel.cpp", text=KERNEL), header()),
    language="cpp",
    entry="kernel.cpp:scale_shift",
    style="destination",
)


def specialisation(task: Task, candidate: Candidate = CANDIDATE) -> Specialisation:
    decision = Decision(candidate=candidate.key, status=DecisionStatus.IMPROVED, reason="planted")
    evaluation = Evaluation(candidate=candidate, build=Build(status=BuildStatus.OK), decision=decision)
    return Specialisation(evaluation, task.workloads)


def claim(task: Task) -> Claim:
    return Claim(
        task=task.name,
        task_key=task.key,
        run="r1",
        reproduce="kernelwright optimize ref.py",
        decisions=(),
        contract=Contract(),
        environment={"torch": "here"},
        verified=("rows=4",),
        not_tested=("gradients",),
    )


def export(folder: Path, module: bool = False) -> Kernel:
    task = make_task(module)
    return package(task, [specialisation(task)], claim(task), folder, init=(16,) if module else ())


def run(folder: Path, code: str) -> str:
    blocked = "import sys, warnings; sys.modules['kernelwright'] = None\n"
    strict = "warnings.filterwarnings('error', category=RuntimeWarning)\n"
    done = forked.run(["-c", blocked + strict + code], cwd=folder, timeout=120, prepared=forked.STRANGER)
    assert done.returncode == 0, done.stderr
    return done.stdout


needs_compiler = pytest.mark.needs("C++ compiler")


@needs_compiler
def test_kernel_inside_the_guard_native_outside(tmp_path: Path) -> None:
    export(tmp_path / "out")
    code = """
import torch
from scale_shift import scale_shift, dispatcher
b = torch.randn(16)
for rows, want in ((4, "cpp"), (6, "cpp"), (8, "cpp"), (3, "native"), (9, "native")):
    x = torch.randn(rows, 16)
    assert dispatcher.choose(x, 2.5, b).startswith(want), rows
    assert torch.allclose(scale_shift(x, 2.5, b), x * 2.5 + b, atol=1e-5)
x = torch.randn(4, 16)
assert dispatcher.choose(x, 2.0, b) == "native"
assert dispatcher.choose(x.double(), 2.5, b) == "native"
assert dispatcher.choose(torch.randn(16, 4).t(), 2.5, b) == "native"
assert torch.equal(scale_shift(x.double(), 2.5, b.double()), x.double() * 2.5 + b.double())
w = b.clone().requires_grad_()
scale_shift(x, 2.5, w).sum().backward()
assert torch.equal(w.grad, torch.full((16,), 4.0))
five = torch.randn(5, 16)  # inside the guard, but the kernel declines
assert torch.allclose(scale_shift(five, 2.5, b), five * 2.5 + b, atol=1e-5)
print("fine")
"""
    assert run(tmp_path / "out", code) == "fine\n"


def test_a_reference_under_kw_task_needs_no_kernelwright(tmp_path: Path) -> None:
    declared = (
        "import kernelwright as kw\nfrom kernelwright import Contract\n"
        "@kw.task(x='float32[rows, 16]', workloads=[{'rows': 4}], contract=Contract(calls='anything'))\n"
    )
    task = make_task()
    files = (SourceFile(path="ref.py", text=declared + REFERENCE),)
    task = task.model_copy(update={"reference": task.reference.model_copy(update={"files": files})})
    package(task, [specialisation(task)], claim(task), tmp_path / "out")
    code = """
import torch
from scale_shift import scale_shift
x, b = torch.randn(3, 16), torch.randn(16)
assert torch.equal(scale_shift(x, 2.5, b), x * 2.5 + b)
assert sys.modules.get("kernelwright") is None
"""
    run(tmp_path / "out", code)


@needs_compiler
def test_the_kernel_itself_serves(tmp_path: Path) -> None:
    """With the native op broken, calls inside the guard still work: the kernel answers, not the fallback.

    Its source does not carry our header, as those that people and agents write do not.
    """
    task, written = make_task(), CANDIDATE.model_copy(update={"sources": CANDIDATE.sources[:1]})
    package(task, [specialisation(task, written)], claim(task), tmp_path / "out")
    code = """
import torch
from scale_shift import dispatcher
x, b = torch.randn(4, 16), torch.randn(16)
want = dispatcher(x, 2.5, b)
dispatcher.native = None
assert torch.allclose(dispatcher(x, 2.5, b), x * 2.5 + b, atol=1e-5)
"""
    run(tmp_path / "out", code)


@needs_compiler
def test_the_op_is_sound_for_torch_compile(tmp_path: Path) -> None:
    export(tmp_path / "out")
    code = """
import torch
from scale_shift import op, scale_shift
x, b = torch.randn(4, 16), torch.randn(16)
torch.library.opcheck(op, (x, 2.5, b), test_utils=("test_schema", "test_faketensor"))
got = torch.compile(lambda x, b: scale_shift(x, 2.5, b) + 1, backend="aot_eager", fullgraph=True)(x, b)
assert torch.allclose(got, x * 2.5 + b + 1, atol=1e-5)
"""
    run(tmp_path / "out", code)


@needs_compiler
def test_a_module_keeps_its_state(tmp_path: Path) -> None:
    export(tmp_path / "out", module=True)
    code = """
import torch
from scale_shift import Module, dispatcher
m = Module(16)
x = torch.randn(8, 16)
with torch.no_grad():
    assert torch.allclose(m(x, 2.5), x * 2.5 + m.b, atol=1e-5)
    m.b.fill_(7)
    assert torch.allclose(m(x, 2.5), x * 2.5 + 7, atol=1e-5)
    assert dispatcher.choose(x, 2.5, m.b).startswith("cpp")
    other = Module(8)
    assert torch.allclose(other(x[:, :8], 2.5), x[:, :8] * 2.5 + other.b, atol=1e-5)
"""
    run(tmp_path / "out", code)


@needs_compiler
def test_a_module_that_was_called_is_exported_and_its_copies_have_modes_of_their_own(tmp_path: Path) -> None:
    export(tmp_path / "out", module=True)
    code = """
import copy
import torch
from scale_shift import Module
m = Module(16)
x = torch.randn(8, 16)
with torch.no_grad():
    m(x, 2.5)
    exported = torch.export.export(m, (x, 2.5))
assert any("scale_shift" in str(node.target) for node in exported.graph.nodes), exported.graph
assert torch.allclose(exported.module()(x, 2.5), x * 2.5 + m.b, atol=1e-5)
for made in (copy.deepcopy, copy.copy):
    copied = made(m)
    assert copied.verified_state() is not None
    copied.train(not copied.training)
    assert copied.verified_state() is None, "it is in another mode"
    assert m.verified_state() is not None
"""
    run(tmp_path / "out", code)


@pytest.mark.long
@needs_compiler
def test_its_own_test_passes_and_can_fail(tmp_path: Path) -> None:
    kernel = export(tmp_path / "out")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        ".",
    ]
    good = subprocess.run(command, cwd=kernel.folder, capture_output=True, text=True)
    assert good.returncode == 0, good.stdout
    source = kernel.folder / kernel.name / "specialisations" / kernel.specialisations[0] / "kernel.cpp"
    source.write_text(source.read_text().replace("* a + pb[c]", "* a"))
    bad = subprocess.run(command, cwd=kernel.folder, capture_output=True, text=True)
    assert bad.returncode == 1, bad.stdout
    source.write_text("no kernel")
    unused = subprocess.run([*command, "-k", "serves"], cwd=kernel.folder, capture_output=True, text=True)
    assert unused.returncode == 1 and "is not used" in unused.stdout


def test_without_a_compiler_the_native_op_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(tmp_path / "out")
    code = """
import os, warnings, torch
os.environ["PATH"] = ""
os.environ.pop("CXX", None)
from scale_shift import scale_shift
x, b = torch.randn(4, 16), torch.randn(16)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert torch.equal(scale_shift(x, 2.5, b), x * 2.5 + b)
assert any("no C++ compiler" in str(w.message) for w in seen)
"""
    run(tmp_path / "out", code)


def test_the_first_variant_that_admits_a_call_serves(tmp_path: Path) -> None:
    """One kernel for all sizes, another that is better on eight rows: both behind one guard, the native op beyond."""
    task = make_task()
    every, eight = (
        Candidate(
            sources=(SourceFile(path="k.py", text=f"def run(x, a, b):\n    return {text}\n"),),
            language="torch",
            entry="k.py:run",
        )
        for text in ("x * a + b", "b + x * a")
    )
    small, large = task.workloads
    kept = [
        Specialisation(specialisation(task, eight).evaluation, (large,)),
        Specialisation(specialisation(task, every).evaluation, (small, large)),
    ]
    package(task, kept, claim(task), tmp_path / "out")
    code = f"""
import torch
from scale_shift import dispatcher
b = torch.randn(16)
for rows, want in ((4, "{every.key}"), (6, "{every.key}"), (8, "{eight.key}"), (9, "native")):
    x = torch.randn(rows, 16)
    assert dispatcher.choose(x, 2.5, b).endswith(want), rows
    assert torch.allclose(dispatcher(x, 2.5, b), x * 2.5 + b, atol=1e-5)
"""
    run(tmp_path / "out", code)


def test_packed_weights_follow_in_the_package_as_they_did_before_the_judge(tmp_path: Path) -> None:
    text = (
        "packings = []\ndef prepare(weights):\n    packings.append(1)\n    return weights['b'] * 2\n\n"
        "def run(x, a, packed):\n    return x * a + packed / 2\n"
    )
    packer = Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")
    task = make_task(module=True)
    package(task, [specialisation(task, packer)], claim(task), tmp_path / "out", init=(16,))
    code = """
import sys, torch
from scale_shift import Module, dispatcher
m = Module(16)
with torch.no_grad():
    for change in (lambda: None, lambda: m.b.fill_(7), lambda: setattr(m, "b", torch.nn.Parameter(torch.randn(16)))):
        change()
        for rows in (4, 8, 8):
            x = torch.randn(rows, 16)
            assert dispatcher.choose(x, 2.5, m.b).startswith("torch")
            assert torch.allclose(m(x, 2.5), x * 2.5 + m.b, atol=1e-5)
(packings,) = [v.packings for n, v in sys.modules.items() if n.startswith("specialisation_") and hasattr(v, "packings")]
assert len(packings) == 3, packings
"""
    run(tmp_path / "out", code)


def test_workloads_of_several_dtypes_have_ranges_of_their_own() -> None:
    single = workload(4)
    double = single.model_copy(
        update={
            "name": "double",
            "arguments": tuple(
                a.model_copy(update={"dtype": "float64"}) if isinstance(a, TensorSpec) else a
                for a in single.arguments
            ),
        }
    )
    assert ranges([single, double], [workload(8)]) == [(single,), (double,)]


def test_a_reference_of_several_files_is_exported_whole(tmp_path: Path) -> None:
    task = make_task()
    files = (
        SourceFile(
            path="ref.py",
            text="from helper import add\n\ndef scale_shift(x, a, b):\n    return add(x * a, b)\n",
        ),
        SourceFile(path="helper.py", text="def add(x, y):\n    return x + y\n"),
    )
    task = task.model_copy(update={"reference": task.reference.model_copy(update={"files": files})})
    package(task, [specialisation(task)], claim(task), tmp_path / "out")
    code = """
import sys, torch
sys.modules["helper"] = mine = type(sys)("helper")
from scale_shift import native
assert torch.equal(native(torch.ones(3, 16), 2.5, torch.ones(16)), torch.full((3, 16), 3.5))
assert sys.modules["helper"] is mine
"""
    run(tmp_path / "out", code)


def test_a_folder_of_somebody_else_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        export(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    export(tmp_path / "out")
    (tmp_path / "out" / "scale_shift" / "stale.py").write_text("")
    export(tmp_path / "out")
    assert not (tmp_path / "out" / "scale_shift" / "stale.py").exists()
    assert json.loads((tmp_path / "out" / "claim.json").read_text())["run"] == "r1"


def test_an_earlier_export_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path / "out")
    before = (tmp_path / "out" / "claim.json").read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kernelwright.deploy._package.shutil.copytree", full)
    with pytest.raises(OSError, match="No space left"):
        export(tmp_path / "out")
    assert (tmp_path / "out" / "claim.json").read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_is_no_folder_to_export_to(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        export(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_nothing_accepted_nothing_exported(tmp_path: Path) -> None:
    task = make_task()
    with pytest.raises(InputError, match="no accepted kernel"):
        package(task, [], claim(task), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_sheet_says_what_was_not_tested(tmp_path: Path) -> None:
    kernel = export(tmp_path / "out")
    text = (kernel.folder / "CLAIM.md").read_text()
    assert "gradients" in text
    assert "kernelwright optimize ref.py" in text


def test_an_opened_range_serves_multiples_that_go_together_and_nothing_else(tmp_path: Path) -> None:
    text = "def scale_shift(x, b):\n    return x * 3 + b\n"
    kernel = "def run(x, b):\n    return x * 3 + b\n"
    x = TensorSpec(name="x", shape=(4, 16), dtype="float32")
    b = TensorSpec(name="b", shape=(16,), dtype="float32")
    one = Workload(name="w", axes={"rows": 4, "columns": 16}, arguments=(x, b), outputs=(x,))
    task = Task(
        name="scale-shift", form="own", workloads=(one,),
        reference=Reference(
            files=(SourceFile(path="ref.py", text=text),), entry="ref.py:scale_shift", style="function"
        ),
    )  # fmt: skip
    candidate = Candidate(sources=(SourceFile(path="c.py", text=kernel),), language="torch", entry="c.py:run")
    rows, columns = SizeOf(symbol="rows"), SizeOf(symbol="columns")
    box = (
        SymbolRange(symbol="rows", low=1, high=8),
        SymbolRange(symbol="columns", low=8, high=32, multiple=8),
    )
    sizes = ServedSizes(workload="w", arguments=((rows, columns), (columns,)), boxes=(box,))
    opened = Specialisation(specialisation(task, candidate).evaluation, (one,), sizes, box)
    package(task, [specialisation(task, candidate), opened], claim(task), tmp_path / "out")
    calls = [
        ((4, 16), 16),
        ((1, 8), 8),
        ((8, 32), 32),
        ((9, 16), 16),
        ((4, 12), 12),
        ((4, 16), 8),
        ((4, 16), 1),
    ]
    code = (
        "import torch, scale_shift\n"
        f"for x, b in {calls}:\n"
        "    print(scale_shift.dispatcher.choose(torch.zeros(x), torch.zeros(b)) != 'native')\n"
    )
    assert run(tmp_path / "out", code).split() == ["True"] * 3 + ["False"] * 4


def test_sizes_that_were_equal_wherever_it_was_accepted_must_be_equal(tmp_path: Path) -> None:
    def at(size: int) -> Workload:
        given = tuple(TensorSpec(name=n, shape=(size,), dtype="float32") for n in "xy")
        return Workload(name=f"n={size}", arguments=given, outputs=given[:1])

    rules = guard([at(1), at(8)], "cpu")
    together = [["x[0]", 1, 0, 1]]
    assert [r["symbols"] for r in rules] == [together, together]
    mixed = at(8).model_copy(update={"arguments": (at(8).arguments[0], at(1).arguments[1])})
    assert admits(rules, at(4))
    assert not admits(rules, mixed), "a kernel would read past the end of what the native op broadcasts"


SAMPLED = """
import warnings, torch
from scale_shift import dispatcher, native, scale_shift
from scale_shift._runtime.dispatch import Dispatcher
torch.manual_seed(0)
x, b = torch.randn(4, 16), torch.randn(16)
calls = []
def counted(*arguments):
    calls.append(1)
    return native(*arguments)
from pathlib import Path
import scale_shift as package
sampled = Dispatcher(Path(package.__file__).parent, counted, sample={sample})
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    results = [sampled(x, 2.5, b) for _ in range(60)]
right = sum(bool(torch.allclose(r, native(x, 2.5, b), atol=1e-5)) for r in results)
print(len(calls), right, len(said), sampled.choose(x, 2.5, b), dispatcher.sample)
"""
WRONG_LATER = KERNEL.replace(
    "po[r * columns + c] = px", "po[r * columns + c] = (++calls > 10 * 64 ? 2 : 1) * px"
).replace("KW_KERNEL", "static int calls;\nKW_KERNEL")


def exported(folder: Path, text: str) -> None:
    task = make_task()
    candidate = CANDIDATE.model_copy(update={"sources": (SourceFile(path="kernel.cpp", text=text), header())})
    package(task, [specialisation(task, candidate)], claim(task), folder)


@needs_compiler
def test_sampled_calls_are_compared_and_a_right_kernel_stays(tmp_path: Path) -> None:
    exported(tmp_path, KERNEL)
    native_calls, right, said, chosen, default = run(tmp_path, SAMPLED.format(sample=5)).split()
    assert default == "0" and said == "0" and right == "60" and chosen != "native"
    assert 5 <= int(native_calls) <= 60  # two a sampled call: at its dtype and in float64


@needs_compiler
def test_nothing_is_compared_unless_asked_for(tmp_path: Path) -> None:
    exported(tmp_path, WRONG_LATER)
    native_calls, right, said, chosen, _ = run(tmp_path, SAMPLED.format(sample=0)).split()
    assert int(native_calls) <= 1 and int(right) < 60 and said == "0" and chosen != "native"


@needs_compiler
def test_a_kernel_that_went_wrong_is_found_by_sampling_and_serves_no_more(tmp_path: Path) -> None:
    exported(tmp_path, WRONG_LATER)
    _, right, said, chosen, _ = run(tmp_path, SAMPLED.format(sample=1)).split()
    assert (right, said, chosen) == ("60", "1", "native")


def test_how_often_to_compare_is_read_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path)
    monkeypatch.setenv("KERNELWRIGHT_SAMPLE", "100")
    assert run(tmp_path, "from scale_shift import dispatcher; print(dispatcher.sample)").strip() == "100"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda own: own.add_(1.0), ""),
        (lambda own: own.mul_(1.5), "off by"),
        (lambda own: own.fill_(float("nan")), "not finite"),
    ],
)
def test_what_a_sampled_call_says(spoil, said: str) -> None:
    from kernelwright.deploy.runtime.sampling import compared

    def kernel(x):
        return spoil(native(x)) if said else native(x)

    def native(x):
        return torch.tanh(x)

    x = torch.randn(64)
    result, wrong = compared(kernel, native, (x,), {"factor": 2.0, "floor": 4.0})
    assert said in wrong and bool(wrong) == bool(said)
    assert torch.equal(result, native(x))


def test_an_argument_that_a_sampled_call_spoilt_is_repaired() -> None:
    from kernelwright.deploy.runtime.sampling import compared

    x = torch.randn(64)
    before = x.clone()
    result, wrong = compared(lambda x: x.mul_(3) / 3, lambda x: x * 1.0, (x,), {"factor": 2.0, "floor": 4.0})
    assert "argument 0" in wrong and torch.equal(x, before) and torch.equal(result, before)


def test_results_are_made_like_tensors_without_memory():
    like = loaders.hollow((3, 5), torch.bfloat16, torch.device("cpu"))
    assert like.untyped_storage().nbytes() == 0
    seen = []
    call = loaders.destination(lambda x, out: seen.append(out.fill_(x.sum())), [like], (torch.ones(2),))
    one, two = call(torch.ones(2)), call(torch.ones(4))
    assert (one.shape, one.dtype, one.is_contiguous()) == ((3, 5), torch.bfloat16, True)
    assert bool((one == 2).all()) and bool((two == 4).all()) and one.data_ptr() != two.data_ptr()
    several = loaders.destination(lambda x, y, a, b: (a.copy_(x), b.copy_(y)), [like, like], ((1, 2),))
    x, y = torch.ones(3, 5), torch.zeros(3, 5)
    assert [bool((a == b).all()) for a, b in zip(several((x, y)), (x, y), strict=True)] == [True, True]
