import sys
from pathlib import Path

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.languages import cuda, triton
from kernelwright.records import BuildStatus, Candidate, SourceFile, TensorSpec

pytestmark = pytest.mark.needs("GPU")


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("languages"))
    return Settings.from_environment({"KERNELWRIGHT_CACHE": folder, "KERNELWRIGHT_STORE": folder})


def _example(module, name, style):
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from languages.conftest import documented_example

    source, entry = documented_example(module)
    return Candidate(sources=(source,), language=name, entry=entry, style=style)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_triton_example_runs(settings, dtype):
    candidate = _example(triton, "triton", "function")
    language = triton.Triton(settings)
    build = language.build(candidate)
    assert build.findings == ()
    assert language.timeable("cuda:0")
    run = language.load(candidate, Path(build.artefact), ())
    x = torch.randn(37, 300, device="cuda").to(dtype)
    torch.testing.assert_close(run(x), x.softmax(-1))


@pytest.mark.needs("nvcc")
class TestCuda:
    def test_the_example_runs_on_the_current_stream(self, settings):
        candidate = _example(cuda, "cuda", "destination")
        language = cuda.Cuda(settings)
        build = language.build(candidate)
        assert build.status is BuildStatus.OK, build.diagnostics
        outputs = (TensorSpec(name="out", shape=(1 << 22,), dtype="float32"),)
        scale = language.load(candidate, Path(build.artefact), outputs)
        x = torch.randn(1 << 22, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x += 1
            out = scale(x, 2.5)
        torch.cuda.synchronize()
        torch.testing.assert_close(out, 2.5 * x)

    def test_a_failed_launch_is_an_error(self, settings):
        text = """
            #include "kernelwright.h"
            __global__ void nothing() {}
            KW_KERNEL(f) { nothing<<<1, 4096>>>(); KW_CHECK_LAUNCH(); }
        """
        source = SourceFile(path="k.cu", text=text)
        candidate = Candidate(sources=(source,), language="cuda", entry="k.cu:f", style="destination")
        language = cuda.Cuda(settings)
        build = language.build(candidate)
        outputs = (TensorSpec(name="out", shape=(1,), dtype="float32"),)
        with pytest.raises(RuntimeError, match="invalid"):
            language.load(candidate, Path(build.artefact), outputs)()
