import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch

from kernelwright.languages import triton as module_under_test
from kernelwright.languages._triton_compile import RefusedError, jitted_source
from kernelwright.languages.triton import TARGETS, Triton, specialisations
from kernelwright.records import BuildStatus, Candidate

from .conftest import one_file

needs_triton = pytest.mark.needs("triton")
NAMES = [target["name"] for target in TARGETS]

MATMUL = """
    import triton
    import triton.language as tl

    TRITON_EVIDENCE = [
        {{"kernel": "product", "signature": {{"a": "*fp16", "b": "*fp16", "c": "*fp32"}},
          "constexprs": {{"N": {n}}}, "num_warps": 4}},
    ]

    @triton.jit
    def product(a, b, c, N: tl.constexpr):
        i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i)))

    def run(x):
        return x
"""


def _documented(example) -> Candidate:
    source, entry = example(module_under_test)
    return Candidate(sources=(source,), language="triton", entry=entry)


def test_without_triton_it_says_how_to_get_it(fresh, monkeypatch):
    monkeypatch.setattr(module_under_test, "_version", lambda: None)
    language = Triton(fresh)
    assert language.available().remedy == "pip install 'kernelwright[triton]'"
    build = language.build(one_file("def f(): pass\n", "triton", "k.py:f"))
    assert build.status is BuildStatus.UNAVAILABLE
    assert "kernelwright[triton]" in build.diagnostics


@needs_triton
class TestCrossCompiles:
    def test_the_documented_example_for_every_target(self, settings, example):
        build = Triton(settings).build(_documented(example))
        assert build.status is BuildStatus.OK
        assert build.findings == ()
        for name in NAMES:
            assert 4 <= build.evidence[f"{name}.registers"] <= 255
            assert build.evidence[f"{name}.spill_bytes"] == 0
            assert build.evidence[f"{name}.instructions"] > 20
            assert build.evidence[f"{name}.global_loads"] >= 1
            assert build.evidence[f"{name}.tensor_instructions"] == 0

    def test_tensor_instructions_and_shared_memory_show(self, settings):
        build = Triton(settings).build(one_file(MATMUL.format(n=64), "triton", "k.py:run"))
        for name in NAMES:
            assert build.evidence[f"{name}.tensor_instructions"] > 0, name
            assert build.evidence[f"{name}.shared_bytes"] >= 64 * 64 * 2, name

    @pytest.mark.long
    def test_targets_beside_each_other_as_one_after_another(self, tmp_path):
        text = textwrap.dedent(MATMUL).format(n=32)
        request = {
            "source": jitted_source(text),
            "specialisations": specialisations(text),
            "targets": TARGETS[:2],
        }
        found = []
        for cores in (1, 4):
            (folder := tmp_path / str(cores)).mkdir()
            (folder / "request.json").write_text(json.dumps(request))
            call = "from kernelwright.languages._triton_compile import main; main('request.json', 'out.jsonl', {})"
            subprocess.run(
                [sys.executable, "-c", call.format(cores)], cwd=folder, check=True,
                env={**os.environ, "TRITON_CACHE_DIR": str(folder / "cache")},
            )  # fmt: skip
            lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
            assert len({line.pop("time_s") for line in lines}) == 2
            found.append(sorted(lines, key=lambda line: line["target"]))
            assert len(list(folder.glob("kernel-*.cubin"))) == (1 if cores == 1 else 2)
        assert found[0] == found[1]

    @pytest.mark.long
    def test_further_targets_that_it_names(self, settings, example):
        source, entry = example(module_under_test)
        names = [gpu["name"] for gpu in module_under_test.MORE]
        text = source.text.replace('"num_warps": 4', f'"num_warps": 4, "targets": {names}')
        asked = Candidate(sources=(source.model_copy(update={"text": text}),), language="triton", entry=entry)
        build = Triton(settings).build(asked)
        assert not build.findings
        assert {key.partition(".")[0] for key in build.evidence} == {"sm_120", "gfx90a", "gfx950"}
        assert all(4 <= build.evidence[f"{name}.registers"] <= 255 for name in names)

    def test_a_spill_is_a_finding(self, settings, example):
        source, entry = example(module_under_test)
        text = source.text.replace('"BLOCK": 1024', '"BLOCK": 4096').replace(
            '"num_warps": 4', '"maxnreg": 24'
        )
        tight = Candidate(sources=(source.model_copy(update={"text": text}),), language="triton", entry=entry)
        build = Triton(settings).build(tight)
        assert build.status is BuildStatus.OK
        assert any("softmax spills" in finding and "sm_80" in finding for finding in build.findings)
        assert build.evidence["sm_80.spill_bytes"] > 0
        assert build.evidence["gfx942.spill_bytes"] == 0

    def test_a_kernel_that_does_not_compile_is_a_finding_for_each_target(self, settings):
        text = MATMUL.format(n=64).replace("tl.store(c + i", "tl.store(nonsense + i")
        build = Triton(settings).build(one_file(text, "triton", "k.py:run"))
        assert build.status is BuildStatus.OK
        assert len(build.findings) == len(NAMES)
        assert all("product does not compile for" in f and "nonsense" in f for f in build.findings)

    def test_a_deadline_stops_it_and_is_a_finding(self, settings):
        text = MATMUL.format(n=64).replace("return x", "return 2 * x")
        build = Triton(settings).build(one_file(text, "triton", "k.py:run"), deadline_s=0.05)
        assert build.status is BuildStatus.OK
        assert "stopped after 0.05 s" in build.findings[0]

    def test_nothing_declared_is_a_finding(self, settings):
        build = Triton(settings).build(one_file("def run(x): return x\n", "triton", "k.py:run"))
        assert build.findings == ("not cross-compiled: no TRITON_EVIDENCE is declared",)

    def test_building_runs_no_statement_of_the_candidate(self, settings, tmp_path):
        mark = tmp_path / "ran"
        text = textwrap.dedent(MATMUL.format(n=64)) + f"\nopen({str(mark)!r}, 'w')\n"
        build = Triton(settings).build(one_file(text, "triton", "k.py:run"))
        assert build.evidence["sm_90.registers"] > 0
        assert not mark.exists()

    def test_a_kernel_that_reaches_for_a_module_is_not_compiled(self, settings, tmp_path):
        mark = tmp_path / "ran"
        call = f'triton.language.core.os.system("touch {mark}")'
        text = MATMUL.format(n=64).replace("tl.store(c", f"{call}\n        tl.store(c")
        build = Triton(settings).build(one_file(text, "triton", "k.py:run"))
        assert build.evidence == {}
        assert not mark.exists()
        assert build.findings


@pytest.mark.parametrize(
    "statement",
    ["x = getattr(tl, 'os')", "x.__class__", "x._private", "import os", "f = lambda: 1", "def g(): pass"],
)
def test_kernels_with_ways_out_are_refused(statement):
    with pytest.raises(RefusedError, match="kernel 'f'"):
        jitted_source(f"@triton.jit\ndef f(x):\n    {statement}\n")


@pytest.mark.parametrize(
    "signature", ["x: boom()", "x=boom()", "x=-boom()", "*x: boom()", "x, *, y: int = boom()"]
)
def test_signatures_that_run_something_are_refused(signature):
    with pytest.raises(RefusedError, match="kernel 'f' has a"):
        jitted_source(f"@triton.jit\ndef f({signature}):\n    pass\n")


@pytest.mark.parametrize(
    "statement",
    [
        "boom()",
        "X = boom()",
        "X: boom() = 1",
        "X[boom()] = 1",
        "X = tl.constexpr(boom())",
        "import os",
        "if 1: boom()",
    ],
)
def test_statements_that_run_something_are_left_out(statement):
    assert jitted_source(f"A = 1\nB = tl.constexpr(-2)\n{statement}\n") == "A = 1\nB = tl.constexpr(-2)"


def test_other_decorators_are_dropped_so_that_they_do_not_run():
    kept = jitted_source("@triton.autotune(configs=boom())\n@triton.jit\ndef f(x):\n    pass\n")
    assert kept == "@triton.jit\ndef f(x):\n    pass"


@pytest.mark.parametrize(
    "value", ["build()", "[{'kernel': 'f'}]", "[{'kernel': 'f', 'signature': {}, 'x': 1}]", "[3]"]
)
def test_evidence_that_is_not_of_the_form_is_refused(value):
    with pytest.raises(RefusedError, match="TRITON_EVIDENCE"):
        specialisations(f"TRITON_EVIDENCE = {value}\n")


@needs_triton
@pytest.mark.needs("no GPU")
@pytest.mark.parametrize(
    "before", ["", pytest.param("import triton, triton.language", marks=pytest.mark.long)]
)
def test_without_a_gpu_the_example_is_interpreted_and_bfloat16_refused(example, before):
    code = f"""
        import sys, torch
        {before}
        from pathlib import Path
        from kernelwright.languages.triton import Triton
        from kernelwright.records import Candidate
        candidate = Candidate.from_json(sys.stdin.read())
        run = Triton().load(candidate, Path("/nonexistent"), ())
        for dtype in (torch.float32, torch.float16):
            x = torch.randn(3, 300).to(dtype)
            torch.testing.assert_close(run(x), x.softmax(-1))
        try:
            run(x.bfloat16())
        except NotImplementedError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input=_documented(example).to_json(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("Unsupported: bfloat16"), done.stderr


@needs_triton
@pytest.mark.needs("no GPU")
def test_interpreted_modules_refuse_bfloat16_in_arguments_and_state():
    from kernelwright.languages.triton import _refusing_bfloat16

    make = _refusing_bfloat16(torch.nn.Linear, True)
    assert make(2, 2)(torch.ones(1, 2)).shape == (1, 2)
    with pytest.raises(NotImplementedError, match=r"^Unsupported: bfloat16"):
        make(2, 2).bfloat16()(torch.ones(1, 2))
