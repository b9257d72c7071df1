"""Triton; styles `function` and `module`. Runs on a GPU; without one it is interpreted and never timed.

A candidate is Python, as for `torch`, with `@triton.jit` functions in it:

    # softmax.py, entry "softmax.py:run"
    import torch
    import triton
    import triton.language as tl

    TRITON_EVIDENCE = [
        {"kernel": "softmax", "signature": {"x": "*fp32", "out": "*fp32", "n": "i32"},
         "constexprs": {"BLOCK": 1024}, "divisible": ["n"], "num_warps": 4},
    ]

    @triton.jit
    def softmax(x, out, n, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        value = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
        value = tl.exp(value - tl.max(value, 0))
        tl.store(out + row * n + columns, value / tl.sum(value, 0), mask=columns < n)

    def run(x):
        if x.dim() != 2 or not x.is_contiguous():
            raise NotImplementedError("Unsupported: x must be a contiguous matrix")
        out = torch.empty_like(x)
        rows, n = x.shape
        softmax[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n), num_warps=4)
        return out

`TRITON_EVIDENCE` is a literal list; each entry is one specialisation to compile for GPUs that need not be
here: `kernel`, `signature` (pointer types such as `*fp32`, `*bf16`; scalars `i32`, `fp32`), `constexprs`,
and optionally `num_warps`, `num_stages`, `maxnreg` (NVIDIA only), `targets` where it is not for all of them, and
`divisible`, the integers that are multiples of 16. Pointers are taken to be aligned to 16 bytes, as torch's are.
For each of the targets (`sm_80`, `sm_90`, `sm_100`, `gfx942`; `sm_120`, `gfx90a` and `gfx950` where `targets` names
them) the build then holds, as its worst over the kernels,
`sm_90.registers`, `sm_90.spill_bytes`, `sm_90.shared_bytes`, `sm_90.resident_blocks` and `sm_90.resident_warps` (on a
multiprocessor at once, by those and the threads of a block), and as a sum `sm_90.instructions`,
`sm_90.tensor_instructions`, `sm_90.async_copies`, `sm_90.global_loads` and `sm_90.spill_instructions`; for AMD's
GPUs what `hip.py` names. A spill or a target that does not compile is a finding. None of it predicts time.

Without a GPU the interpreter runs float32 and float16 only; bfloat16 is refused as `Unsupported`, for the
interpreter's products of bfloat16 tiles are wrong. Where the executor is here, it runs such candidates instead.
"""

import ast
import functools
import importlib.metadata
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import torch

from ..config import Settings
from ..errors import MissingToolError
from ..records import Build, BuildStatus, Candidate, Scalar, TensorSpec
from ._autotuned import untimed
from ._cache import cached_build
from ._entry import source_of
from ._process import Finished, run_tool
from ._protocol import Availability, Kernel
from ._triton_compile import RefusedError, is_for, jitted_source
from .torch import check_python, load_symbol, returning

TARGETS: Final = (
    {"name": "sm_80", "backend": "cuda", "arch": 80, "warp_size": 32},
    {"name": "sm_90", "backend": "cuda", "arch": 90, "warp_size": 32},
    {"name": "sm_100", "backend": "cuda", "arch": 100, "warp_size": 32},
    {"name": "gfx942", "backend": "hip", "arch": "gfx942", "warp_size": 64},
)
"""The GPUs that kernels are compiled for, present or not."""
MORE: Final = (
    {"name": "sm_120", "backend": "cuda", "arch": 120, "warp_size": 32},
    {"name": "gfx90a", "backend": "hip", "arch": "gfx90a", "warp_size": 64},
    {"name": "gfx950", "backend": "hip", "arch": "gfx950", "warp_size": 64},
)
"""GPUs that a build compiles for where the `targets` of a specialisation name them."""

_SUMMED = (
    "instructions", "tensor_instructions", "async_copies", "global_loads", "shared_accesses", "spill_instructions",
    "kernels",
)  # fmt: skip
_FEWEST = ("waves", "resident_blocks", "resident_warps")
_KEYS = {"kernel", "signature", "constexprs", "divisible", "num_warps", "num_stages", "maxnreg", "targets"}


class Triton:
    """Triton candidates."""

    name = "triton"
    gpus: tuple[dict[str, Any], ...] = TARGETS
    """The GPUs that every build compiles for, as Triton's compiler is told of them."""
    more: tuple[dict[str, Any], ...] = MORE
    """Those that a build compiles for on request."""
    evidence = "TRITON_EVIDENCE"
    """The name of the list of specialisations to compile."""
    compiles_when_called = by_triton = True
    """Whether kernels are compiled when they are called, and launched by `kernel[grid](...)`."""

    interprets = True
    """Whether kernels are interpreted where there is no GPU."""

    @property
    def targets(self) -> tuple[str, ...]:
        """What every build compiles for, whatever GPU is here."""
        return tuple(str(gpu["name"]) for gpu in self.gpus)

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report the Triton version and whether kernels run or are interpreted."""
        version = _version()
        if version is None:
            return Availability(False, "no Triton", "pip install 'kernelwright[triton]'")
        if not torch.cuda.is_available():
            return Availability(True, f"triton {version}, interpreted and cross-compiled: no GPU, not timed")
        return Availability(True, f"triton {version} on {torch.cuda.get_device_name()}")

    def toolchain(self) -> str:
        """Name Triton's and torch's versions and the targets."""
        return f"triton {_version()}, torch {torch.__version__}, targets {','.join(self.targets)}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Parse the file, then compile its declared specialisations for every target."""
        status = self.available()
        if not status.ok:
            return status.missing()
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda folder: self.compile(candidate, folder, deadline_s),
        )

    def compile(self, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
        """Compile the declared specialisations; the sources lie in the folder."""
        return _build(candidate, folder, deadline_s, self.evidence, self.gpus, self.more)

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Return the entry; without a GPU, under the interpreter and refusing bfloat16."""
        if _version() is None:
            raise MissingToolError("no Triton; pip install 'kernelwright[triton]'")
        if torch.cuda.is_available():
            return returning(load_symbol(candidate, artefact), candidate, outputs)
        self.start()
        symbol = _refusing_bfloat16(load_symbol(candidate, artefact), candidate.style == "module")
        return returning(symbol, candidate, outputs)

    def start(self) -> None:
        """Have this process run kernels as it will: what is wrapped of Triton before that is not what launches."""
        if self.interprets and not torch.cuda.is_available():
            _interpret()

    def timeable(self, device: str) -> bool:
        """Whether times are meaningful: on a GPU, never in the interpreter."""
        return device.startswith("cuda")


def specialisations(text: str, name: str = Triton.evidence) -> list[dict[str, Any]]:
    """Read a literal list, `TRITON_EVIDENCE`, from a file's text; empty if it declares none.

    Raises:
        RefusedError: it is not a literal list of entries of the documented form.
    """
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == name for t in node.targets):
            try:
                entries = ast.literal_eval(node.value)
            except ValueError as error:
                raise RefusedError(f"{name} must be a literal list of dictionaries") from error
            for entry in entries:
                if not isinstance(entry, dict) or not {"kernel", "signature"} <= entry.keys() <= _KEYS:
                    raise RefusedError(
                        f"{name} entry {entry!r} is not right; expected 'kernel' and 'signature', "
                        f"and of {sorted(_KEYS)} what is wanted"
                    )
            return list(entries)
    return []


def _build(
    candidate: Candidate,
    folder: Path,
    deadline_s: float,
    name: str,
    gpus: tuple[dict[str, Any], ...],
    more: tuple[dict[str, Any], ...],
) -> Build:
    checked = check_python(candidate, flags=())
    if checked.status is not BuildStatus.OK:
        return checked
    text, _ = source_of(candidate)
    try:
        wanted, source = specialisations(text, name), jitted_source(text)
    except RefusedError as error:
        return Build(status=BuildStatus.OK, findings=(f"not cross-compiled: {error}",))
    if not wanted:
        return Build(status=BuildStatus.OK, findings=(f"not cross-compiled: no {name} is declared",))
    gpus = (*gpus, *(gpu for gpu in more if any(gpu["name"] in one.get("targets", ()) for one in wanted)))
    work = folder / ".cross"
    work.mkdir()
    request, results = work / "request.json", work / "results.jsonl"
    request.write_text(json.dumps({"source": source, "specialisations": wanted, "targets": gpus}))
    done = run_tool(
        [sys.executable, "-P", "-m", "kernelwright.languages._triton_compile", request, results],
        deadline_s=deadline_s,
        folder=work,
        env={"TRITON_CACHE_DIR": str(work), "TRITON_DEFAULT_FP_FUSION": "1", "TRITON_INTERPRET": "0"},
        closed=True,
    )
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    shutil.rmtree(work, ignore_errors=True)
    places = [gpu["name"] for gpu in gpus]
    lines.sort(key=lambda line: places.index(line["target"]))
    expected = sum(is_for(gpu, one) for gpu in gpus for one in wanted)
    return _result(lines, expected, done, deadline_s)


def _result(lines: list[dict[str, Any]], expected: int, done: Finished, deadline_s: float) -> Build:
    evidence: dict[str, Scalar] = {}
    findings = []
    for line in lines:
        target, kernel = line["target"], line["kernel"]
        if "error" in line:
            findings.append(f"{kernel} does not compile for {target}: {line['error']}")
            continue
        facts: dict[str, int] = line["facts"]
        for name, value in facts.items():
            known = evidence.get(f"{target}.{name}")
            before = known if isinstance(known, int) else value if name in _FEWEST else 0
            worst = min if name in _FEWEST else max
            evidence[f"{target}.{name}"] = before + value if name in _SUMMED else worst(before, value)
        if facts["spill_bytes"]:
            findings.append(f"{kernel} spills {facts['spill_bytes']} bytes of registers on {target}")
    if done.timed_out:
        findings.append(
            f"cross-compilation was stopped after {deadline_s:g} s with {len(lines)} of {expected} done; "
            "a kernel that spills much compiles slowly"
        )
    elif len(lines) < expected:
        findings.append(f"cross-compilation ended early: {done.output.strip()[-500:]}")
    return Build(status=BuildStatus.OK, evidence=evidence, findings=tuple(findings))


def _version() -> str | None:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return None


def _interpret() -> None:
    """Have Triton imported in interpreter mode; its own library is jitted when it is first imported."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    os.environ["TRITON_INTERPRET"] = "1"
    for name in [n for n in sys.modules if n.split(".")[0] == "triton" and not n.startswith("triton._C")]:
        del sys.modules[name]
    from triton.runtime.autotuner import Autotuner  # anew, in that mode

    Autotuner.run = untimed(Autotuner.run)


def _refusing_bfloat16(symbol: Any, is_module: bool) -> Kernel:
    def refuse(*arguments: Any) -> None:
        if any(isinstance(a, torch.Tensor) and a.dtype is torch.bfloat16 for a in arguments):
            raise NotImplementedError("Unsupported: bfloat16 is wrong in Triton's interpreter; needs a GPU")

    @functools.wraps(symbol, updated=())
    def call(*arguments: Any) -> Any:
        refuse(*arguments)
        return symbol(*arguments)

    @functools.wraps(symbol, updated=())
    def make(*init: Any, **keywords: Any) -> Any:
        module = symbol(*init, **keywords)
        module.register_forward_pre_hook(lambda m, a: refuse(*a, *m.parameters(), *m.buffers()))
        return module

    return make if is_module else call
