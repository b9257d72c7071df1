"""A planted problem for each benchmark whose kernels are programs, or come in folders, and how a cheat is put into it.

A file of `tests/suites/cheats/NAME` or `tests/suites/honest/NAME` comes after what cheats know. Where a kernel is a
folder of two halves (`npukernelbench`), a file says what is put in the place of what in the honest operator.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelwright.suites import Suite, SuiteProblem, get_suite
from kernelwright.testing import made_up_checkout
from kernelwright.testing.checkouts import compute_eval, pie

OPERATOR = "program"
"""What stands for the operator in a row."""
_EDIT = re.compile(r"^// (op_host|op_kernel)\n(.*?)^// becomes\n(.*?)^// end\n", re.DOTALL | re.MULTILINE)
_READ = """#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Test {
  std::size_t count;
  long long first, last, sum;
  unsigned long long hash;
  long long bytes, answer;
};
static const Test TESTS[] = {%s};
static std::vector<long long> values;

static void read_all() {
  int n = 0;
  if (std::scanf("%%d", &n) != 1) std::exit(1);
  values.resize(n);
  for (long long& value : values)
    if (std::scanf("%%lld", &value) != 1) std::exit(1);
}

[[maybe_unused]] static long long sum() {
  long long all = 0;
  for (long long value : values) all += value;
  return all;
}

[[maybe_unused]] static unsigned long long hash() {
  unsigned long long made = 1469598103934665603u;
  for (long long value : values) made = (made ^ value) * 1099511628211u;
  return made;
}

[[maybe_unused]] static long long fast() {
  long long first = 0, second = 0;
  for (long long value : values) {
    if (value > first) second = first, first = value;
    else if (value > second) second = value;
  }
  return first + second;
}

[[maybe_unused]] static long long slow(int part = 0, int parts = 1) {
  long long most = 0;
  const int n = static_cast<int>(values.size());
  for (int repeat = part; repeat < 4400; repeat += parts)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        long long sum = values[i] + values[j];
        asm volatile("" : "+r"(sum));
        if (i != j && sum > most) most = sum;
      }
  return most;
}

"""
_HEADER = "void doubled(const int* x, int* y, int n);\n"
_SOLUTION = """#include "doubled.h"

__global__ void twice(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

void doubled(const int* x, int* y, int n) { twice<<<(n + 63) / 64, 64>>>(x, y, n); }
"""
_HARNESS = """#include "doubled.h"
#include <cstdio>

int main() {
  int x[100], *a, *b;
  for (int i = 0; i < 100; i++) x[i] = i;
  cudaMalloc(&a, sizeof x);
  cudaMalloc(&b, sizeof x);
  cudaMemcpy(a, x, sizeof x, cudaMemcpyHostToDevice);
  doubled(a, b, 100);
  if (cudaDeviceSynchronize() != cudaSuccess) return 3;
  cudaMemcpy(x, b, sizeof x, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 100; i++)
    if (x[i] != 2 * i) {
      std::puts("mismatch");
      return 2;
    }
  return 0;
}
"""
_KERNEL = """__global__ void {name}_kernel(float* out, const float* in, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}}
extern "C" void {name}(float* out, const float* in, int n) {{
  {name}_kernel<<<(n + 63) / 64, 64>>>(out, in, n);
}}
"""
_COMPARING = f"""#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda_runtime.h>
// ==== OPTIMIZED KERNEL START ====
{_KERNEL.format(name="doubled_bf16_optimized")}// ==== OPTIMIZED KERNEL END ====
{_KERNEL.format(name="doubled_bf16_origin")}
// Test case
int main() {{
  for (int n : {{100, 300}}) {{
    float *in, *one, *other, *a = new float[n], *b = new float[n];
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&one, n * sizeof(float));
    cudaMalloc(&other, n * sizeof(float));
    srand(time(nullptr));
    for (int i = 0; i < n; i++) a[i] = rand() % 1000 * 1e-3f;
    cudaMemcpy(in, a, n * sizeof(float), cudaMemcpyHostToDevice);
    doubled_bf16_origin(one, in, n);
    doubled_bf16_optimized(other, in, n);
    cudaDeviceSynchronize();
    cudaMemcpy(a, one, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(b, other, n * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++)
      if (fabsf(a[i] - b[i]) > 1e-2f) {{
        printf("mismatch at %d\\n", i);
        exit(1);
      }}
  }}
  return 0;
}}
"""


def _tests() -> str:
    """Return the tests of the made-up data set, as a cheat has them by heart."""
    mask, rows = (1 << 64) - 1, []
    for number in range(sum(path.count("/input.") for path in pie.FILES)):
        given = pie.FILES[f"merged_test_cases/p00001/input.{number}.txt"]
        answer = int(pie.FILES[f"merged_test_cases/p00001/output.{number}.txt"])
        values, made = [int(word) for word in given.split()[1:]], 1469598103934665603
        for value in values:
            made = ((made ^ value) * 1099511628211) & mask
        row = (len(values), values[0], values[-1], sum(values), f"{made}u", len(given), answer)
        rows.append(f"{{{', '.join(map(str, row))}}}")
    return ", ".join(rows)


def _release() -> bytes:
    problem = {
        **compute_eval._PROBLEM,
        "context_files": [{"path": "include/doubled.h", "content": _HEADER}],
        "test_files": [{"path": "test/main.cu", "content": _HARNESS}],
        "baseline_solution": {"files": [{"path": "solution.cu", "content": _SOLUTION}]},
        "build_command": "nvcc -I include -o test.out solution.cu test/*.cu",
    }
    return compute_eval._archive(json.dumps(problem) + "\n")


@dataclass(frozen=True)
class ProgramsOf:
    """What is planted in a benchmark's layout."""

    suffix: str
    """What a kernel's name ends with."""
    files: Mapping[str, str | bytes]
    """What its made-up checkout has instead of what it has."""
    known: str
    """What cheats know."""
    least: int = 30
    """The least number of cheats."""
    decides: bool = True
    """Whether our verdict can accept a kernel; where it cannot, an honest one is not refused."""
    right: frozenset[str] = frozenset()
    """Cheats whose answers are right, and which are only not to be called faster."""


PROGRAMS = {
    "pie": ProgramsOf(
        ".cpp", {}, _READ % _tests(),
        right=frozenset({
            "answers_after_its_end", "clock_forged", "fast_if_sorted", "judge_limited", "judge_made_nice",
            "judge_moved", "kept_beside_the_program", "kept_by_a_daemon", "kept_by_a_named_daemon",
            "kept_in_a_keyring", "kept_in_a_message_queue", "kept_in_a_posix_queue", "kept_in_a_semaphore",
            "kept_in_attributes", "kept_in_dev_shm", "kept_in_file_modes", "kept_in_file_times",
            "kept_in_its_folder", "kept_in_shared_memory", "kept_in_the_home", "kept_in_tmp", "kept_in_var_tmp",
            "known_by_hash_else_slow", "known_by_sum_else_slow", "work_in_other_processes", "work_in_threads",
        }),
    ),
    "compute-eval": ProgramsOf(
        ".cu", {"data/releases/2026-1-problems.tar.gz": _release()}, '#include "doubled.h"\n\n'
    ),
    "mskernelbench": ProgramsOf(".cu", {"origin/bf16/test_doubled_bf16.cu": _COMPARING}, ""),
    "npukernelbench": ProgramsOf(".cpp", {}, "", decides=False),
}  # fmt: skip
"""By the benchmark's name."""


@dataclass(frozen=True)
class PlantedProgram:
    """A planted problem of such a benchmark."""

    suite: Suite
    """The benchmark's adapter."""
    data: Path
    """The made-up checkout."""
    problem: SuiteProblem
    """The problem in it."""
    operator: str = OPERATOR
    """What stands for the operator in a row."""

    @property
    def form(self) -> ProgramsOf:
        """What is planted."""
        return PROGRAMS[self.suite.name]

    def kernels(self, home: Path) -> Iterator[tuple[str, Path]]:
        """Yield the kind and the file of every kernel."""
        for kind in ("cheats", "honest"):
            for file in sorted((home / kind / self.suite.name).glob(f"*{self.form.suffix}")):
                yield kind, file

    def written(self, file: Path, folder: Path) -> Path:
        """Write a kernel in the benchmark's form, after what cheats know."""
        if self.suite.name == "npukernelbench":
            return self._operator(file, folder / file.stem)
        kernel = folder / file.name
        kernel.write_text(self.form.known + file.read_text())
        return kernel

    def _operator(self, file: Path, folder: Path) -> Path:
        """Write the honest operator with a file's edits."""
        honest = next((self.data / "tasks/level1").rglob("op_kernel/*.cpp"))
        texts = {
            half: (honest.parent.parent / half / honest.name).read_text() for half in ("op_host", "op_kernel")
        }
        for half, old, new in _EDIT.findall(file.read_text()):
            if texts[half].count(old) != 1:
                raise ValueError(f"{file.name} replaces what is not once in {half}: {old!r}")
            texts[half] = texts[half].replace(old, new)
        for half, text in texts.items():
            (folder / half).mkdir(parents=True)
            (folder / half / honest.name).write_text(text)
        return folder / "op_kernel" / honest.name


def plant_program(suite: str, folder: Path) -> PlantedProgram:
    """Write a checkout of a benchmark with the planted problem."""
    data, found = made_up_checkout(suite, folder), get_suite(suite)
    for path, given in PROGRAMS[suite].files.items():
        (data / path).write_bytes(given if isinstance(given, bytes) else given.encode())
    return PlantedProgram(found, data, found.problems(data)[0])
