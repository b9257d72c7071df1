"""An honest kernel in a worker: what is placed, called, fetched and kept."""

import math
import resource
import subprocess
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from kernelwright.records import TensorSpec
from kernelwright.sandbox import FailureKind, Pool, WorkerFailure, _stalled
from kernelwright.sandbox import _worker as worker_module

from .conftest import payload, vector

ADD = "def run(x, bias=None):\n    return x + (1 if bias is None else bias)\n"
ADDS_A_BUFFER = """
import torch
class Model(torch.nn.Linear):
    def forward(self, x):
        if not hasattr(self, "turned"):
            self.register_buffer("turned", self.weight.t().contiguous())
        return x @ self.turned
"""
BATCH_NORM = "import torch\nclass Model(torch.nn.BatchNorm1d): ...\n"


def test_a_kernel_is_called_and_its_bytes_come_back(any_pool: Pool) -> None:
    with any_pool.worker(payload(ADD)) as worker:
        number = worker.bind((any_pool.arena.place(torch.arange(4.0)),), vector())
        reply = worker.call([number])
        fetched = worker.fetch(reply.first)
    assert fetched.outputs[0].tolist() == [1, 2, 3, 4]
    assert fetched.facts[0].plain and not fetched.facts[0].aliases
    assert reply.time_us > 0 and reply.cpu_us > 0 and reply.threads >= 1
    assert worker.loaded.content == payload(ADD).candidate.key


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12).reshape(3, 4).t(),
        torch.arange(10.0)[::2],
        torch.ones(3, 1).expand(3, 5),
        torch.empty(0, 3),
        torch.tensor(3.5, dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
    ],
    ids=["transposed", "strided", "expanded", "empty", "scalar", "bool", "complex"],
)
def test_values_layouts_and_dtypes_survive(pool: Pool, tensor: torch.Tensor) -> None:
    with pool.worker(
        payload("def run(x): return x.clone(), x.new_tensor(x.stride(), dtype=x.dtype)\n")
    ) as worker:
        slot = pool.arena.place(tensor)
        assert torch.equal(pool.arena.view(slot), tensor)
        worker.call([worker.bind((slot,), ())])
        value, strides = worker.fetch().outputs
    assert torch.equal(value, tensor)
    assert strides.to(torch.complex64).real.to(torch.bool).tolist() == [s != 0 for s in tensor.stride()]


def test_scalars_lists_and_infinities_are_passed_on(pool: Pool) -> None:
    text = "def run(x, sizes, low, high, flag): return x.clamp(low, high) + sizes[1] + flag, sizes[0] + x\n"
    with pool.worker(payload(text)) as worker:
        slot = pool.arena.place(torch.zeros(4))
        worker.call([worker.bind((slot, (slot, 3), -math.inf, 2.5, True), (*vector(), *vector()))])
        assert worker.fetch().outputs[0].tolist() == [4.0] * 4


def test_a_refill_of_the_same_storage_is_seen(pool: Pool) -> None:
    with pool.worker(payload(ADD)) as worker:
        slot = pool.arena.place(torch.zeros(4))
        number = worker.bind((slot,), vector())
        worker.call([number])
        pool.arena.refill(slot, torch.full((4,), 7.0))
        reply = worker.call([number, number])
        assert [worker.fetch(i).outputs[0][0].item() for i in range(3)] == [1.0, 8.0, 8.0]
        assert reply.first == 1


def test_state_goes_in_strictly_and_comes_out_as_it_is(pool: Pool) -> None:
    state = {
        "weight": torch.rand(3), "bias": torch.rand(3), "running_mean": torch.zeros(3),
        "running_var": torch.ones(3), "num_batches_tracked": torch.tensor(5),
    }  # fmt: skip
    with pool.worker(payload(BATCH_NORM, "Model", "module", init=(3,), mode="train")) as worker:
        worker.set_state(state)
        assert all(torch.equal(v, state[k]) for k, v in worker.state().items())
        slot = pool.arena.place(torch.full((8, 3), 10.0))
        worker.call([worker.bind((slot,), (TensorSpec(name="y", shape=(8, 3), dtype="float32"),))])
        after = worker.state()
        assert after["num_batches_tracked"].item() == 6 and after["running_mean"].tolist() == [1.0] * 3
        for wrong in ({**state, "more": torch.ones(1)}, {**state, "bias": torch.rand(4)}):
            with pytest.raises(WorkerFailure, match="state") as failure:
                worker.set_state(wrong)
            assert failure.value.kind is FailureKind.ERROR and worker.alive


@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_module_adds_in_its_calls_is_its_own_affair_and_goes_stale(pool: Pool, in_place: bool) -> None:
    ones = {"weight": torch.ones(4, 4)}
    with pool.worker(payload(ADDS_A_BUFFER, "Model", "module", init=(4, 4, False))) as worker:
        worker.set_state(ones)
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
        worker.call([number])
        assert list(worker.state()) == ["weight"]
        worker.set_state({"weight": torch.full((4, 4), 3.0)}, in_place=in_place)
        worker.call([number])
        assert [worker.fetch(i).outputs[0][0].item() for i in (0, 1)] == [4.0, 4.0]


@pytest.mark.parametrize("in_place", [False, True])
def test_state_of_a_function_follows_the_arguments_and_may_change(pool: Pool, in_place: bool) -> None:
    with pool.worker(payload(ADD)) as worker:
        worker.set_state({"bias": torch.full((4,), 2.0)})
        number = worker.bind((pool.arena.place(torch.zeros(4)),), vector())
        worker.call([number])
        worker.set_state({"bias": torch.full((4,), 3.0)}, in_place=in_place)
        worker.call([number])
        assert [worker.fetch(i).outputs[0][0].item() for i in (0, 1)] == [2.0, 3.0]


def test_the_next_state_comes_by_the_same_memory_and_a_large_one_gives_it_back(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pool.worker(payload("def run(x, a, b): return x + a\n")) as worker:
        seen = list[set[str]]()
        for names, most in (("ab", 1 << 20), ("a", 1 << 20), ("b", 1 << 10), ("a", 1 << 10), ("ab", 1 << 20)):
            monkeypatch.setattr(worker_module, "_MOST_STATE_BYTES", most)
            state = {name: torch.rand(4 if name == "a" else 9_000) for name in names}
            worker.set_state(state, in_place=bool(seen))
            held = worker.state()
            assert all(torch.equal(held[name], tensor) for name, tensor in state.items())
            seen.append(_arenas(worker.pid))
    both, one, given_back, small, larger = seen
    assert len(both) == 1 and one == both
    assert not given_back and not small
    assert len(larger) == 1 and larger != both


def _arenas(pid: int) -> set[str]:
    """The inodes of the judge's memory that a process has mapped."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {words[4] for words in lines if len(words) > 5 and words[5].startswith("/memfd:arena-")}


def test_seeding_makes_random_outputs_repeat(pool: Pool) -> None:
    with pool.worker(payload("import torch\ndef run(x): return torch.rand(4)\n")) as worker:
        number = worker.bind((pool.arena.place(torch.zeros(4)),), vector())
        for seed in (1, 1, 2):
            worker.seed(seed)
            worker.call([number])
        a, b, c = (worker.fetch(i).outputs[0] for i in range(3))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_outputs_of_many_calls_are_read_at_once_empty_ones_too(pool: Pool) -> None:
    with pool.worker(payload("def run(x): return x + 1, x[:0]\n")) as worker:
        number = worker.bind((pool.arena.place(torch.arange(4.0)),), (*vector(), *vector(0)))
        found = worker.outputs_of(worker.call([number, number]))
        if not worker.reads_frozen:
            assert found is None
            return
    assert found is not None
    assert found[0].tolist() == [[1, 2, 3, 4]] * 2 and found[1].shape == (2, 0)


def test_a_destination_kernel_gets_outputs_of_each_set(
    pool: Pool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from kernelwright.config import Settings
    from kernelwright.languages.cpp import Cpp
    from kernelwright.records import BuildStatus, Candidate, SourceFile
    from kernelwright.sandbox import Payload

    text = (
        "#include <tvm/ffi/container/tensor.h>\n#include <tvm/ffi/function.h>\n"
        "void twice(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {\n"
        "  for (int64_t i = 0; i < y.size(0); ++i)\n"
        "    static_cast<float*>(y.data_ptr())[i] = 2 * static_cast<const float*>(x.data_ptr())[i];\n}\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice)\n"
    )
    candidate = Candidate(
        sources=(SourceFile(path="k.cpp", text=text),),
        language="cpp",
        entry="k.cpp:twice",
        style="destination",
    )
    folder = str(tmp_path_factory.mktemp("cache"))
    language = Cpp(Settings.from_environment({"KERNELWRIGHT_CACHE": folder}))
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    with pool.worker(Payload(candidate, artefact=build.artefact, outputs=vector(3))) as worker:
        sets = [worker.bind((pool.arena.place(torch.ones(n)),), vector(n)) for n in (3, 5)]
        worker.call(sets)
        assert [worker.fetch(i).outputs[0].tolist() for i in (0, 1)] == [[2.0] * 3, [2.0] * 5]


def test_an_error_is_data_and_the_worker_lives_on(pool: Pool) -> None:
    text = (
        "def run(x, how):\n"
        "    if how == 1: raise ValueError('broken')\n"
        "    if how == 2: raise NotImplementedError('Unsupported: 4')\n"
        "    if how == 3: raise SystemExit(0)\n"
        "    if how == 6: raise NotImplementedError('later')\n"
        "    if how == 7: raise RuntimeError('Unsupported: 4')\n"
        "    return x if how == 4 else 'text'\n"
    )
    expected = {
        1: FailureKind.ERROR, 2: FailureKind.UNSUPPORTED, 3: FailureKind.ERROR, 6: FailureKind.ERROR,
        7: FailureKind.UNSUPPORTED,
    }  # fmt: skip
    with pool.worker(payload(text)) as worker:
        slot = pool.arena.place(torch.ones(4))
        for how, kind in expected.items():
            with pytest.raises(WorkerFailure) as failure:
                worker.call([worker.bind((slot, how), vector())])
            assert failure.value.kind is kind and failure.value.alive
        worker.call([worker.bind((slot, 5), vector())])
        with pytest.raises(WorkerFailure, match="returned str"):
            worker.fetch()
        reply = worker.call([worker.bind((slot, 4), vector())])
        assert worker.fetch(reply.first).facts[0].aliases == (0,)


def test_facts_show_what_is_not_a_plain_tensor(pool: Pool) -> None:
    text = (
        "import torch\n"
        "class Lazy(torch.Tensor): ...\n"
        "def run(x):\n"
        "    marked = x.clone(); marked.note = 1\n"
        "    return x.clone().as_subclass(Lazy), marked, x[:2], (x2 := x.clone()), x2[1:]\n"
    )
    with pool.worker(payload(text)) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector() * 5)])
        facts = worker.fetch().facts
    assert [f.plain for f in facts] == [False, False, True, True, True]
    assert [f.aliases for f in facts] == [(), (), (0,), (), ()]
    assert facts[4].shares == (3,)


def test_an_output_overwritten_by_a_later_call_shows_when_fetched_again(pool: Pool) -> None:
    text = "import torch\nbuffer = torch.zeros(4)\ndef run(x): return torch.add(x, 1, out=buffer)\n"
    with pool.worker(payload(text)) as worker:
        slot = pool.arena.place(torch.zeros(4))
        number = worker.bind((slot,), vector())
        worker.call([number])
        before = worker.fetch(0).outputs[0]
        pool.arena.refill(slot, torch.ones(4))
        worker.call([number])
        assert not torch.equal(before, worker.fetch(0).outputs[0])


@pytest.mark.parametrize("kept", [0, 20_000], ids=["holes", "no holes"])
@pytest.mark.parametrize("count", [50_000, 10_000_000], ids=["small", "40 MB"])
def test_memory_never_written_holds_poison(pool: Pool, count: int, kept: int) -> None:
    """The first call leaves ones where the allocator puts the next output. Where nothing small is free, small blocks
    come to lie between large ones."""
    text = (
        "import torch\n"
        f"kept = [torch.empty(1) for _ in range({kept})]\n"
        "def run(x):\n"
        f"    first = torch.ones({count}) if x[0] else None\n"
        f"    return torch.empty({count})\n"
    )
    with pool.worker(payload(text)) as worker:
        slot = pool.arena.place(torch.ones(4))
        for leaves in (True, False):
            pool.arena.refill(slot, torch.full((4,), float(leaves)))
            worker.call([worker.bind((slot,), vector(count))])
            assert worker.fetch(0).outputs[0].isnan().float().mean() > 0.99
            worker.release()


def test_outputs_of_several_calls_lie_on_pages_that_are_there(pool: Pool) -> None:
    """Else the first timed calls of a fresh worker take several times as long as the others."""
    count, calls = 2_000_000, 4
    with pool.worker(payload(f"import torch\ndef run(x): return torch.ones({count})\n")) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector(count))
        before = _page_faults(worker.pid)
        worker.call([number] * calls)
        faults = _page_faults(worker.pid) - before
    assert faults < calls * count * 4 / resource.getpagesize() / 10


def _page_faults(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_releasing_leaves_inputs_and_state_alone(pool: Pool) -> None:
    with pool.worker(payload("def run(x, w): return x, w, w + x\n")) as worker:
        worker.set_state({"w": torch.ones(4)})
        slot = pool.arena.place(torch.ones(4))
        worker.call([worker.bind((slot,), vector())])
        worker.release()
        assert pool.arena.view(slot).tolist() == [1.0] * 4 and worker.state()["w"].tolist() == [1.0] * 4


def test_outputs_far_larger_than_declared_are_refused(pool: Pool) -> None:
    with pool.worker(payload("import torch\ndef run(x): return torch.zeros(10_000_000)\n")) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
        with pytest.raises(WorkerFailure, match="40000000 bytes"):
            worker.fetch()
        assert worker.alive


def test_two_workers_at_once_do_not_mix(pool: Pool) -> None:
    with pool.worker(payload(ADD)) as one, pool.worker(payload("def run(x): return x * 10\n")) as two:
        slot = pool.arena.place(torch.full((4,), 2.0))
        sets = [w.bind((slot,), vector()) for w in (one, two)]
        for worker, number in zip((one, two), sets, strict=True):
            worker.call([number])
        assert [w.fetch().outputs[0][0].item() for w in (one, two)] == [3.0, 20.0]
        assert one.pid != two.pid


def test_a_kernel_timed_by_the_judge_takes_as_long_as_it_sleeps(pool: Pool) -> None:
    with pool.worker(payload("import time\ndef run(x):\n    time.sleep(0.05)\n    return x + 1\n")) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
        reply = worker.call([number, number])
    assert reply.time_us > 100_000 and reply.cpu_us < 50_000


def test_what_does_nothing_is_given_up_but_for_a_baseline_that_waits(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.sandbox._stalled.IDLE_S", 0.6)
    sleeper = payload("import time\ndef run(x):\n    time.sleep(2.5)\n    return x + 1\n")
    ours = payload("import time\ndef run(x):\n    time.sleep(2.5)\n    return x + 1\n", trusted=True)
    with pool.worker(sleeper) as worker, pytest.raises(WorkerFailure, match="nothing of it was at work"):
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())], deadline_s=60)
    with pool.worker(ours, deadline_s=600) as worker:  # it may wait for a compiler's lock
        reply = worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())], deadline_s=60)
        assert worker.fetch(reply.first).outputs[0].tolist() == [2.0] * 4


def test_whoever_looks_seldom_looks_again_before_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 60.0, 60.2, 60.4))
    monkeypatch.setattr(_stalled, "_at_work", lambda _: False)
    monkeypatch.setattr(_stalled, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        stall = _stalled.Stall(sleeper.pid, 60.0)
        found = [stall.reason() for _ in range(3)]
        sleeper.kill()
    assert found[:2] == ["", ""]
    assert "nothing of it was at work" in found[2]


def test_releasing_an_output_of_one_element_with_any_stride_works(pool: Pool) -> None:
    with pool.worker(payload("def run(x): return (x.reshape(1, 4) + 1)[..., -1]\n")) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector(1))])
        assert worker.fetch().outputs[0].tolist() == [2.0]
        worker.release()


def test_outputs_side_by_side_in_one_buffer_share_no_bytes(pool: Pool) -> None:
    text = "def run(x):\n    y = x + 1\n    return y[:2], y[2:], y[1:3]\n"
    with pool.worker(payload(text)) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector(2) * 3)])
        assert [f.shares for f in worker.fetch().facts] == [(), (), (0, 1)]


def test_content_is_written_between_the_announcement_of_a_call_and_the_word_to_go(pool: Pool) -> None:
    text = (
        "import sys\n"
        "holder = sys.modules['kernelwright.sandbox._worker_state'].WorkerState\n"
        "plan, seen = holder.plan, []\n"
        "def early(self, sets):\n"
        "    made = plan(self, sets)\n"
        "    seen[:] = [made[0][1][0].clone()]\n"
        "    return made\n"
        "holder.plan = early\n"
        "def run(x): return x + 10 * seen[0]\n"
    )
    states = []

    def fill() -> None:
        states.append(psutil.Process(worker.pid).status())
        pool.arena.refill(slot, torch.full((4,), 2.0))

    with pool.worker(payload(text)) as worker:
        slot = pool.arena.place(torch.ones(4))
        reply = worker.call([worker.bind((slot,), vector())], fill=fill)
        assert worker.fetch(reply.first).outputs[0].tolist() == [12.0] * 4
    assert states == [psutil.STATUS_STOPPED]


def test_a_worker_collects_garbage_though_its_zygote_imported_without(pool: Pool) -> None:
    text = "import gc\ndef run(x):\n    return x + gc.isenabled()\n"
    with pool.worker(payload(text)) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
        assert worker.fetch().outputs[0].tolist() == [2.0] * 4
