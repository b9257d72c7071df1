"""What each language reaches on each target, shown here: one candidate of each for `2 * x.flip(-1)`, judged in full.

    python -m benchmarks.evidence --out docs/languages/evidence.jsonl [--with OLDER.jsonl] [--only [LANGUAGE ...]]
                                  [--timed ROWS.jsonl ...] [--minutes 20]

Prints each language's row and why there is none. Rows of `--with` stay where this machine has nothing newer; `--out` is
what `kernelwright languages --evidence` reads. Languages that are not installed are left out, and said; `--only` with
no name judges none. `--timed` adds what rows of a GPU under `benchmarks/results/` show: a candidate's times in blocks.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.executor.judging import TASK
from tests.executor.test_ascendc_judged import RIGHT as ASCENDC
from tests.executor.test_candidates import CUDA, TRITON
from tests.executor.test_python_languages import RIGHT as PYTHON

from kernelwright.api.judge import judging
from kernelwright.api.languages import Seen, latest, read_evidence, seen_in, write_evidence
from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile
from kernelwright.store import Store

COMPILED = """
{name}_EVIDENCE = [{{"kernel": "mirror", "signature": {{"x": "*fp32", "out": "*fp32", "n": "i32"}},
                     "constexprs": {{"BLOCK": 1024}}, "num_warps": 4{targets}}}]
"""
ASKED = "sm_80", "sm_90", "sm_100", "sm_120"
"""NVIDIA's targets for which CUDA and Triton are compiled here; Triton for `AMD` too."""
AMD = "gfx90a", "gfx942", "gfx950"
GLUON = """
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def mirror(x, out, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    row = gl.program_id(0)
    columns = gl.arange(0, BLOCK, layout=layout)
    value = gl.load(x + row * n + n - 1 - columns, mask=columns < n)
    gl.store(out + row * n + columns, 2 * value, mask=columns < n)

def run(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    mirror[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""
CPP = """
#include "kernelwright.h"
KW_KERNEL(run) {
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  if (x.ndim() != 2) KW_UNSUPPORTED("x must be a matrix");
  const int64_t rows = x.shape(0), n = x.shape(1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) out.data()[r * n + i] = 2 * x.data()[r * n + n - 1 - i];
}
"""
OPENCL = """
// launch: n = x.shape[-1]
// launch: require = x.dtype == "float32" and 0 < prod(x.shape) < 2147483647
// launch: global = prod(x.shape)
__kernel void run(__global const float* x, int n, __global float* out) {
  int i = get_global_id(0);
  out[i] = 2 * x[i / n * n + n - 1 - i % n];
}
"""
WGSL = """
// launch: n = x.shape[-1]
// launch: size = prod(x.shape)
// launch: groups = cdiv(size, 64)
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
override n: i32;
override size: i32;
@compute @workgroup_size(64)
fn run(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  if (i < size) { y[i] = 2.0 * x[i / n * n + n - 1 - i % n]; }
}
"""
PALLAS = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

def mirror(x_ref, out_ref):
    out_ref[...] = 2 * x_ref[...]

def run(x):
    if x.ndim != 2:
        raise NotImplementedError("Unsupported: x must be a matrix")
    turned = jnp.flip(x, -1)
    block = pl.BlockSpec(x.shape, lambda: (0, 0))
    return pl.pallas_call(mirror, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[block], out_specs=block)(
        turned)
"""
TORCH = """
import torch

def run(x):
    return torch.flip(x, (-1,)).mul_(2)
"""
CANDIDATES = {
    "ascendc": ("k.cpp", ASCENDC), "cpp": ("k.cpp", CPP), "cuda": ("k.cu", CUDA), "gluon": ("k.py", GLUON),
    "hip": ("k.hip", CUDA), "opencl": ("k.cl", OPENCL), "pallas": ("k.py", PALLAS), "torch": ("k.py", TORCH),
    "triton": ("k.py", TRITON), "wgsl": ("k.wgsl", WGSL), **{name: ("k.py", text) for name, text in PYTHON.items()},
}  # fmt: skip
"""The file of each language and what stands in it; the entry is `run`."""
TARGETS = {"NVIDIA H100": "sm_90", "NVIDIA H200": "sm_90"}
"""What rows that name their device alone were made for."""


def candidate(language: str) -> Candidate:
    """Return the candidate of a language."""
    name, text = CANDIDATES[language]
    if language in {"triton", "gluon"}:
        asked = f', "targets": {[*ASKED, *AMD]}' if language == "triton" else ""
        text = COMPILED.format(name=language.upper(), targets=asked) + text
    if language == "cuda":
        text = f"// targets: {', '.join(ASKED)}\n{text}"
    style = "function" if name.endswith(".py") else "destination"
    return Candidate(
        sources=(SourceFile(path=name, text=text),), language=language, entry=f"{name}:run", style=style
    )


def timed_in(path: Path) -> Iterator[Seen]:
    """Yield the languages of which rows of a GPU hold a candidate's times: of judgements, and of a model's regions."""
    run = path.as_posix().partition("results/")[2]
    machine = target = when = ""
    for row in map(json.loads, path.read_text().splitlines()):
        when = row.get("date", when)
        if isinstance(row.get("device"), str):
            machine = row["device"]
            target = next((sm for name, sm in TARGETS.items() if machine.startswith(name)), "")
        elif "device" in row:
            machine = row["device"]["name"]
            target = "sm_" + row["device"]["facts"]["capability"].replace(".", "")
        for language, key in _timed(row):
            if target:
                yield Seen(language=language, target=target, state="timed", machine=machine, when=when, run=run,
                           candidate=key)  # fmt: skip


def _timed(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield language and key of each candidate whose times stand in a row."""
    judged = row.get("evaluation")
    if isinstance(judged, dict) and any(
        "candidate" in b["times_us"] for b in (judged["timing"] or {}).get("blocks", ())
    ):
        made = Candidate.model_validate(judged["candidate"])
        yield made.language, made.key
    for tried in row.get("tried", ()):
        if "candidate" in (tried["block_us"] or {}):
            yield tried["language"], ""


def main() -> None:
    """Judge, and write what was shown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--with", dest="older", type=Path, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--timed", type=Path, nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "mirror.py"
        task.write_text(TASK)
        for language in given.only:
            found = get_language(language).available()
            if not found.ok:
                print(f"{language:9} not here: {found.what}")
                continue
            begun = time.monotonic()
            with judging(str(task), device="cpu", store=folder, minutes=given.minutes) as ask:
                judged = ask(candidate(language), False)
            said = f"{judged.verdict.value}, {judged.decision.value}"
            print(f"{language:9} {said}, {time.monotonic() - begun:.0f} s: {judged.reason}", flush=True)
        with Store(folder) as store:
            rows = [*seen_in(store), *(row for path in given.older for row in read_evidence(path))]
    rows += [row for path in given.timed for row in timed_in(path)]
    write_evidence(given.out, latest(rows))
    for row in latest(rows):
        print(f"{row.language:9} {row.target:10} {row.state:10} {row.machine}, {row.when}")


if __name__ == "__main__":
    main()
