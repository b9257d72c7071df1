"""How many blocks a multiprocessor holds, against the toolkit's own occupancy calculator."""

import random
import subprocess

import pytest
from tests.tools import require

from kernelwright.executor.cuda import nvcc
from kernelwright.languages._occupancy import CORES, core_of, most_warps, occupancy

PROGRAM = """#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  int major, minor, shared_of_core, threads, registers, shared;
  while (std::scanf("%d %d %d %d %d %d", &major, &minor, &shared_of_core, &threads, &registers, &shared) == 6) {
    cudaOccDeviceProp p{};
    p.computeMajor = major, p.computeMinor = minor, p.maxThreadsPerBlock = 1024, p.warpSize = 32;
    p.maxThreadsPerMultiprocessor = major == 12 || (major == 8 && minor) ? 1536 : 2048;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536, p.reservedSharedMemPerBlock = 1024, p.numSms = 1;
    p.sharedMemPerBlock = 48 << 10, p.sharedMemPerMultiprocessor = shared_of_core;
    p.sharedMemPerBlockOptin = shared_of_core - 1024;
    cudaOccFuncAttributes a{};
    a.maxThreadsPerBlock = 1024, a.numRegs = registers, a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    a.maxDynamicSharedSizeBytes = size_t(p.sharedMemPerBlockOptin);
    cudaOccDeviceState s{};
    s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r{};
    int bad = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, size_t(shared));
    std::printf("%d\\n", bad ? -bad : r.activeBlocksPerMultiprocessor);
  }
}
"""


@pytest.mark.needs("nvcc")
def test_it_agrees_with_the_toolkits_calculator(tmp_path):
    require("C++ compiler")
    (tmp_path / "o.cpp").write_text(PROGRAM)
    subprocess.run([nvcc(), "-o", tmp_path / "o", tmp_path / "o.cpp"], check=True, timeout=300)
    draw, cases = random.Random(0), []
    for _ in range(600):
        name = draw.choice(list(CORES))
        shared = draw.choice((0, draw.randrange(CORES[name].shared_bytes - 1024)))
        cases.append((name, draw.randrange(1, 1025), draw.randrange(16, 65_536 // 1024 + 1), shared))
    asked = "".join(
        f"{name.replace('.', ' ')} {CORES[name].shared_bytes} {threads} {registers} {shared}\n"
        for name, threads, registers, shared in cases
    )
    said = subprocess.run(
        [tmp_path / "o"], input=asked, capture_output=True, text=True, check=True, timeout=60
    )
    expected = [
        occupancy(CORES[name], threads=threads, registers=registers, shared_bytes=shared).blocks
        for name, threads, registers, shared in cases
    ]
    assert list(map(int, said.stdout.split())) == expected


def test_what_runs_out_first_is_named_and_the_best_size_is_found():
    hopper = CORES["9.0"]
    for threads, registers, shared, limited_by, blocks in [
        (1024, 32, 0, "threads", 2), (32, 16, 0, "blocks", 32), (256, 255, 0, "registers", 1),
        (64, 32, 100_000, "shared memory", 2),
    ]:  # fmt: skip
        filled = occupancy(hopper, threads=threads, registers=registers, shared_bytes=shared)
        assert (filled.limited_by, filled.blocks, filled.warps) == (
            limited_by,
            blocks,
            blocks * -(-threads // 32),
        )
    assert most_warps(hopper, registers=168, shared_bytes=0) == 12
    assert core_of("sm_100a") is CORES["10.0"]
    assert core_of("sm_75") is None
