"""An accepted model used in every way there is, each in a fresh process: whether the kernel answered, and how right.

    python -m benchmarks.ways [RUN] [--store DIR] [--out rows.jsonl]

RUN is one in which a whole model was accepted, by default the last. Packages are used by processes that have torch and
not Kernelwright. A row for each way: whether the kernel answered (with a native model that would raise), the largest
error against float64 in units of the native model's own, and the least microseconds of a call and of eager torch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright.cli import main as program
from kernelwright.deploy import JUDGED, Judged
from kernelwright.models import model_result

_HEAD = """
import json, sys, time, torch
from pathlib import Path
torch.set_num_threads(1)
torch.manual_seed(0)

def least_us(call, *given):
    took = []
    for _ in range(30):
        begun = time.thread_time()
        call(*given)
        took.append(time.thread_time() - begun)
    return round(min(took) * 1e6, 1)

def tensors_of(result):
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]

def row(way, call, *given, served=True):
    call(*given)
    call(*given)
    off = max(float((a.double() - b).abs().max()) for a, b in zip(tensors_of(call(*given)), truth))
    told = dict(way=way, kernel=served, error=round(off / own, 2), us=least_us(call, *given), eager_us=eager_us)
    print(json.dumps(told), flush=True)
"""
_PACKAGE = """
sys.modules["kernelwright"] = None
import NAME as package
model = package.Module().requires_grad_(False)
cases = json.loads(Path("cases.json").read_text())[0]["arguments"][:package.native.__globals__["COUNT"]]
x = [torch.randint(int(c["distribution"]["low"]), int(c["distribution"]["high"]), c["shape"]) if c["dtype"] == "int64"
     else torch.randn(c["shape"]) for c in cases]
torch.save((x, model.state_dict()), "case.pt")
state = model.ordered_state()
plain = lambda *given: package.native(*given, *state)
eager, truth = tensors_of(plain(*x)), tensors_of(
    package.native(*(t.double() if t.is_floating_point() else t for t in x), *(
        w.double() if w.is_floating_point() else w for w in state)))
own = max(float((a.double() - b).abs().max()) for a, b in zip(eager, truth))
eager_us = least_us(plain, *x)

def none(*_):
    raise AssertionError("the native model was called")

def alone():
    package.dispatcher(*x, *state)
    package.dispatcher.native = none
"""
_WAYS = {
    "a call of the package": _PACKAGE + "alone()\nrow(WAY, model, *x)\n",
    "torch.func.functional_call": _PACKAGE + """
alone()
given = dict(model.named_parameters()) | dict(model.named_buffers())
row(WAY, lambda *x: torch.func.functional_call(model, given, x), *x)
""",
    "torch.compile": _PACKAGE + "alone()\nrow(WAY, torch.compile(model, fullgraph=True), *x)\n",
    "torch.export": _PACKAGE + """
program = torch.export.export(model, tuple(x))
torch.export.save(program, "program.pt2")
alone()
row(WAY, program.module(), *x)
""",
    "torch.export, loaded in another process": _PACKAGE + """
program = torch.export.load("program.pt2").module()
program.load_state_dict(torch.load("case.pt")[1])
model.load_state_dict(torch.load("case.pt")[1])
alone()
row(WAY, program, *x)
""",
    "AOTInductor": _PACKAGE + """
torch._inductor.aoti_compile_and_package(torch.export.export(model, tuple(x)), package_path="ahead.pt2")
alone()
row(WAY, torch._inductor.aoti_load_package("ahead.pt2"), *x)
""",
    "torch.func.vmap": _PACKAGE + """
batch = [t[None] for t in x]
row(WAY, lambda *b: [t[0] for t in tensors_of(torch.vmap(model)(*b))], *batch, served=False)
""",
    "gradients": _PACKAGE + """
model.requires_grad_()
row(WAY, lambda *x: [t.detach() for t in tensors_of(model(*x))], *x, served=False)
""",
    "kernels.get_local_kernel": """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
from kernels import get_local_kernel
sys.modules["NAME"] = get_local_kernel(Path("../hub"))
""" + _PACKAGE + "alone()\nrow(WAY, model, *x)\n",
}  # fmt: skip
"""Ways that need no Kernelwright, each with the program of its process."""


def main(argv: Sequence[str] | None = None) -> int:
    """Use the model in every way, and print and keep a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("run", nargs="?", default="last")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    run, failed = model_result(asked.run, asked.store).run, 0
    store = ["--store", str(asked.store)] if asked.store else []
    with tempfile.TemporaryDirectory() as made:
        home, hub = Path(made) / "package", Path(made) / "hub"
        program(["export", run, "--to", str(home), *store])
        program(["export", run, "--to", str(hub), "--format", "kernels", *store])
        task = Judged.from_json((home / JUDGED).read_text()).task.name
        for way, code in _WAYS.items():
            text = (_HEAD + code).replace("WAY", repr(way)).replace("NAME", task)
            done = subprocess.run(
                [sys.executable, "-c", text], cwd=home, capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": str(home)},
            )  # fmt: skip
            failed += done.returncode != 0
            said = done.stdout.strip() or json.dumps(
                {"way": way, "failed": done.stderr.strip().splitlines()[-1]}
            )
            print(said, flush=True)
            if asked.out is not None:
                with asked.out.open("a") as file:
                    file.write(f"{json.dumps({'model': task, **json.loads(said)})}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
