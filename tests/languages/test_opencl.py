import builtins
from pathlib import Path

import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.languages import opencl as module_under_test
from kernelwright.languages._launch import Launch, View
from kernelwright.languages.opencl import OpenCL
from kernelwright.records import BuildStatus, Candidate

from .conftest import one_file, spec

needs_opencl = pytest.mark.needs("OpenCL")


@pytest.fixture(autouse=True)
def _kernel_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYOPENCL_NO_CACHE", "1")


def _load(settings, candidate, *outputs):
    language = OpenCL(settings)
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    return language.load(candidate, Path(build.artefact), outputs)


def test_without_pyopencl_it_says_how_to_get_it(fresh, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "pyopencl":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    language = OpenCL(fresh)
    said = language.available()
    assert (said.ok, said.remedy) == (False, "pip install 'kernelwright[opencl]'")
    build = language.build(one_file("", "opencl", "k.cl:f", "destination"))
    assert build.status is BuildStatus.UNAVAILABLE


@pytest.mark.needs("pyopencl")
def test_a_driver_that_builds_nothing_is_not_available(monkeypatch, fresh):
    complaint = "error: unknown target CPU 'generic'"
    monkeypatch.setattr("kernelwright.languages.opencl._complaint", lambda device: complaint)
    said = OpenCL(fresh).available()
    assert not said.ok
    assert complaint in said.what
    assert "OCL_ICD_VENDORS" in said.remedy


@needs_opencl
class TestRuns:
    def test_the_documented_example(self, settings, example):
        source, entry = example(module_under_test)
        candidate = Candidate(sources=(source,), language="opencl", entry=entry, style="destination")
        scale = _load(settings, candidate, spec(5, 77))
        for _ in range(3):
            x = torch.randn(5, 77)
            torch.testing.assert_close(scale(x, 2.5), 2.5 * x)
        torch.testing.assert_close(scale.bind((spec(3),))(torch.ones(3), 2), torch.full((3,), 2.0))
        with pytest.raises(NotImplementedError, match=r"^Unsupported: this kernel requires"):
            scale(torch.randn(5, 77, dtype=torch.float64), 2.5)
        assert scale.bind((spec(0),))(torch.ones(0), 2.0).shape == (0,)

    def test_two_dimensions_groups_and_two_outputs(self, settings):
        candidate = one_file(
            """
            // launch: rows = x.shape[0]
            // launch: columns = x.shape[1]
            // launch: local = (1, 16)
            // launch: global = (rows, cdiv(columns, 16) * 16)
            __kernel void f(__global const int* x, long rows, long columns,
                            __global int* transposed, __global int* group) {
              long r = get_global_id(0), c = get_global_id(1);
              if (c >= columns) return;
              transposed[c * rows + r] = x[r * columns + c];
              group[r * columns + c] = get_group_id(1);
            }
            """,
            "opencl",
            "k.cl:f",
            "destination",
        )
        kernel = _load(settings, candidate, spec(20, 3, dtype="int32"), spec(3, 20, dtype="int32"))
        x = torch.arange(60, dtype=torch.int32).view(3, 20)
        transposed, group = kernel(x)
        assert torch.equal(transposed, x.t())
        assert group[0].tolist() == [0] * 16 + [1] * 4

    def test_a_wrong_number_of_arguments_is_named(self, settings, example):
        source, entry = example(module_under_test)
        candidate = Candidate(sources=(source,), language="opencl", entry=entry, style="destination")
        with pytest.raises(InputError, match=r"takes 3 arguments \(x, a, out\).*passes 2"):
            _load(settings, candidate, spec(3))(torch.ones(3))

    def test_the_drivers_words_are_kept(self, settings, example):
        source, entry = example(module_under_test)
        broken = source.model_copy(update={"text": source.text.replace("float a", "flot a")})
        candidate = Candidate(sources=(broken,), language="opencl", entry=entry, style="destination")
        build = OpenCL(settings).build(candidate)
        assert build.status is BuildStatus.FAILED
        assert "flot" in build.diagnostics

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"style": "function"}, "'destination'"),
            ({"flags": ("-fplugin=x",)}, "not allowed"),
            ({"entry": "other.cl:f"}, "'other.cl' is not among"),
            ({"entry": "k.cl:missing"}, "INVALID_KERNEL_NAME"),
        ],
    )
    def test_what_cannot_be_built_says_why(self, settings, change, words):
        text = "// launch: global = 1\n__kernel void f(__global float* x) { x[0] = 1; }\n"
        candidate = one_file(text, "opencl", "k.cl:f", "destination").model_copy(update=change)
        build = OpenCL(settings).build(candidate)
        assert build.status is BuildStatus.FAILED
        assert words in build.diagnostics


class TestLaunchLines:
    def test_lines_see_those_above_and_scalars(self):
        launch = Launch(
            "// launch: n = x.shape[0] * k\n// launch: local = (8, 1)\n// launch: global = (n, 2)\n"
        )
        geometry = launch.geometry({"x": View((4, 5), "float32"), "k": 3})
        assert (geometry.global_size, geometry.local_size, geometry.derived) == ((12, 2), (8, 1), {"n": 12})

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("", "says no `// launch: global"),
            ("// launch: global = [1]", "holds List"),
            ("// launch: global = x.__class__", "holds Attribute"),
            ("// launch: global = 1 +", "is not an expression"),
        ],
    )
    def test_what_is_not_an_expression_over_shapes_is_refused(self, source, words):
        with pytest.raises(InputError, match=words):
            Launch(source)

    @pytest.mark.parametrize(
        ("value", "words"), [("0", "positive"), ("y.shape[0]", "fails"), ("(1, 2, 3, 4)", "one to three")]
    )
    def test_what_makes_no_sizes_is_refused(self, value, words):
        with pytest.raises(InputError, match=words):
            Launch(f"// launch: global = {value}\n").geometry({"x": View((1,), "float32")})
