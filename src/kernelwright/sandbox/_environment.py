"""The environment that every worker has, and nothing of the judge's.

Freed memory stays with the process, as a GPU's caching allocator does it: an output above glibc's 32 MiB
mmap threshold would otherwise be page-faulted anew in every call (64 MB `x + 1`: 76 to 104 ms instead of
11 to 21 ms). Idle OpenMP threads spin for 2000 rounds: on 2 cores, ten element-wise operations of 200,000
floats took 21 us each at best for any spin count above zero and 38 us at zero, while the CPU time burnt
after the call was 5 to 24 us at 2000, 1700 us at 20,000 and 4000 us at libgomp's default of 300,000,
which would disturb the variant that runs next. Threads are bound to cores: unbound, the scheduler now and then
left both threads of a short call on one core, and the times of one kernel fell into two heaps (1.4 and
1.7 ms; bound, the inner eight tenths lay between 1.35 and 1.45 ms).

Covers: the same environment for candidates and baselines; no variable of the judge's but the few named here.
Does not cover: what a candidate changes in its own process; see `Audit.environment`.
"""

import os

import psutil

_PASSED = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TZ")
_SPIN_COUNT = 2000


def environment(threads: int, compile_cache: str | None) -> dict[str, str]:
    """Compose the environment of a zygote and its workers."""
    given = {name: os.environ[name] for name in _PASSED if name in os.environ}
    cache = {"TORCHINDUCTOR_CACHE_DIR": compile_cache} if compile_cache else {}
    return given | cache | _import_path() | {
        "PATH": "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "USER": "worker",
        "HOME": "/",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        "GOMP_SPINCOUNT": str(_SPIN_COUNT),
        "OMP_PROC_BIND": "true",
        "OMP_PLACES": "cores",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 46),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip


def _import_path() -> dict[str, str]:
    """Say where the judge's Python looked for packages, in absolute terms: a zygote starts in another folder."""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    given = os.pathsep.join(map(os.path.abspath, folders))
    return {"PYTHONPATH": given} if given else {}


def physical_cores() -> int:
    """Count the physical cores that this process may use."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))
