"""On a GPU: its memory is shared with workers, and the judge's kernel sees who else has the device."""

from pathlib import Path

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import Payload, Pool
from kernelwright.sandbox._holder import open_holder

pytestmark = pytest.mark.needs("GPU")
OUTPUTS = (TensorSpec(name="y", shape=(1024,), dtype="float32"),)
LEAVES_WORK = """
import torch
side = torch.cuda.Stream()
def run(x):
    y = x + 1
    import kernelwright.sandbox._cuda as cuda
    cuda.Fence.wait = lambda self: leave()
    return y
def leave():
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
    return 1.0
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held")
    with Pool(Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder)}), device="cuda:0") as pool:
        yield pool


def called(pool: Pool, text: str, *, times: int = 1):
    """Call a candidate, on ones that are written late, and return the last reply and its output."""
    source = SourceFile(path="kernel.py", text=text)
    candidate = Candidate(sources=(source,), language="torch", entry="kernel.py:run")
    with pool.worker(Payload(candidate, device="cuda:0", trusted=True)) as worker:
        assert worker.fills_late, pool.not_held
        pool.arena.reset()
        slot = pool.arena.place(torch.zeros(1024))
        [number] = worker.bind_all([[slot]], OUTPUTS, late=True)
        for _ in range(times):
            reply = worker.call([number], fill=lambda: pool.arena.refill(slot, torch.ones(1024)))
        return reply, worker.fetch(reply.first).outputs[0]


def test_what_is_written_while_the_worker_is_stopped_is_what_it_computes_with(pool: Pool) -> None:
    reply, output = called(pool, "def run(x):\n    return x + 1\n", times=3)
    assert output.eq(2).all()
    assert reply.held.taken_us == 0
    assert reply.held.left_us < 2000


def test_work_that_is_left_on_the_device_is_seen(pool: Pool) -> None:
    reply, output = called(pool, LEAVES_WORK)
    assert output.eq(2).all()
    assert reply.held.left_us > 2000


def test_an_idle_device_is_the_judges(tmp_path: Path) -> None:
    assert open_holder("cuda:0").sentry.look().lost_us == 0
