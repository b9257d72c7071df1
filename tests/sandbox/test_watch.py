"""A watched worker: what calls are made of, launches spoilt and refused, on real kernels."""

from dataclasses import replace

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import FailureKind, OperatorIsolation, Payload, Pool, WorkerFailure

from .conftest import payload, vector

CPP = """
#include "kernelwright.h"
KW_KERNEL(add) {
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  for (int64_t i = 0; i < x.numel(); ++i) out.data()[i] = x.data()[i] + 1;
}
"""
PYTHON = (
    "import torch\ndef run(x):\n    out = torch.empty_like(x)\n    kernels.add(x, out)\n    return out * 2\n"
)


@pytest.fixture(scope="module", params=["destination", "function"])
def watched(request, tmp_path_factory):
    sources = [SourceFile(path="k.cpp", text=CPP), SourceFile(path="run.py", text=PYTHON)]
    entry = "k.cpp:add" if request.param == "destination" else "run.py:run"
    one = Candidate(sources=tuple(sources), language="cpp", entry=entry, style=request.param)
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path_factory.mktemp("cache"))})
    build = type(get_language("cpp"))(settings).build(one)
    spec = TensorSpec(name="y", shape=(4,), dtype="float32")
    return Payload(one, artefact=build.artefact, outputs=(spec,), watched=True)


def call(worker, pool, mode):
    number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
    worker.watch(mode)
    worker.call([number])
    return worker.fetch().outputs[0]


def test_operators_and_launches_are_seen(pool: Pool, watched: Payload) -> None:
    with pool.worker(watched) as worker:
        output, seen = call(worker, pool, "see"), worker.seen()
    computed = {n: k for n, k in seen.operators.items() if not n.startswith("empty")}
    assert seen.launches == 1
    assert seen.libraries == ()
    if watched.candidate.style == "function":
        assert output.tolist() == [4.0] * 4 and computed == {"mul": 4}
    else:
        assert output.tolist() == [2.0] * 4 and computed == {}


@pytest.mark.parametrize(
    "bring",
    [
        "path = shutil.copy(math, f'{tempfile.gettempdir()}/libgomp-own.so')",
        "path = f'/proc/self/fd/{os.memfd_create(\"libgomp\")}'; shutil.copyfile(math, path)",
    ],
    ids=["file", "memory"],
)
def test_a_library_that_the_worker_brought_is_told_by_its_path(any_pool: Pool, bring: str) -> None:
    text = (
        "import ctypes, ctypes.util, os, shutil, tempfile\n"
        "math = next(l.split()[-1] for l in open('/proc/self/maps') if '/libm.so' in l or '/libm-' in l)\n"
        f"{bring}\nheld = ctypes.CDLL(path)\ndef run(x):\n    return x * 2\n"
    )
    brought = replace(payload(text), watched=True)
    with any_pool.worker(brought) as worker:
        call(worker, any_pool, "see")
        (path,) = worker.seen().libraries
    assert path.startswith("/") and "libgomp" in path


def test_what_launches_write_is_spoilt_and_nothing_else(pool: Pool, watched: Payload) -> None:
    with pool.worker(watched) as worker:
        slot = pool.arena.place(torch.ones(4))
        number = worker.bind((slot,), vector())
        worker.watch("spoil")
        worker.call([number])
        output = worker.fetch().outputs[0]
    right = 4.0 if watched.candidate.style == "function" else 2.0
    assert torch.isfinite(output).all() and not (output == right).any()
    assert pool.arena.view(slot).tolist() == [1.0] * 4


def test_a_refused_launch_raises(pool: Pool, watched: Payload) -> None:
    with pool.worker(watched) as worker:
        with pytest.raises(WorkerFailure, match="refused") as failure:
            call(worker, pool, "refuse")
        assert failure.value.kind is FailureKind.ERROR
        call(worker, pool, "see")


def test_other_threads_and_libraries_are_seen(pool: Pool) -> None:
    text = (
        "import ctypes, threading, torch\n"
        "def run(x):\n"
        "    ctypes.CDLL('libutil.so.1')\n"
        "    t = threading.Thread(target=torch.exp, args=(x,))\n    t.start(); t.join()\n"
        "    return x + 1\n"
    )
    with pool.worker(payload(text, watched=True)) as worker:
        call(worker, pool, "see")
        seen = worker.seen()
    assert {"exp", "add"} <= seen.operators.keys() and seen.launches == 0


def test_sizes_that_a_compiler_leaves_open_count_as_nothing(pool: Pool) -> None:
    text = (
        "import torch\n"
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv, StatelessSymbolicContext, DimDynamic\n"
        "def run(x):\n"
        "    with FakeTensorMode(shape_env=ShapeEnv()) as mode:\n"
        "        open = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])\n"
        "        traced = mode.from_tensor(x, symbolic_context=open)\n"
        "        assert isinstance((traced * 3).numel(), torch.SymInt)\n"
        "    return x + 1\n"
    )
    with pool.worker(payload(text, watched=True)) as worker:
        call(worker, pool, "see")
        seen = worker.seen()
    assert seen.operators["add"] == 4
    assert seen.operators["mul"] == 0


def test_a_worker_that_is_not_watched_says_so(pool: Pool) -> None:
    with (
        pool.worker(payload("def run(x): return x\n")) as worker,
        pytest.raises(WorkerFailure, match="not watched"),
    ):
        worker.watch("see")


def test_alone_operators_are_spoilt_but_those_spared_and_those_on_few_elements(
    pool: Pool, watched: Payload
) -> None:
    right = 4.0 if watched.candidate.style == "function" else 2.0
    for rule, kept in (
        (
            OperatorIsolation(spared=("empty_like", "empty_strided"), library=(), kinds=(), least=4),
            right == 2.0,
        ),
        (OperatorIsolation(spared=("empty_like", "empty_strided"), library=(), kinds=(), least=5), True),
        (
            OperatorIsolation(spared=("empty_like", "empty_strided", "mul"), library=(), kinds=(), least=4),
            True,
        ),
        (
            OperatorIsolation(spared=("empty_like", "empty_strided"), library=("mul",), kinds=(), least=4),
            True,
        ),
    ):
        with pool.worker(replace(watched, watched=False, alone=rule)) as worker:
            worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
            assert (worker.fetch().outputs[0].tolist() == [right] * 4) is kept, rule
