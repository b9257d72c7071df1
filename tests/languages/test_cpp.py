import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelwright.languages import cpp as module_under_test
from kernelwright.languages.cpp import Cpp, header
from kernelwright.records import BuildStatus, Candidate, SourceFile

from .conftest import one_file, spec

INCLUDE = '#include "kernelwright.h"\n'
AROUND = "import torch\ndef run(x):\n    out = torch.empty(1)\n    kernels.one(out)\n    return out + x\n"
needs_compiler = pytest.mark.needs("C++ compiler")


def _kernel(body: str, name: str = "f", **keywords) -> Candidate:
    text = f'#include "kernelwright.h"\nKW_KERNEL({name}) {{\n{body}\n}}\n'
    return one_file(text, "cpp", f"k.cpp:{name}", "destination", **keywords)


def _load(settings, candidate, *outputs):
    language = Cpp(settings)
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    return language.load(candidate, Path(build.artefact), outputs)


def test_without_a_compiler_it_says_how_to_get_one(fresh):
    language = Cpp(replace(fresh, cxx="no-such-compiler"))
    said = language.available()
    assert not said.ok
    assert "'no-such-compiler'" in said.what
    assert "apt-get install g++" in said.remedy
    build = language.build(_kernel(""))
    assert build.status is BuildStatus.UNAVAILABLE
    assert "apt-get install g++" in build.diagnostics


@needs_compiler
class TestRuns:
    def test_the_documented_example(self, settings, example):
        source, entry = example(module_under_test)
        candidate = Candidate(sources=(source,), language="cpp", entry=entry, style="destination")
        axpy = _load(settings, candidate, spec(5, 7))
        x, y = torch.randn(5, 7), torch.randn(5, 7)
        torch.testing.assert_close(axpy(x, y, 2.5), 2.5 * x + y)
        with pytest.raises(Exception, match=r"^Unsupported: x and y must have the same shape"):
            axpy(x, y[:4], 2.5)

    def test_several_outputs_and_other_specs(self, settings):
        candidate = _kernel(
            """
            auto x = args.tensor<const float>(0);
            auto sum = args.tensor<double>(1);
            auto index = args.tensor<int64_t>(2);
            for (int64_t r = 0; r < x.shape(0); ++r) {
              sum[r] = 0; index[r] = r;
              for (int64_t c = 0; c < x.shape(-1); ++c) sum[r] += x[r * x.shape(-1) + c];
            }"""
        )
        kernel = _load(settings, candidate, spec(3, dtype="float64"), spec(3, dtype="int64"))
        sums, index = kernel(torch.ones(3, 4))
        assert sums.tolist() == [4.0] * 3
        assert index.tolist() == [0, 1, 2]
        other = kernel.bind((spec(2, dtype="float64"), spec(2, dtype="int64")))
        assert other(torch.ones(2, 9))[0].tolist() == [9.0, 9.0]

    def test_scalars_none_and_tuples_arrive(self, settings):
        candidate = _kernel(
            """
            auto out = args.tensor<double>(args.size() - 1);
            out[0] = static_cast<double>(args.integer(0)); out[1] = args.real(1); out[2] = args.boolean(2);
            out[3] = args.is_none(3); out[4] = static_cast<double>(args.integer(4) * 10 + args.integer(5));
            """
        )
        kernel = _load(settings, candidate, spec(5, dtype="float64"))
        assert kernel(7, 0.5, True, None, (2, 3)).tolist() == [7.0, 0.5, 1.0, 1.0, 23.0]

    @pytest.mark.parametrize(
        ("body", "arguments", "words"),
        [
            (
                "args.tensor<float>(0);",
                (torch.ones(2, dtype=torch.int32),),
                "^Unsupported: argument 0 is not float32",
            ),
            ("args.tensor<float>(0);", (3,), "^Unsupported: argument 0 is not a tensor"),
            ("args.integer(0);", (1.5,), "^Unsupported: argument 0 is not an integer"),
            ("args.integer(9);", (1,), "reads argument 9 of 2"),
            ('KW_REQUIRE(args.integer(0) == 2, "two is wanted");', (1,), "^two is wanted"),
            ('throw std::runtime_error("thrown");', (1,), "^thrown"),
        ],
    )
    def test_what_does_not_fit_is_an_error_in_words(self, settings, body, arguments, words):
        text = f'#include <stdexcept>\n#include "kernelwright.h"\nKW_KERNEL(f) {{ {body} }}\n'
        candidate = one_file(text, "cpp", "k.cpp:f", "destination")
        with pytest.raises(Exception, match=words):
            _load(settings, candidate, spec(1))(*arguments)

    def test_other_layouts_are_unsupported_unless_the_candidate_takes_them(self, settings):
        body = """
            auto x = args.tensor<const float>(0);
            auto out = args.tensor<float>(1);
            for (int64_t i = 0; i < x.shape(0); ++i) out[i] = x[i * x.stride(0)];
            """
        x = torch.arange(8.0)[::2]
        with pytest.raises(NotImplementedError, match=r"^Unsupported: .*strides \(2,\)"):
            _load(settings, _kernel(body), spec(4))(x)
        strided = _kernel(body).model_copy(update={"parameters": {"strided": True}})
        assert _load(settings, strided, spec(4))(x).tolist() == x.tolist()

    def test_full_tvm_ffi_headers_work_too(self, settings):
        candidate = one_file(
            """
            #include <tvm/ffi/container/tensor.h>
            #include <tvm/ffi/function.h>
            void twice(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
              for (int64_t i = 0; i < x.size(0); ++i)
                static_cast<float*>(out.data_ptr())[i] = 2 * static_cast<float*>(x.data_ptr())[i];
            }
            TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);
            """,
            "cpp",
            "k.cpp:twice",
            "destination",
        )
        assert _load(settings, candidate, spec(3))(torch.ones(3)).tolist() == [2.0] * 3

    def test_a_candidate_may_carry_the_header(self, settings):
        candidate = _kernel("args.tensor<float>(1)[0] = KW_MINE;")
        mine = SourceFile(path="kernelwright.h", text=header().text + "\n#define KW_MINE 5\n")
        carrying = candidate.model_copy(update={"sources": (*candidate.sources, mine)})
        assert _load(settings, carrying, spec(1))(torch.ones(1)).item() == 5.0

    def test_several_files_are_linked(self, settings):
        files = (
            SourceFile(
                path="a.cpp",
                text=INCLUDE + "float part();\nKW_KERNEL(f) { args.tensor<float>(0)[0] = part(); }\n",
            ),
            SourceFile(path="sub/b.cc", text="float part() { return 3; }\n"),
        )
        candidate = Candidate(sources=files, language="cpp", entry="a.cpp:f", style="destination")
        assert _load(settings, candidate, spec(1))().item() == 3.0

    def test_flags_reach_the_compiler(self, settings):
        candidate = _kernel("args.tensor<float>(0)[0] = SIZE;", flags=("-DSIZE=9", "-O1"))
        assert _load(settings, candidate, spec(1))().item() == 9.0

    def test_style_function_puts_python_around_the_kernels(self, settings):
        files = (
            SourceFile(
                path="k.cpp",
                text='#include "kernelwright.h"\nKW_KERNEL(one) { args.tensor<float>(0)[0] = 1; }\n',
            ),
            SourceFile(
                path="run.py",
                text="import torch\ndef run(x):\n    out = torch.empty(1)\n    kernels.one(out)\n    return out + x\n",
            ),
        )
        candidate = Candidate(sources=files, language="cpp", entry="run.py:run")
        assert _load(settings, candidate)(2).item() == 3.0


@needs_compiler
class TestBuilds:
    def test_diagnostics_of_a_failure_are_kept(self, settings):
        build = Cpp(settings).build(_kernel("int x = nonsense;"))
        assert build.status is BuildStatus.FAILED
        assert "nonsense" in build.diagnostics
        assert build.artefact is None

    def test_warnings_of_a_success_are_kept(self, settings):
        build = Cpp(settings).build(_kernel("int unused_thing;"))
        assert build.status is BuildStatus.OK
        assert "unused_thing" in build.diagnostics

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"entry": "k.cpp:other"}, "export no kernel 'other'"),
            ({"style": "module"}, "not 'module'"),
            ({"entry": "f"}, "path:symbol"),
            ({"flags": ("-fplugin=evil.so",)}, "not allowed"),
            ({"flags": ("-Wl,-plugin,evil.so",)}, "not allowed"),
            ({"flags": ("@file",)}, "not allowed"),
            ({"sources": (SourceFile(path="k.txt", text=""),)}, "no C++ file"),
        ],
    )
    def test_what_cannot_be_built_says_why(self, settings, change, words):
        build = Cpp(settings).build(_kernel("").model_copy(update=change))
        assert build.status is BuildStatus.FAILED
        assert words in build.diagnostics

    def test_a_compile_that_does_not_end_is_stopped(self, settings):
        bomb = """
            #include "kernelwright.h"
            template <int N, int M> struct Deep {
              static constexpr long value = Deep<N - 1, M>::value + Deep<N - 1, M + (1 << N % 30)>::value;
            };
            template <int M> struct Deep<0, M> { static constexpr long value = M; };
            KW_KERNEL(f) { args.tensor<double>(0)[0] = Deep<26, 0>::value; }
        """
        build = Cpp(settings).build(one_file(bomb, "cpp", "k.cpp:f", "destination"), deadline_s=1.0)
        assert build.status is BuildStatus.TIMEOUT
        assert "no end after 1 s" in build.diagnostics

    def test_the_toolchain_names_compiler_flags_and_host(self, settings):
        words = Cpp(settings).toolchain()
        assert "-march=native" in words
        assert "host=" in words
        assert "-ffast-math" not in words

    @pytest.mark.needs("clang")
    def test_clang_builds_the_same_sources(self, settings, example):
        source, entry = example(module_under_test)
        candidate = Candidate(sources=(source,), language="cpp", entry=entry, style="destination")
        build = Cpp(replace(settings, cxx="clang++")).build(candidate)
        assert build.status is BuildStatus.OK, build.diagnostics
        assert "clang" in build.toolchain


@needs_compiler
@pytest.mark.needs("g++")
def test_kernels_share_torchs_pool_of_threads(settings):
    body = """
        int threads = 0;
        #pragma omp parallel
        {
          #pragma omp atomic
          ++threads;
        }
        args.tensor<int64_t>(0)[0] = threads;
        """
    candidate = _kernel(body)
    language = Cpp(replace(settings, cxx="g++"))
    build = language.build(candidate)
    code = f"""
        import sys
        from pathlib import Path
        import torch
        from kernelwright.languages.cpp import Cpp
        from kernelwright.records import Candidate, TensorSpec
        candidate = Candidate.from_json(sys.stdin.read())
        kernel = Cpp().load(candidate, Path({build.artefact!r}), (TensorSpec(name="o", shape=(1,), dtype="int64"),))
        counts = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            counts.append(kernel().item())
        maps = {{line.split()[-1] for line in open("/proc/self/maps") if "omp.so" in line or "omp-" in line}}
        print(counts, len(maps))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input=candidate.to_json(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == "[1, 2, 3] 1", done.stderr
