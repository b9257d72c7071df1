"""A family's kernels built in another way against the kernels as they are: seconds to build, and its cases in turn.

    python -m benchmarks.ops.flags FAMILY [--flag=-O2] [--commit REVISION] [--only TEXT] [--out FILE]

The other way is another flag, or the sources of another commit, in which kernels take the same arguments; flags are
those of the family as it is, and `--flag`. A row is one case of the family's own script, timed as there: `kernel` is
the other way, and a ratio above 1 says that it is faster; `--only` names ops, sizes or dtypes. Both are called past
what is remembered of calls. Cases that do not fit the seconds (`--seconds`) are left out.
"""

import argparse
import contextlib
import importlib
import itertools
import json
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import kernelwright
from benchmarks.ops._turns import Call, Case, turns
from kernelwright.languages.cpp import INCLUDE, LIBRARY, Cpp
from kernelwright.languages.vectors import headers_of
from kernelwright.ops._core import op as ops_core
from kernelwright.ops._core import unremembered
from kernelwright.ops._core.kernel import HEADERS
from kernelwright.records import SourceFile

DEADLINE_S = 600.0


def entries(kernel: Any, flags: tuple[str, ...], package: Path | None = None) -> tuple[dict[str, Any], float]:
    """Build a family's kernels with more flags, or of another package; return them and the CPU seconds of compilers."""
    import tvm_ffi

    found, before = {}, _children_s()
    for name in (op.name for op in kernel.ops):
        candidate = kernel.candidate(name)
        changed = {
            "flags": (*candidate.flags, *flags),
            "sources": sources(kernel, package) or candidate.sources,
        }
        build = Cpp().build(candidate.model_copy(update=changed), deadline_s=DEADLINE_S)
        if not build.artefact:
            raise SystemExit(f"{name} could not be built with {' '.join(flags)}: {build.diagnostics}")
        found[name] = tvm_ffi.load_module(str(Path(build.artefact) / LIBRARY)).get_function(name)
    return found, _children_s() - before


def sources(kernel: Any, package: Path | None) -> tuple[SourceFile, ...]:
    """Return a kernel's sources as another package has them; none without one."""
    if package is None:
        return ()
    home = Path(kernelwright.__file__).parent
    folders = (kernel.file.parent, *HEADERS, home / "languages" / "vectors", INCLUDE)
    main = SourceFile(path=kernel.file.name, text=(package / kernel.file.relative_to(home)).read_text())
    return (main, *headers_of(main.text, tuple(package / folder.relative_to(home) for folder in folders)))


@contextlib.contextmanager
def package_at(commit: str) -> Iterator[Path | None]:
    """Have the package as it is at a commit in a folder; None where none is named."""
    if not commit:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "src/kernelwright"], check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        yield Path(folder) / "src" / "kernelwright"


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(
    family: str, flag: str, rounds: int, seconds: float, commit: str = "", only: str = ""
) -> Iterator[dict[str, object]]:
    """Yield a row of the builds, which are none where the cache has them, then one of each case."""
    kernel = importlib.import_module(f"kernelwright.ops.{family}").KERNEL
    own, own_s = entries(kernel, ())
    with package_at(commit) as package:
        other, other_s = entries(kernel, (flag,) if flag else (), package)
    what = {"family": family, "flag": flag} | ({"commit": commit} if commit else {})
    yield {**what, "build_cpu_s": round(own_s, 1), "with_flag_s": round(other_s, 1)}

    def called(flagged: bool, call: Call) -> Call:
        def run() -> object:
            for op in kernel.ops:
                entry = (other if flagged else own)[op.name]
                op._entry, op._served = (lambda _, entry=entry: entry), None
            return call()

        return run

    begun = time.monotonic()
    with unremembered(), mock.patch.object(ops_core, "served_calls", lambda: None):
        for case in (one for one in cases_of(family) if only in f"{one.op} {one.size} {one.dtype}"):
            if time.monotonic() - begun > seconds:
                return
            both = {
                "kernel": called(True, case.contestants["kernel"]),
                "as it is": called(False, case.contestants["kernel"]),
            }
            yield {**what, **turns(replace(case, contestants=both), rounds, threads=1)}


def cases_of(family: str) -> Iterable[Case]:
    """Return the cases of a family's script, or calls of its kernels at a few sizes where the script has none."""
    made = {"lowbit": _lowbit, "loss": _loss, "kmeans": _kmeans}.get(family)
    return made() if made else importlib.import_module(f"benchmarks.ops.{family}").cases("")


def _lowbit() -> Iterator[Case]:
    from benchmarks.ops.lowbit import PRECISIONS, Weight, own

    for size, (weights, dtype, activations) in itertools.product((1, 2, 8, 32), PRECISIONS):
        x = torch.randn(size, 4096).to(getattr(torch, dtype))
        call = own(Weight(2048, 4096, int(weights[3:]), 0), x, activations)
        yield Case("linear", f"{size}x2048x4096 {weights} {activations}", dtype, {"kernel": call})


def _loss() -> Iterator[Case]:
    from kernelwright.ops import loss

    for dtype, gradients in itertools.product((torch.float32, torch.bfloat16), (False, True)):
        x, weight = (
            torch.randn(rows, 512, dtype=dtype).div_(4).requires_grad_(gradients) for rows in (512, 8192)
        )
        target = torch.randint(8192, (512,))

        def call(
            x: torch.Tensor = x, weight: torch.Tensor = weight, target: torch.Tensor = target
        ) -> torch.Tensor:
            return loss.linear_cross_entropy(x, weight, target).detach()

        what = "gradients" if gradients else "loss"
        yield Case(what, "512x8192x512", str(dtype).removeprefix("torch."), {"kernel": call})


def _kmeans() -> Iterator[Case]:
    from kernelwright.ops import kmeans

    for rows, clusters, columns in ((50_000, 8, 2), (20_000, 16, 32), (20_000, 64, 32), (5_000, 256, 128)):
        x, c = torch.randn(rows, columns), torch.randn(clusters, columns)
        for name, call in (("assign", kmeans.assign), ("step", kmeans.step)):
            yield Case(
                name, f"{rows}x{clusters}x{columns}", "float32",
                {"kernel": partial(_first, call, x, c)},
            )  # fmt: skip


def _first(call: Callable[..., Iterable[torch.Tensor]], x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return next(iter(call(x, c))).float()


def main() -> None:
    """Print the rows of a family and their geometric mean."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops.flags")
    parser.add_argument("family")
    parser.add_argument("--flag", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--only", default="", help="ops, sizes or dtypes that contain this")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, help="JSONL file to append rows to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: list[float] = []
    for row in rows(given.family, given.flag, given.rounds, given.seconds, given.commit, given.only):
        print(json.dumps(row), flush=True)
        if "ratio" in row:
            found.append(float(str(row["ratio"])))
        if given.out:
            with given.out.open("a") as to:
                to.write(json.dumps(row) + "\n")
    if found:
        print(
            f"{given.family}: {statistics.geometric_mean(found):.3f} of {len(found)}, worst {min(found):.3f}"
        )


if __name__ == "__main__":
    main()
