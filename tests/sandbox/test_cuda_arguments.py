"""What a GPU's worker holds of the arena: copies that follow the judge, and that come back with what a call changed."""

import pytest
import torch

from kernelwright.sandbox import _cuda, _zygote
from kernelwright.sandbox._arena import Arena
from kernelwright.sandbox._environment import environment

from .conftest import payload, vector


@pytest.fixture
def bound():
    """An arena with two tensors next to each other, and their mirrors."""
    with Arena(1 << 16) as arena:
        slots = [arena.place(torch.full((3, 5), float(n))) for n in (1, 2)]
        mirrors = [_cuda.Mirror.of(arena._bytes, s.offset, s.nbytes, "cpu") for s in slots]
        yield arena, slots, mirrors


def test_a_copy_follows_what_the_judge_writes(bound):
    arena, slots, mirrors = bound
    x = mirrors[0].argument(torch.float32, (3, 5), (5, 1))
    arena.refill(slots[0], torch.full((3, 5), 7.0))
    assert (x == 1).all()
    mirrors[0].push()
    assert (x == 7).all()


def test_what_a_call_changes_is_shown_to_the_judge(bound):
    arena, slots, mirrors = bound
    mirrors[1].argument(torch.float32, (3, 5), (5, 1))[2, 4] = -1
    _cuda.pull(mirrors)
    assert arena.view(slots[1])[2, 4] == -1
    assert (arena.view(slots[0]) == 1).all()
    assert arena.guards_intact()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("past", [-1, 15])
def test_a_write_past_an_end_is_seen_though_the_neighbour_has_the_band_too(bound, which, past):
    arena, _, mirrors = bound
    held = mirrors[which].device
    held[_cuda._GUARD_BYTES + 4 * past] ^= 0xFF
    _cuda.pull(mirrors)
    assert not arena.guards_intact()


def test_a_zygote_counts_gpus_without_their_driver(monkeypatch):
    monkeypatch.setattr(
        torch._C, "_cuda_getDeviceCount", lambda: pytest.fail("the driver was asked"), raising=False
    )
    monkeypatch.setattr(torch.version, "hip", None)
    with _zygote._driver_untouched() as gpus:
        assert torch._C._cuda_getDeviceCount() == gpus


def test_a_worker_may_start_the_driver_and_triton_may_keep_what_it_compiles(pools):
    text = (
        "import os, torch\ndef run(): ...\nassert not torch.cuda._is_in_bad_fork()\n"
        "assert os.environ['TRITON_HOME'] == os.environ['TMPDIR']\n"
    )
    with pools("none").worker(payload(text)) as worker:
        assert worker.alive


def test_workers_look_for_packages_where_the_judge_did(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "src::/site")
    assert environment(1, None)["PYTHONPATH"] == f"{tmp_path}/src:/site"
    monkeypatch.delenv("PYTHONPATH")
    assert "PYTHONPATH" not in environment(1, None)


def test_a_hand_over_costs_what_its_own_outputs_take(pools):
    asked = []
    small, large = vector(64), vector(1 << 20)
    with pools("none").worker(payload("import torch\ndef run(n): return torch.ones(n)\n")) as worker:
        worker.reads_frozen = False
        ask = worker._connection.ask
        worker._connection.ask = lambda message, *rest: asked.append(message) or ask(message, *rest)
        for outputs in (large, small):
            [number] = worker.bind_all([[outputs[0].shape[0]]], outputs)
            worker.call([number])
            assert worker.fetch().outputs[0].shape == outputs[0].shape
    assert [m["capacity"] for m in asked if m["op"] == "fetch"] == [4 << 20, 256]


def test_a_late_call_is_fetched_like_any_other(pools):
    pool = pools("none")
    with pool.worker(payload("def run(x): return x + 1\n")) as worker:
        worker.reads_frozen = False  # as on a GPU
        pool.arena.reset()
        slot = pool.arena.place(torch.zeros(4))
        number = worker.bind([slot], vector())
        worker.call([number])
        pool.arena.refill(slot, torch.ones(4))
        worker.call_late(number)
        assert worker.fetch().outputs[0].tolist() == [2.0] * 4
        assert worker.fetch(0).outputs[0].tolist() == [1.0] * 4


def test_compilers_find_the_temporary_folder_in_a_process_that_looks_deployed(pools):
    text = (
        "import os, tempfile\n"
        "def run(x):\n"
        "    return x + (os.environ['TMPDIR'] == os.environ['HOME'] == tempfile.gettempdir())\n"
    )
    pool = pools("none")
    with pool.worker(payload(text, deployed=True)) as worker:
        pool.arena.reset()
        number = worker.bind([pool.arena.place(torch.zeros(4))], vector())
        worker.call([number])
        assert worker.fetch().outputs[0].tolist() == [1.0] * 4
