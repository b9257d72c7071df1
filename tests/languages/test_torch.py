import os
from pathlib import Path

import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.languages import torch as module_under_test
from kernelwright.languages.torch import Torch
from kernelwright.records import BuildStatus, Candidate, SourceFile, TensorSpec

from .conftest import one_file

MODEL = """
    import torch

    class ModelNew(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = torch.nn.Linear(size, 2)

        def forward(self, x):
            return self.linear(x)
"""


def test_the_documented_example_runs(settings, example):
    source, entry = example(module_under_test)
    candidate = Candidate(sources=(source,), language="torch", entry=entry)
    language = Torch(settings)
    build = language.build(candidate)
    assert build.status is BuildStatus.OK
    run = language.load(candidate, Path(build.artefact), ())
    x, weight = torch.randn(3, 8), torch.randn(8)
    torch.testing.assert_close(run(x, weight), torch.nn.functional.rms_norm(x, (8,), weight))
    with pytest.raises(NotImplementedError, match=r"^Unsupported: x must"):
        run(x[0], weight)


def test_style_module_gives_the_class(settings):
    candidate = one_file(MODEL, "torch", "m.py:ModelNew", "module")
    made = Torch(settings).load(candidate, Path("/nonexistent"), ())(4)
    assert made(torch.ones(3, 4)).shape == (3, 2)


def test_style_destination_writes_into_outputs_that_are_made(settings):
    text = "def run(x, total, out):\n    total.copy_(x.sum())\n    out.copy_(x * 2)\n"
    candidate, language = one_file(text, "torch", "a.py:run", "destination"), Torch(settings)
    build = language.build(candidate)
    outputs = (
        TensorSpec(name="total", shape=(), dtype="float64"),
        TensorSpec(name="out", shape=(3, 2), dtype="float32"),
    )
    kernel = language.load(candidate, Path(build.artefact), outputs)
    x = torch.ones(2, 3).t()
    total, out = kernel(x)
    assert total.dtype is torch.float64 and total.item() == 6.0 and torch.equal(out, x * 2)


def test_files_of_a_candidate_import_each_other(settings):
    files = (
        SourceFile(path="run.py", text="from kw_sibling_part import twice\ndef run(x): return twice(x)\n"),
        SourceFile(path="kw_sibling_part.py", text="def twice(x): return 2 * x\n"),
    )
    candidate = Candidate(sources=files, language="torch", entry="run.py:run")
    language = Torch(settings)
    build = language.build(candidate)
    assert language.load(candidate, Path(build.artefact), ())(21) == 42


def test_building_runs_none_of_the_candidate(settings, tmp_path):
    mark = tmp_path / "ran"
    candidate = one_file(f"open({str(mark)!r}, 'w')\ndef f(): pass\n", "torch", "k.py:f")
    assert Torch(settings).build(candidate).status is BuildStatus.OK
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "entry", "flags", "words"),
    [
        ("def f(:\n", "k.py:f", (), "k.py:1:7: invalid syntax"),
        ("def f(): pass\n", "k.py:f", ("-O3",), "'-O3' is not known"),
        ("def f(): pass\n", "k.py:f", ("--compile=default", "--compile=freezing"), "at most one"),
        ("def f(): pass\n", "f", (), "not of the form 'path:symbol'"),
        ("x = '\0'\n", "k.py:f", (), "k.py"),
    ],
)
def test_what_cannot_be_built_is_a_failed_build(settings, text, entry, flags, words):
    source = SourceFile(path="k.py", text=text)
    candidate = Candidate(sources=(source,), language="torch", entry=entry, flags=flags)
    build = Torch(settings).build(candidate)
    assert build.status is BuildStatus.FAILED
    assert words in build.diagnostics
    assert build.artefact is None


def test_a_missing_symbol_is_named(settings):
    candidate = one_file("def g(): pass\n", "torch", "k.py:f")
    with pytest.raises(InputError, match="defines no 'f'"):
        Torch(settings).load(candidate, Path("/nonexistent"), ())


def test_compile_flags_wrap_function_and_module(settings, monkeypatch):
    asked = []

    def record(target, **keywords):
        asked.append((target.__name__, keywords))
        return lambda *values: (target(*values), "compiled")

    monkeypatch.setattr(torch, "compile", record)
    function = one_file("def f(x): return x\n", "torch", "k.py:f", flags=("--compile=max-autotune",))
    assert Torch(settings).load(function, Path("/nonexistent"), ())(7) == (7, "compiled")
    module = one_file(MODEL, "torch", "m.py:ModelNew", "module", ("--compile=default",))
    made = Torch(settings).load(module, Path("/nonexistent"), ())(4)
    assert list(made.state_dict()) == ["linear.weight", "linear.bias"], "the judge gives state by name"
    assert made(torch.ones(3, 4))[1] == "compiled"
    assert asked == [
        ("f", {"mode": "max-autotune", "dynamic": False}),
        ("_call_impl", {"mode": None, "dynamic": False}),
    ]


def test_workers_find_the_headers_that_another_precompiled(settings, monkeypatch, tmp_path):
    from torch._inductor import codecache

    monkeypatch.setattr(codecache, "os", codecache.os)
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(codecache, name, getattr(codecache, name))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch, "compile", lambda target, **keywords: target)
    candidate = one_file("def f(x): return x\n", "torch", "k.py:f", flags=("--compile=default",))
    Torch(settings).load(candidate, Path("/nonexistent"), ())
    assert Path(codecache._HEADER_DIR).is_relative_to(tmp_path)
    assert Path(codecache._HEADER_LOCK_DIR).is_relative_to(tmp_path)


def test_workers_that_compile_into_one_cache_name_their_files_apart(settings, monkeypatch, tmp_path):
    """Two forks of one zygote are process 1 with one thread each; only the number given to Inductor differs."""
    from torch._inductor import codecache

    monkeypatch.setattr(torch, "compile", lambda target, **keywords: target)
    monkeypatch.setattr(codecache, "os", codecache.os)
    candidate = one_file("def f(x): return x\n", "torch", "k.py:f", flags=("--compile=default",))
    numbers = set()
    for _ in range(2):
        Torch(settings).load(candidate, Path("/nonexistent"), ())
        numbers.add(codecache.os.getpid())
    assert len(numbers | {os.getpid()}) == 3
    codecache.write_atomic(str(tmp_path / "kernel.cpp"), "text")
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.cpp"]


@pytest.mark.parametrize(("flag", "mode"), [("freezing", None), ("max-autotune-freezing", "max-autotune")])
def test_freezing_is_switched_on_with_the_flag(settings, monkeypatch, flag, mode):
    import torch._inductor.config as inductor

    asked = []
    monkeypatch.setattr(torch, "compile", lambda target, **keywords: asked.append(keywords["mode"]) or target)
    candidate = one_file("def f(x): return x\n", "torch", "k.py:f", flags=(f"--compile={flag}",))
    with inductor.patch(freezing=False):
        Torch(settings).load(candidate, Path("/nonexistent"), ())
        assert inductor.freezing and asked == [mode]
