"""What a worker that looks like somebody's program still has of what runtimes need."""

import pytest
import torch

from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import Payload, Pool

DOUBLE = """
// launch: global = prod(x.shape)
__kernel void run(__global const float* x, __global float* out) {
  int i = get_global_id(0);
  out[i] = 2 * x[i];
}
"""


@pytest.mark.needs("OpenCL")
def test_opencl_finds_its_drivers_there(pool: Pool) -> None:
    candidate = Candidate(
        sources=(SourceFile(path="k.cl", text=DOUBLE),),
        language="opencl",
        entry="k.cl:run",
        style="destination",
    )
    outputs = (TensorSpec(name="y", shape=(4,), dtype="float32"),)
    with pool.worker(Payload(candidate, outputs=outputs, deployed=True)) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), outputs)
        worker.elapse(60.0, 1)
        assert worker.fetch(worker.call([number]).first).outputs[0].tolist() == [2, 2, 2, 2]
