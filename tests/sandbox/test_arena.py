"""Shared memory: placing, guards, poison."""

import itertools

import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.sandbox import Arena, Pool
from kernelwright.sandbox._arena import OutputRegion

from .conftest import payload, vector


def test_slots_are_aligned_and_guarded() -> None:
    with Arena(1 << 20) as arena:
        slots = [arena.place(torch.ones(n)) for n in (1, 33, 1000)]
        assert all(s.offset % 64 == 0 for s in slots)
        gaps = [b.offset - a.offset - a.nbytes for a, b in itertools.pairwise(slots)]
        assert min(gaps) >= 4096 and slots[0].offset >= 4096
        assert arena.guards_intact()


@pytest.mark.parametrize("where", [-1, 0])
def test_a_byte_written_beside_a_slot_is_seen(where: int) -> None:
    with Arena(1 << 20) as arena:
        slot = arena.place(torch.zeros(10, dtype=torch.uint8))
        position = slot.offset - 1 if where else slot.offset + slot.nbytes
        arena._bytes[position] ^= 1
        assert not arena.guards_intact()


def test_guards_hold_while_slots_are_refilled_and_after_a_reset() -> None:
    with Arena(1 << 20) as arena:
        slot = arena.place(torch.zeros(100)[::2], skew_bytes=100)
        arena.refill(slot, torch.ones(50))
        assert arena.guards_intact() and arena.view(slot).sum() == 50
        arena.reset()
        assert arena.place(torch.zeros(3)).offset != slot.offset
        assert arena.guards_intact()


def test_the_pattern_is_secret() -> None:
    with Arena(1 << 16) as one, Arena(1 << 16) as two:
        one.place(torch.zeros(1))
        two.place(torch.zeros(1))
        assert not torch.equal(one._bytes[:4096], two._bytes[:4096])


def test_wrong_use_is_explained() -> None:
    with Arena(1 << 16) as arena, Arena(1 << 16) as other:
        slot = arena.place(torch.zeros(4))
        with pytest.raises(InputError, match="does not fit"):
            arena.place(torch.zeros(1 << 16))
        with pytest.raises(InputError, match="same shape"):
            arena.refill(slot, torch.zeros(5))
        with pytest.raises(InputError, match="slot of arena"):
            other.view(slot)
    with pytest.raises(InputError, match="positive"):
        Arena(0)


def test_a_worker_writing_out_of_bounds_or_into_inputs_shows(pool: Pool) -> None:
    text = (
        "import ctypes\n"
        "def run(x, beyond):\n"
        "    ctypes.memset(x.data_ptr() + (x.numel() * 4 if beyond else 0), 0x5A, 4)\n"
        "    return x.clone()\n"
    )
    with pool.worker(payload(text)) as worker:
        slot = pool.arena.place(torch.ones(4))
        worker.call([worker.bind((slot, False), vector())])
        assert pool.arena.guards_intact() and pool.arena.view(slot)[0] != 1
        worker.call([worker.bind((slot, True), vector())])
        assert not pool.arena.guards_intact()


def test_the_output_region_is_poisoned_and_grows() -> None:
    region = OutputRegion()
    assert region.reserve(10) and not region.reserve(100) and region.reserve(1 << 20)
    region.poison(64)
    assert region.take(0, (2, 2), torch.float32).isnan().all()
    assert region.take(0, (8,), torch.bfloat16).isnan().all()
    region.close()


def test_an_output_that_the_worker_did_not_copy_is_poison(pool: Pool) -> None:
    text = "import torch\ndef run(x):\n    torch.Tensor.copy_ = lambda self, other: self\n    return x + 1\n"
    with pool.worker(payload(text)) as worker:
        worker.reads_frozen = False
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
        assert worker.fetch().outputs[0].isnan().all()
        assert "torch.Tensor.copy_" in worker.audit().patched
