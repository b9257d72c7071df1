"""What `benchmarks.gpu.executor` does again on a GPU: launches of the PTX executor with their results, in files.

    python -m benchmarks.gpu.executor_cases --out FOLDER [--only instructions matrices cuda faults triton printed tests]

Needs nvcc, ptxas and Triton, no GPU; minutes for each part. The device needs nothing of these.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kernelwright.executor import Options

from .. import executor_battery as battery
from ..executor_kernels import FAMILIES
from . import instructions, matrices, probes
from .launches import Recorded, label, recording, write

TARGETS = (90, 80)
SEED = 21
RANDOM = 2000
TESTS = ("bulk", "im2col", "clusters", "wmma", "more_instructions", "masks", "right", "faults", "module",
         "triton", "gluon", "cuda", "unwritten", "sparse", "warpgroup", "mma_shapes")  # fmt: skip
"""The executor's tests that launch what an H100 has code for."""


def of_instructions() -> list[Recorded]:
    """Record single instructions."""
    with recording() as found:
        refused = instructions.record(RANDOM, SEED)
    found[0].note["refused"] = refused
    return found


def of_matrices() -> list[Recorded]:
    """Record `mma`, `wgmma` and atomics."""
    with recording() as found:
        matrices.record_mma(SEED)
        matrices.record_atomics(SEED)
        matrices.record_wgmma(SEED)
    return found


def of_probes() -> list[Recorded]:
    """Record what the ISA leaves open."""
    with recording() as found:
        probes.record_coordinates()
        probes.record_fields(SEED)
    return found


def of_templates(faults: bool) -> list[Recorded]:
    """Record the CUDA C++ templates' instances, the right ones at every size, or each planted fault at one."""
    wanted = [w for w in battery.wanted("") if bool(w[2]) == faults]
    known = battery.compiled(wanted)
    with recording() as found:
        for name, kind, fault in wanted:
            family, kernel = FAMILIES[name], known[f"{name}_{kind}_{fault}"]
            for size in family.sizes[1:2] if fault else family.sizes:
                facts: dict[str, Any] = {"family": name, "kind": kind, "size": size, "fault": fault}
                with label(f"{'faults' if faults else 'cuda'}/{name}/{kind}/{size}/{fault}", **facts):
                    battery.judged(kernel, family, kind, size, fault)
    return found


def of_triton() -> list[Recorded]:
    """Record Triton kernels by type and target, with their error against float64."""
    import torch

    from kernelwright.executor import triton as executed

    from ..executor_kernels.triton_cases import CASES, launches

    made = []
    with ThreadPoolExecutor(4) as pool:
        for target in TARGETS:
            for name, dtype in launches():
                torch.manual_seed(SEED)
                case = CASES[name](dtype)
                built = executed.compile_triton(case.function, case.arguments, case.constants, target=target)
                made.append((f"{name}/{str(dtype).removeprefix('torch.')}/sm_{target}", target, case))
                pool.submit(built.module.prepare)
    with recording() as found:
        for name, target, case in made:
            arrays = [getattr(a, "array", a) for a in case.arguments]
            note: dict[str, Any] = {"allowed": case.tolerance, "outputs": {}}
            with label(f"triton/{name}", **note):
                executed.run_triton(case.function, case.grid, case.arguments, case.constants, target=target,
                                    options=Options(deadline_s=60, count=False))  # fmt: skip
            for got, right in case.outputs:
                at = next(n for n, a in enumerate(arrays) if a is got)
                error = float((got.double() - right).abs().max())
                found[-1].note["outputs"][f"argument {at}"] = [error, float(right.abs().max())]
    return found


def of_printed() -> list[Recorded]:
    """Record what the compiler prints in Triton for the own problems, shrunk."""
    from ..executor_corpus import of_printed as rows

    with recording() as found:
        seen = 0
        for row in rows(set()):
            for launch in found[seen:]:
                launch.label = row["key"]
            seen = len(found)
    return found


def of_tests() -> list[Recorded]:
    """Record every launch of the executor's own tests."""
    import pytest

    class Names:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self, item: Any) -> Any:
            with label(f"tests/{item.nodeid.removeprefix('tests/executor/')}"):
                yield

    folder = Path(__file__).resolve().parents[2] / "tests" / "executor"
    files = [str(folder / f"test_{name}.py") for name in TESTS]
    with recording() as found:
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", *files], plugins=[Names()]
        )
    return [r for r in found if ".target sm_10" not in r.ptx and ".target sm_12" not in r.ptx]


PARTS: dict[str, Callable[[], list[Recorded]]] = {
    "instructions": of_instructions, "matrices": of_matrices, "probes": of_probes, "cuda": lambda: of_templates(False),
    "faults": lambda: of_templates(True), "triton": of_triton, "printed": of_printed, "tests": of_tests,
}  # fmt: skip


def main() -> int:
    """Make the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for a file of each part")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    words.out.mkdir(parents=True, exist_ok=True)
    for name in words.only:
        started = time.monotonic()
        launches = PARTS[name]()
        path = words.out / f"executor-{name}.zip"
        write(path, launches)
        seconds = time.monotonic() - started
        print(f"{name}: {len(launches)} launches in {seconds:.0f} s, {path.stat().st_size} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
