"""What an evaluation costs: the C++ softmax template here and through torch's `load_inline`, side by side.

    python -m benchmarks.evaluations [--ours 12] [--theirs 3]

Both evaluate configurations of the same template: build, verify against float64 on the same number of
workloads, time against eager, store. Ours is one `optimize` with an empty store and an empty build cache;
theirs is one fresh Python process a configuration. Target: at least five times as many a minute.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kernelwright as kw

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


def ours(count: int) -> float:
    """Return evaluations a minute of one whole `optimize`, start included."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["KERNELWRIGHT_CACHE"] = scratch
        budget = kw.Budget(evaluations=count)
        started = time.monotonic()
        result = kw.optimize(
            TARGET,
            budget=budget,
            languages=("cpp",),
            proposers=("library",),
            baselines=("eager",),
            store=scratch,
        )
        del os.environ["KERNELWRIGHT_CACHE"]
        return result.evaluations / (time.monotonic() - started) * 60


def theirs(count: int) -> float:
    """Return evaluations a minute of one fresh process each."""
    from kernelwright.kernels import match_all
    from kernelwright.languages.cpp import BASE_FLAGS, ffi_includes
    from kernelwright.records import Split
    from kernelwright.tasks import Problem, load_task
    from kernelwright.tasks.capture import capture

    task = load_task(TARGET)
    workload = task.split(Split.SEARCH)[0]
    template = next(t for t in match_all(capture(Problem(task), workload), workload) if t.language == "cpp")
    shapes = [list(w.arguments[0].shape) for w in task.split(Split.SEARCH)]  # type: ignore[union-attr]
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
    ours_rate = ours(options.ours)
    print(
        f"load_inline, a fresh process each: {theirs_rate:6.1f} evaluations a minute ({options.theirs} evaluated)"
    )
    print(
        f"kernelwright:                      {ours_rate:6.1f} evaluations a minute ({options.ours} evaluated)"
    )
    print(f"ratio: {ours_rate / theirs_rate:.1f} (target 5)")


if __name__ == "__main__":
    main()
