"""What an evaluation costs: the C++ softmax template here and through torch's `load_inline`, side by side.

    python -m benchmarks.evaluations [--ours 12] [--theirs 3]

Both evaluate configurations of the same template: build, verify against float64 on the same number of
workloads, time against eager, store. Ours is the exploration of one `optimize` with an empty store and an empty
build cache, from the first proposal, the start of its workers included, until all are stored; profile, peaks and the
acceptance of the finalists are not part of it. Theirs is one fresh Python process a configuration. Target: at least
five times as many a minute. Ours are also printed by stage, in seconds an evaluation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import kernelwright as kw
from kernelwright.search import Event

TARGET = str(Path(__file__).parent / "tasks" / "softmax.py") + ":softmax"

BINDING = r"""
#include <torch/extension.h>
torch::Tensor launch_kernel(torch::Tensor x) {
  auto out = torch::empty_like(x);
  auto view = [](torch::Tensor& t) {
    return DLTensor{t.data_ptr(), {kDLCPU, 0}, int32_t(t.dim()), {kDLFloat, 32, 1},
                    const_cast<int64_t*>(t.sizes().data()), const_cast<int64_t*>(t.strides().data()), 0};
  };
  DLTensor a = view(x), b = view(out);
  TVMFFIAny values[2] = {}, result = {};
  values[0].type_index = values[1].type_index = kTVMFFIDLTensorPtr;
  values[0].v_ptr = &a;
  values[1].v_ptr = &b;
  TORCH_CHECK(__tvm_ffi_SYMBOL(nullptr, values, 2, &result) == 0, "the kernel raised");
  return out;
}
"""

ONE_PROCESS = r"""
import json, statistics, sys, time
import torch
from torch.utils.cpp_extension import load_inline
order = json.load(sys.stdin)
module = load_inline("candidate", order["text"], functions=["launch_kernel"], extra_cflags=order["flags"],
                     extra_include_paths=order["include"], extra_ldflags=order["link"], build_directory=order["folder"])
shapes = [tuple(s) for s in order["shapes"]]
for shape in shapes:
    x = torch.randn(shape)
    want = torch.softmax(x.double(), -1)
    assert (module.launch_kernel(x).double() - want).abs().max() < 1e-5
def timed(function, x):
    started = time.perf_counter(); function(x); return time.perf_counter() - started
ratios = []
for shape in shapes[:2]:
    for _ in range(8):
        x = torch.randn(shape)
        ratios.append(timed(lambda x: torch.softmax(x, -1), x) / timed(module.launch_kernel, x))
json.dump({"ratio": statistics.median(ratios)}, open(order["folder"] + "/result.json", "w"))
"""


@dataclass(frozen=True)
class Exploration:
    """What one exploration came to."""

    evaluations: int
    seconds: float
    stages_s: dict[str, float]
    """Seconds by stage; concurrent builds count each."""

    @property
    def a_minute(self) -> float:
        """Evaluations a minute."""
        return self.evaluations / self.seconds * 60


def ours(count: int) -> Exploration:
    """Explore once and return what it took, from the first proposal until all evaluations are stored."""
    events: dict[str, Event] = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["KERNELWRIGHT_CACHE"] = scratch
        kw.optimize(
            TARGET,
            budget=kw.Budget(evaluations=count),
            languages=("cpp",),
            proposers=("library",),
            baselines=("eager",),
            store=scratch,
            on_event=lambda event: events.update({event.event: event}),
        )
        del os.environ["KERNELWRIGHT_CACHE"]
    begun, explored = events["hints"], events["explored"]
    stages = explored.data["stages_s"]
    return Exploration(
        evaluations=int(str(explored.data["evaluations"])),
        seconds=explored.elapsed_s - begun.elapsed_s,
        stages_s={k: float(str(v)) for k, v in stages.items()} if isinstance(stages, dict) else {},
    )


def theirs(count: int) -> float:
    """Return evaluations a minute of one fresh process each."""
    from kernelwright.languages.cpp import BASE_FLAGS, ffi_includes
    from kernelwright.ops import match_all
    from kernelwright.records import Split, TensorSpec
    from kernelwright.tasks import Problem, load_task
    from kernelwright.tasks.capture import capture

    task = load_task(TARGET)
    workload = task.split(Split.SEARCH)[0]
    template = next(t for t in match_all(capture(Problem(task), workload), workload) if t.language == "cpp")
    specs = [w.arguments[0] for w in task.split(Split.SEARCH)]
    shapes = [list(spec.shape) for spec in specs if isinstance(spec, TensorSpec)]
    configurations = list(template.space.configurations())[:count]
    started = time.monotonic()
    for configuration in configurations:
        candidate = template.render(configuration)
        with tempfile.TemporaryDirectory() as folder:
            for source in candidate.sources:
                (Path(folder) / source.path).write_text(source.text)
            symbol = candidate.entry.partition(":")[2]
            kernel = next(s.text for s in candidate.sources if s.path == "kernel.cpp")
            order = {
                "text": kernel + BINDING.replace("SYMBOL", symbol),
                "flags": [*(f for f in BASE_FLAGS if f != "-std=c++17"), *candidate.flags, "-fopenmp"],
                "include": [folder, *(i.removeprefix("-isystem") for i in ffi_includes())],
                "link": [
                    "-L" + str(_ffi_library().parent),
                    "-ltvm_ffi",
                    "-Wl,-rpath," + str(_ffi_library().parent),
                ],
                "shapes": [*shapes, [7, 33], [1, 1000]],
                "folder": folder,
            }
            done = subprocess.run(
                [sys.executable, "-c", ONE_PROCESS],
                input=json.dumps(order),
                text=True,
                capture_output=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(done.stderr)
    return len(configurations) / (time.monotonic() - started) * 60


def _ffi_library() -> Path:
    from tvm_ffi import libinfo

    return Path(libinfo.find_libtvm_ffi())


def main() -> None:
    """Print both rates and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ours", type=int, default=12)
    parser.add_argument("--theirs", type=int, default=3)
    options = parser.parse_args()
    theirs_rate = theirs(options.theirs)
    found = ours(options.ours)
    print(f"load_inline, a fresh process each: {theirs_rate:6.1f} evaluations a minute ({options.theirs})")
    print(
        f"kernelwright:                      {found.a_minute:6.1f} evaluations a minute ({found.evaluations})"
    )
    each = ", ".join(f"{stage} {s / found.evaluations:.2f}" for stage, s in found.stages_s.items())
    print(f"  seconds an evaluation: {found.seconds / found.evaluations:.2f} in all; {each}")
    print(f"ratio: {found.a_minute / theirs_rate:.1f} (target 5)")


if __name__ == "__main__":
    main()
