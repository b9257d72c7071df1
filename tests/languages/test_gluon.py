"""Gluon: compiled for NVIDIA's targets, with facts of each; what is executed is in tests/executor/test_gluon.py."""

import sys
from types import ModuleType

import pytest

from kernelwright.errors import MissingToolError
from kernelwright.languages import compiles_when_called, gluon
from kernelwright.languages._triton_compile import RefusedError, _refuse_foreign_modules, jitted_source
from kernelwright.languages.gluon import Gluon
from kernelwright.records import BuildStatus, Candidate

from .conftest import one_file


def test_only_what_a_compiler_needs_of_the_file_is_kept() -> None:
    kept = jitted_source(
        "import os\nfrom triton.experimental import gluon\nN = gl.constexpr(4)\nos.abort()\n"
        "@gluon.jit\ndef f(x):\n    pass\n@boom()\ndef g(x):\n    pass\n"
    )
    assert kept == (
        "from triton.experimental import gluon\nN = gl.constexpr(4)\n\n@gluon.jit\ndef f(x):\n    pass"
    )


@pytest.mark.needs("triton")
def test_a_kernel_may_not_reach_a_module_through_gluon() -> None:
    from triton.experimental.gluon.language.nvidia import hopper

    module = ModuleType("k")
    vars(module)["hopper"] = hopper
    _refuse_foreign_modules("def f(x):\n    hopper.tma.async_load, hopper.warpgroup_mma\n", module)
    vars(module)["ampere"] = sys.modules["triton.experimental.gluon.language.nvidia.ampere"]
    with pytest.raises(RefusedError, match=r"names the module 'ampere\.knobs'"):
        _refuse_foreign_modules("def f(x):\n    ampere.knobs\n", module)


def test_without_triton_or_anything_to_run_it_a_sentence_says_so(fresh, monkeypatch) -> None:
    monkeypatch.setattr("kernelwright.languages.triton._version", lambda: None)
    build = Gluon(fresh).build(one_file("def f(): pass\n", "gluon", "k.py:f"))
    assert build.status is BuildStatus.UNAVAILABLE
    assert "kernelwright[triton]" in build.diagnostics


@pytest.mark.needs("no GPU")
def test_without_a_gpu_the_language_alone_cannot_load(tmp_path) -> None:
    with pytest.raises(MissingToolError, match="needs an NVIDIA GPU, or a C\\+\\+ compiler"):
        Gluon().load(one_file("def f(): pass\n", "gluon", "k.py:f"), tmp_path, ())
    assert compiles_when_called("gluon")
    assert not Gluon().timeable("cpu")


@pytest.mark.needs("triton")
@pytest.mark.long
def test_the_documented_example_compiles_and_a_kernel_of_one_target_for_that(settings, example) -> None:
    source, entry = example(gluon)
    build = Gluon(settings).build(Candidate(sources=(source,), language="gluon", entry=entry))
    assert (build.status, build.findings) == (BuildStatus.OK, ())
    assert {name.partition(".")[0] for name in build.evidence} == {"sm_80", "sm_90", "sm_100"}
    for target in Gluon().targets:
        assert 4 <= build.evidence[f"{target}.registers"] <= 255
        assert build.evidence[f"{target}.spill_bytes"] == 0
        assert build.evidence[f"{target}.shared_bytes"] > 0
    text = source.text.replace('"num_warps": 4', '"targets": ["sm_90"]')
    one = Candidate(sources=(source.model_copy(update={"text": text}),), language="gluon", entry=entry)
    build = Gluon(settings).build(one)
    assert (build.status, build.findings) == (BuildStatus.OK, ())
    assert {name.partition(".")[0] for name in build.evidence} == {"sm_90"}
