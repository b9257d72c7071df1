"""Candidates from files and folders, and the existing form."""

from pathlib import Path

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Candidate, SourceFile, Task
from kernelwright.tasks import Problem, builds_cuda, load_candidate, load_task

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def function_task() -> Task:
    return load_task(EXAMPLES / "swiglu.py", max_elements=10_000)


@pytest.fixture(scope="module")
def module_task() -> Task:
    return load_task(EXAMPLES / "kernelbench_softmax.py", max_elements=10_000)


def _put(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", "class ModelNew: ...", ("torch", "a.py:ModelNew", "module")),
        ("a.py", "def run(x): ...", ("torch", "a.py:run", "function")),
        (
            "a.py",
            "import triton\n@triton.jit\ndef k(p): ...\ndef run(x): ...",
            ("triton", "a.py:run", "function"),
        ),
        (
            "a.py",
            "from triton import jit\n@jit\ndef k(p): ...\nclass ModelNew: ...",
            ("triton", "a.py:ModelNew", "module"),
        ),
        ("a.cpp", "KW_KERNEL(fast) {}", ("cpp", "a.cpp:fast", "destination")),
        ("a.cc", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(fast, impl);", ("cpp", "a.cc:fast", "destination")),
        ("a.cpp", 'extern "C" int __tvm_ffi_fast(void*) {}', ("cpp", "a.cpp:fast", "destination")),
        (
            "a.cpp",
            '#include "kernel_operator.h"\nKW_KERNEL(fast) {}',
            ("ascendc", "a.cpp:fast", "destination"),
        ),
        ("a.cu", "KW_KERNEL(fast) {}", ("cuda", "a.cu:fast", "destination")),
        ("a.hip", "KW_KERNEL(fast) {}", ("hip", "a.hip:fast", "destination")),
        (
            "a.py",
            "from jax.experimental import pallas as pl\ndef run(x): ...",
            ("pallas", "a.py:run", "function"),
        ),
        (
            "a.py",
            "import triton\nfrom triton.experimental import gluon\n@triton.jit\ndef k(p): ...\ndef run(x): ...",
            ("gluon", "a.py:run", "function"),
        ),
        ("a.py", "import helion.language as hl\ndef run(x): ...", ("helion", "a.py:run", "function")),
        ("a.py", "from tilelang import language\ndef run(x): ...", ("tilelang", "a.py:run", "function")),
        ("a.py", "import cutlass\ndef run(x): ...", ("cute", "a.py:run", "function")),
        ("a.py", "import helionic\ndef run(x): ...", ("torch", "a.py:run", "function")),
        ("a.py", "import jax.experimental.sparse\ndef run(x): ...", ("torch", "a.py:run", "function")),
        ("a.cl", "__kernel void fast(__global float* x) {}", ("opencl", "a.cl:fast", "destination")),
    ],
)
def test_one_file(
    tmp_path: Path, module_task: Task, name: str, text: str, expected: tuple[str, str, str]
) -> None:
    candidate = load_candidate(_put(tmp_path, name, text), module_task)
    assert (candidate.language, candidate.entry, candidate.style) == expected


def test_a_symbol_may_be_named(tmp_path: Path, function_task: Task) -> None:
    path = _put(tmp_path, "two.cpp", "KW_KERNEL(one) {}\nKW_KERNEL(two) {}")
    assert load_candidate(f"{path}:two", function_task).entry == "two.cpp:two"
    with pytest.raises(TaskError, match=r"one, two; expected one KW_KERNEL"):
        load_candidate(path, function_task)


def test_a_function_of_the_reference_s_name(tmp_path: Path, function_task: Task) -> None:
    path = _put(tmp_path, "mine.py", "def swiglu(projected): ...")
    assert load_candidate(path, function_task).entry == "mine.py:swiglu"


def test_a_folder_brings_its_headers(tmp_path: Path, function_task: Task) -> None:
    _put(tmp_path, "k.cpp", '#include "k.h"\nKW_KERNEL(fast) {}')
    _put(tmp_path, "k.h", "#pragma once")
    candidate = load_candidate(tmp_path, function_task)
    assert [s.path for s in candidate.sources] == ["k.cpp", "k.h"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", "x = 1", "defines none of 'ModelNew', 'run', 'swiglu'"),
        ("a.py", "class ModelNew: ...", "is a class and the task's reference a function"),
        ("a.py", "def run(:", "line 1 is not Python"),
        ("a.cpp", "int main() {}", "exported symbols found: none"),
        ("a.rs", "fn main() {}", "of no known kind"),
        ("a.json", "{}", "is no solution"),
    ],
)
def test_what_is_refused(tmp_path: Path, function_task: Task, name: str, text: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load_candidate(_put(tmp_path, name, text), function_task)


def test_a_language_of_an_extension_is_named(tmp_path: Path, function_task: Task) -> None:
    """Whether there is one of that name is known when it is built."""
    spec = '{"spec": {"language": "numpy", "entry_point": "a.py::go"}, "sources": [{"path": "a.py", "content": "%s"}]}'
    solved = load_candidate(_put(tmp_path, "a.json", spec % "def go(x): ..."), function_task)
    python = load_candidate(_put(tmp_path, "a.py", "def run(x): ..."), function_task, "numpy")
    other = load_candidate(_put(tmp_path, "a.jl", "run(gate, up) = 0"), function_task, "julia")
    named = load_candidate(f"{_put(tmp_path, 'b.jl', '')}:go", function_task, "julia")
    found = [(c.language, c.entry, c.style) for c in (solved, python, other, named)]
    assert found == [
        ("numpy", "a.py:go", "function"), ("numpy", "a.py:run", "function"), ("julia", "a.jl:run", "function"),
        ("julia", "b.jl:go", "function"),
    ]  # fmt: skip


def test_a_missing_file_and_an_empty_folder(tmp_path: Path, function_task: Task) -> None:
    with pytest.raises(TaskError, match=r"candidate file .* does not exist; expected a kernel's source"):
        load_candidate(tmp_path / "none.py", function_task)
    with pytest.raises(TaskError, match="found none"):
        load_candidate(tmp_path, function_task)


def test_an_existing_kernel_is_where_the_search_starts() -> None:
    task = load_task(EXAMPLES / "kernel_to_kernel", max_elements=10_000)
    assert (task.form, task.name) == ("existing", "layernorm")
    assert task.start[0].path == "layernorm.cpp"
    assert "KW_KERNEL(layernorm)" in task.start[0].text
    problem, workload = Problem(task), task.workloads[0]
    assert (
        problem.run_reference(workload, problem.inputs(workload, 0), {}).outputs[0].shape
        == workload.outputs[0].shape
    )


@pytest.mark.parametrize("file", ["kernelbench_softmax.py", "swiglu.py"])
def test_any_form_may_start_from_a_kernel(tmp_path: Path, file: str) -> None:
    kernel = _put(tmp_path, "k.cu", "KW_KERNEL(k) {}")
    task = load_task(EXAMPLES / file, max_elements=10_000, kernel=str(kernel))
    assert (task.form, task.start[0].path) == ("existing", "k.cu")
    problem, workload = Problem(task), task.workloads[-1]
    problem.run_reference(workload, problem.inputs(workload, 0), problem.state(workload, 0))


def test_folders_that_do_not_say_what_is_meant(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="found none"):
        load_task(tmp_path)
    _put(tmp_path, "a.py", (EXAMPLES / "swiglu.py").read_text())
    _put(tmp_path, "k.cpp", "")
    _put(tmp_path, "l.cpp", "")
    with pytest.raises(TaskError, match="holds 2 kernels; name one with --kernel"):
        load_task(tmp_path)
    _put(tmp_path, "b.py", "")
    with pytest.raises(TaskError, match=r"found a\.py, b\.py"):
        load_task(tmp_path)


def test_a_changed_copy_has_a_name_of_its_own() -> None:
    source = SourceFile(path="k.cpp", text="int a;")
    candidate = Candidate(sources=(source,), language="cpp", entry="k.cpp:k")
    assert candidate.key == candidate.model_copy().key
    other = candidate.model_copy(update={"entry": "k.cpp:other"})
    assert other.key == Candidate(sources=(source,), language="cpp", entry="k.cpp:other").key != candidate.key
    assert candidate.model_copy(update={"reason": "why"}).key == candidate.key


def test_a_file_that_cannot_be_parsed_builds_no_extension():
    assert not builds_cuda("def (")
