"""GPU MODE's reference-kernels: a folder with `task.yml`, `reference.py` and `submission.py` for each problem.

Source: gpu-mode/reference-kernels, README.md and problems/*/eval.py.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import MissingToolError, TaskError
from ..records import Candidate, Split, Task
from . import _two_entries
from ._aiter import defined
from ._modules import LIMIT_S, by_name, needs_gpu
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._structure import FLAT, PROBLEM, STRUCTURE, calling
from ._submission import Submission, submission_of

_FOLDER, _MANIFEST = "problems", "task.yml"
_SUBMISSION, _EVALUATOR = "@SUBMISSION@", "eval.py"
_ACCELERATOR = re.compile(r"""(['"])cuda(?::\d+)?\1|\.cuda\(\)""")
_GENERATOR = re.compile(r"""(?<=Generator\()(?:device=)?(['"])cuda(?::\d+)?\1(?=\))""")
_IMPORT = re.compile(r"^(?=import |from (?!__future__))", re.MULTILINE)
_SCALED = re.compile(r"torch\._scaled_mm\(")
_COUNTS = re.compile(r"(\w+)\.bincount\(\)")
_NAMED = re.compile(r"^(\w+) = kw_place\.device$", re.MULTILINE)
"""A constant that names the accelerator: what is made there later is made where it is asked for then."""
_IN_VALUES = re.compile(r"= seed [+*]")
"""Where a reference counts its seed among its values, as means that a sort's rows are drawn around."""
_BITS, _FEW_BITS = 31, 16
"""Of a seed. Values around 2^31 have no room for what is drawn around them: float32 makes them equal, and a sort's
input sorted. The public seeds of such a problem have 10 to 17."""
_PLACE = "kw_place.py"
_PLACED = '''
import torch

device = "cpu"
_HALVES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def scaled_mm(a, b, scale_a, scale_b, bias=None, out_dtype=None):
    """Return torch._scaled_mm; for 4-bit floats without a GPU, which torch lacks, the product that it is defined by."""
    if a.dtype is not getattr(torch, "float4_e2m1fn_x2", None) or a.is_cuda:
        return torch._scaled_mm(a, b, scale_a, scale_b, bias=bias, out_dtype=out_dtype)
    found = kw_scaled(a, scale_a) @ kw_scaled(b.t(), scale_b).t()
    return (found if bias is None else found + bias).to(out_dtype)


def bincount(values):
    """Return torch.bincount; where shapes alone are computed, one count of 0, whose part a reference leaves out."""
    return torch.zeros(1, dtype=torch.int64, device="cpu") if values.is_meta else values.bincount()


def kw_scaled(packed, scales):
    """Return rows of 4-bit floats, the lower half of a byte first, times the scale of each 16.

    Source: cuBLAS documentation, "1D Block Scaling Factors Layout": tiles of 128 rows and 4 scales, row r of a tile at
    16 (r % 32) + 4 (r // 32).
    """
    halves = torch.tensor(_HALVES + [-v for v in _HALVES], device=packed.device)
    both = packed.view(torch.uint8).long()
    values = halves[torch.stack((both & 15, both >> 4), -1).flatten(1)]
    rows, columns = values.shape[0], values.shape[1] // 16
    tiles = scales.float().reshape(-(-rows // 128), -(-columns // 4), 32, 4, 4)
    whole = tiles.permute(0, 3, 2, 1, 4).reshape(-(-rows // 128) * 128, -(-columns // 4) * 4)
    return values * whole[:rows, :columns].repeat_interleave(16, 1)
'''
_MODEL = """
import kw_place
from reference import generate_input, ref_kernel

CONSTANTS

kw_known = []


def kw_seed():
    return random.getrandbits(BITS)


def kw_made(seed, sizes):
    return generate_input(**(ARGUMENTS | sizes)SEED)


def kw_drawn(seed, **sizes):
    kw_place.device = str(torch.get_default_device())
    try:
        return kw_made(seed, sizes)
    except (NotImplementedError, RuntimeError):
        if kw_place.device != "meta":
            raise
    kw_place.device = "cpu"  # what looks at values while it draws has to have some
    with torch.device("cpu"):
        made = kw_made(seed, sizes)
    kw_place.device = "meta"
    return kw_filled(made, (t.to("meta") for t in kw_flat(made)))


def kw_data(tensors):
    if not kw_known:
        like = kw_drawn(0, **SMALL)
        kw_known.append(kw_drawn(0) if kw_fixed(like) else like)
    return kw_served(kw_known[0], tensors)


class Model(torch.nn.Module):
    def forward(self, *tensors):
        data = kw_data(tensors)
        if kw_place.device != tensors[0].device.type:
            kw_place.device = tensors[0].device.type
        return ref_kernel(data)


def get_inputs():
    return kw_flat(kw_drawn(kw_seed()))
"""
_FORM = f"""{FLAT}

def custom_kernel(data):
    return found_kernel(kw_flat(data), {{}})
"""


class ReferenceKernels:
    """The adapter of reference-kernels."""

    name = "reference-kernels"
    title = "reference-kernels: the problems of GPU MODE's competitions"
    repository = "gpu-mode/reference-kernels"
    commit = "f83cb92a534cc67fa98d7e9813e7f8238abdb4e0"
    layout = (f"{_FOLDER}/pmpp_v2", f"{_FOLDER}/linalg", f"{_FOLDER}/amd")
    rules = Rules(
        correctness="the problem's own `check_implementation` on every test, then on fresh data in every ranked call; "
        "public seeds of tests are combined with a secret one",
        timing="mean of at most 100 calls on fresh data, until its error is below 0.1 % or time is up",
        score="geometric mean of the benchmarks' times",
        trials=1, tolerance=0.0, timed=100, seed=0,
        here="the host's clock takes the place of CUDA events, no cache is flushed, of the benchmarks the first is "
        "timed, and tests run in one process",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the folders with a `task.yml`, by competition."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f.parent.relative_to(data / _FOLDER).as_posix(),
                group=f.relative_to(data / _FOLDER).parts[0], file=f.relative_to(data).as_posix(),
            )
            for f in sorted((data / _FOLDER).rglob(_MANIFEST))
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the problem's files, on the CPU, and a module around its reference at the first benchmark's sizes."""
        manifest = _manifest(data, problem)
        if manifest.get("multi_gpu"):
            raise TaskError(
                f"{problem.name} is one program on several GPUs at once (`multi_gpu`); a task is on one"
            )
        texts = _texts(data, problem, manifest)
        evaluator = _evaluator(data, problem, manifest)
        two = _two_entries.has_two(texts.get("reference.py", ""))
        if two:
            texts["reference.py"] = _two_entries.as_one(texts["reference.py"], evaluator)
        if "def ref_kernel" not in texts.get("reference.py", ""):
            raise TaskError(f"the reference of {problem.name} has no `ref_kernel`")
        for name, text in texts.items():
            (folder / name).write_text(text)
        path = folder / PROBLEM
        tests, benchmarks = (
            _specs(manifest, kind, evaluator if two else "") for kind in ("tests", "benchmarks")
        )
        if not benchmarks or not tests:
            raise TaskError(f"{problem.name} lists no tests or no benchmarks")
        spec = {k: v for k, v in benchmarks[0].items() if k != "seed"}
        sizes = {k: size for k, v in spec.items() if (size := _size(v)) is not None}
        filled = {
            "CONSTANTS": "".join(f"{k} = {v}\n" for k, v in sizes.items()),
            "ARGUMENTS": "{" + ", ".join(f"{k!r}: {_said(k, v)}" for k, v in spec.items()) + "}",
            "SMALL": repr({k: v for k, v in tests[0].items() if k != "seed"}),
            "BITS": str(_FEW_BITS if _IN_VALUES.search(texts["reference.py"]) else _BITS),
            "SEED": ", seed=seed" if "seed" in benchmarks[0] else "",
        }  # fmt: skip
        text = STRUCTURE + _MODEL
        for mark, value in filled.items():
            text = text.replace(mark, value)
        path.write_text(text)
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems, and `submission.py` in folders named so."""
        found = by_name(folder, problems)
        for problem in problems:
            file = folder / problem.name / "submission.py"
            if file.is_file():
                found[problem.name] = file
        return found

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return a candidate that calls `custom_kernel` on the data as the benchmark passes it."""
        return calling(task, file, *_two_entries.entries_of(_reference(task)))

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a `custom_kernel` that calls the kernel; where two entries are asked for, a kernel has no form."""
        two = "," in _two_entries.entries_of(_reference(task))[0]
        return None if two else submission_of(task, candidate, _FORM)

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its tests and the first benchmark at the task's sizes; None if the kernel can only run on a GPU."""
        if needs_gpu(candidate):
            return None
        manifest, workload = _manifest(data, problem), task.split(Split.SEARCH)[0]
        names, call = _two_entries.entries_of(_reference(task))
        evaluator = _evaluator(data, problem, manifest) if "," in names else ""
        benchmark = _specs(manifest, "benchmarks", evaluator)[0]
        benchmark |= {k: _resized(v, workload.axes[k]) for k, v in benchmark.items() if k in workload.axes}
        files = [
            {"name": f.path.removesuffix(".py"), "text": f.text}
            for f in task.reference.files
            if f.path != PROBLEM
        ]
        given = {
            "files": files, "tests": _specs(manifest, "tests", evaluator), "benchmark": benchmark,
            "submission": f"{candidate}\n\ndef custom_kernel(data):\n    return {call}\n" if evaluator else candidate,
            "secret": secrets.randbelow(2**31), "timed": self.rules.timed,
        }  # fmt: skip
        return Script("reference_kernels", given, float(manifest.get("ranked_timeout") or LIMIT_S))

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: its screening is a service of its own."""
        del candidate
        return ()


def _size(value: object) -> int | None:
    """Return what a benchmark's entry says of a size: its number, or the one that fills its list; None if neither."""
    numbers = set(value) if isinstance(value, list) else {value}
    only = numbers.pop() if len(numbers) == 1 else None
    return only if type(only) is int else None


def _resized(value: object, size: int) -> object:
    return [size] * len(value) if isinstance(value, list) else size


def _said(name: str, value: object) -> str:
    """Return an entry as an expression of the constant that has its size."""
    if _size(value) is None:
        return repr(value)
    return f"[{name}] * {len(value)}" if isinstance(value, list) else name


def _manifest(data: Path, problem: SuiteProblem) -> dict[str, Any]:
    try:
        import yaml  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise MissingToolError(
            "task.yml is read with the package PyYAML; `pip install 'kernelwright[suites]'`"
        ) from None
    found = yaml.safe_load((data / problem.file).read_text())
    if not isinstance(found, dict):
        raise TaskError(f"{problem.file} is no task.yml: expected a mapping")
    return found


def _texts(data: Path, problem: SuiteProblem, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the problem's Python files but submission and evaluator, without the accelerators that they name."""
    home, texts = (data / problem.file).parent, {_PLACE: _PLACED}
    for entry in manifest.get("files") or ():
        name, source = str(entry["name"]), str(entry["source"])
        if source == _SUBMISSION or name == _EVALUATOR or not name.endswith(".py"):
            continue
        file = home / source
        if not file.is_file():
            raise TaskError(f"{problem.name} names {source!r}, which is not in this checkout")
        texts[name] = placed(file.read_text())
    return defined(texts)


def placed(text: str) -> str:
    """Return a file that works where `kw_place.device` says instead of on a GPU; its generators are the CPU's.

    Example:
        >>> print(placed("import torch\\ng = torch.Generator(device='cuda')\\nx = torch.ones(2, device='cuda').cuda()"))
        import kw_place
        import torch
        g = torch.Generator('cpu')
        x = torch.ones(2, device=kw_place.device).to(kw_place.device)
    """
    text, count = _ACCELERATOR.subn(
        lambda m: ".to(kw_place.device)" if m[1] is None else "kw_place.device", _GENERATOR.sub("'cpu'", text)
    )
    for named in _NAMED.findall(text):
        text = re.sub(rf"\b{named}\b(?! = )", "kw_place.device", text)
    for called, instead in ((_SCALED, "kw_place.scaled_mm("), (_COUNTS, r"kw_place.bincount(\1)")):
        text, products = called.subn(instead, text)
        count += products
    return _IMPORT.sub("import kw_place\n", text, count=1) if count else text


def _specs(manifest: Mapping[str, Any], kind: str, evaluator: str = "") -> list[dict[str, Any]]:
    """Return the entries of tests or benchmarks; with what an evaluator of the problem's own has besides."""
    specs = [dict(spec) for spec in manifest.get(kind) or () if isinstance(spec, Mapping)]
    return [_two_entries.complete(spec, evaluator) for spec in specs] if evaluator else specs


def _evaluator(data: Path, problem: SuiteProblem, manifest: Mapping[str, Any]) -> str:
    entries = [e for e in manifest.get("files") or () if str(e["name"]) == _EVALUATOR]
    file = (data / problem.file).parent / str(entries[0]["source"]) if entries else None
    return file.read_text() if file is not None and file.is_file() else ""


def _reference(task: Task) -> str:
    return next((f.text for f in task.reference.files if f.path == "reference.py"), "")
