"""Extensions that a Python file builds inline are built once, and handed out in workers; compilers are stood in for."""

import sysconfig
from pathlib import Path

import pytest
import torch.utils.cpp_extension as extension

from kernelwright.languages import _inline
from kernelwright.languages._inline import NotLiteralError, build_inline, calls_in, hand_out, key_of
from kernelwright.languages._process import Finished, run_tool
from kernelwright.records import BuildStatus, Candidate, SourceFile

TOP = "made = load_inline(name='a', cpp_sources='int f();', cuda_sources=['int f() { return 7; }'], functions=['f'])\n"
CAUGHT = f"try:\n    {TOP}except RuntimeError:\n    made = None\n"
MODULE = """
#include <Python.h>
static PyModuleDef def = {PyModuleDef_HEAD_INIT, "inline_extension", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit_inline_extension() {
  PyObject* made = PyModule_Create(&def);
  PyModule_AddIntConstant(made, "answer", 7);
  return made;
}
"""


def candidate(text: str) -> Candidate:
    source = SourceFile(path="k.py", text=text)
    return Candidate(sources=(source,), language="cuda", entry="k.py:ModelNew", style="module")


@pytest.fixture
def builds(monkeypatch):
    """Stand in for torch's build: the folders that were built; `says` is how each ends."""
    made: dict[str, object] = {"folders": [], "says": Finished(0, "", False, 0.1), "env": {}}

    def run(_, *, folder, env, **__):
        made["folders"].append(folder)
        made["env"] = env
        return made["says"]

    monkeypatch.setattr(_inline, "run_tool", run)
    return made


@pytest.fixture
def by_torch(monkeypatch):
    """Stand in for torch's `load_inline`; it is what it was afterwards."""
    monkeypatch.setattr(extension, "load_inline", lambda name, *a, **k: f"{name} by torch")


def test_sources_are_found_where_they_are_assigned_once_in_functions_and_attributes_too():
    asked = "load_inline('n', cpp_sources=w, cuda_sources=self.s)"
    text = f"class A:\n  def f(self):\n    self.s = 'x'\n    w = 'y'\n    {asked}\n"
    assert calls_in(text) == [{"cpp_sources": "y", "cuda_sources": "x"}]
    with pytest.raises(NotLiteralError, match="'w' at line 6"):
        calls_in(text.replace("w = 'y'", "w = 'y'\n    w = 'z'"))


def test_each_extension_is_built_once_for_the_architectures_that_are_asked_for(builds, tmp_path):
    build = build_inline(candidate(TOP + TOP), tmp_path, ["9.0a", "8.0"], 10)
    assert build.status is BuildStatus.OK
    assert [f.name for f in builds["folders"]] == [key_of(calls_in(TOP)[0])]
    assert builds["env"]["TORCH_CUDA_ARCH_LIST"] == "9.0a;8.0"


def test_the_same_sources_with_other_options_are_another_extension(builds, tmp_path):
    fast = TOP.replace("functions=", "extra_cuda_cflags=['--use_fast_math'], functions=")
    build_inline(candidate(TOP + fast), tmp_path, ["9.0"], 10)
    assert len(set(builds["folders"])) == 2


def test_what_does_not_compile_fails_the_build_unless_the_file_may_survive_it(builds, by_torch, tmp_path):
    builds["says"] = Finished(1, "g++ ...\nk.cu(1): error: no f\n", False, 0.1)
    failed = build_inline(candidate(TOP), tmp_path / "a", ["9.0"], 10)
    assert failed.status is BuildStatus.FAILED
    assert "no f" in failed.diagnostics
    survives = build_inline(candidate(CAUGHT), tmp_path / "b", ["9.0"], 10)
    assert survives.status is BuildStatus.OK
    assert survives.findings == ("an extension does not compile: k.cu(1): error: no f",)
    hand_out(tmp_path / "b")
    with pytest.raises(RuntimeError, match=r"building extension 'a': (.|\n)*error: no f"):
        extension.load_inline(name="a", **calls_in(TOP)[0])


def test_a_build_that_does_not_end_is_told_as_late(builds, tmp_path):
    builds["says"] = Finished(-9, "", True, 10.0)
    assert build_inline(candidate(CAUGHT), tmp_path, ["9.0"], 10).status is BuildStatus.TIMEOUT


def test_sources_of_run_time_are_left_to_the_worker_and_told(builds, by_torch, tmp_path):
    build = build_inline(candidate("load_inline('a', cuda_sources=made())"), tmp_path, ["9.0"], 10)
    assert build.status is BuildStatus.OK
    assert "each worker builds it again" in build.findings[0]
    assert builds["folders"] == []
    hand_out(tmp_path)
    assert extension.load_inline("a", "", "int x;") == "a by torch"


def test_workers_import_what_was_built_whatever_name_it_is_asked_for_by(by_torch, tmp_path):
    folder = tmp_path / _inline.FOLDER / key_of(calls_in(TOP)[0])
    folder.mkdir(parents=True)
    (folder / "m.cpp").write_text(MODULE)
    include = f"-I{sysconfig.get_path('include')}"
    words = ["g++", "-shared", "-fPIC", include, "m.cpp", "-o", "inline_extension.so"]
    assert run_tool(words, deadline_s=60, folder=folder).returncode == 0
    hand_out(tmp_path)
    made = extension.load_inline(name="other", verbose=True, **calls_in(TOP)[0])
    assert made.answer == 7
    assert Path(made.__file__).parent == folder
