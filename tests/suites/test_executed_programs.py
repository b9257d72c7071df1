"""Whole CUDA programs where there is no GPU: their launches are executed, and what is at fault ends them."""

import json
from dataclasses import replace

import pytest

from kernelwright.suites import diagnose, get_suite, judge_both, setup, standing_of
from kernelwright.testing import made_up_checkout
from kernelwright.testing.checkouts import compute_eval

pytestmark = [pytest.mark.long, pytest.mark.needs("nvcc"), pytest.mark.needs("no GPU")]
HEADER = "void doubled(const int* x, int* y, int n);\n"
SOLUTION = """#include "doubled.h"

__global__ void kernel(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}

void doubled(const int* x, int* y, int n) { kernel<<<(n + 63) / 64, 64>>>(x, y, n); }
"""
HARNESS = """#include "doubled.h"
#include <cstdio>

int main(int count, char** words) {
    int x[100], *a, *b;
    for (int i = 0; i < 100; i++) x[i] = i;
    cudaMalloc(&a, sizeof x);
    cudaMalloc(&b, sizeof x);
    cudaMemcpy(a, x, sizeof x, cudaMemcpyHostToDevice);
    doubled(a, b, 100);
    if (cudaDeviceSynchronize() != cudaSuccess) return 3;
    cudaMemcpy(x, b, sizeof x, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 100; i++) if (x[i] != 2 * i) { std::puts("mismatch"); return count; }
    return 0;
}
"""


BY_ADDRESS = """int length = 100;
    void* all[] = {&a, &b, &length};
    cudaLaunchKernel((void*)kernel, dim3(2), dim3(64), all, 0, nullptr);"""
DECLARED = "__global__ void kernel(const int* x, int* y, int n);\n"


@pytest.fixture
def checkout(tmp_path):
    return written(tmp_path, HARNESS)


def written(tmp_path, harness):
    problem = {
        **compute_eval._PROBLEM,
        "context_files": [{"path": "include/doubled.h", "content": HEADER}],
        "test_files": [{"path": "test/main.cu", "content": harness}],
        "baseline_solution": {"files": [{"path": "solution.cu", "content": SOLUTION}]},
        "build_command": "nvcc -I include -o test.out solution.cu test/*.cu",
        "test_command": "./test.out --perf",
    }
    data = made_up_checkout("compute-eval", tmp_path / "data")
    (data / "data/releases/2026-1-problems.tar.gz").write_bytes(
        compute_eval._archive(json.dumps(problem) + "\n")
    )
    return data


def judged(data, text):
    suite = get_suite("compute-eval")
    (problem,) = suite.problems(data)
    file = data / f"{problem.name}.cu"
    file.write_text(text)
    with setup(suite, data, device="cpu") as given:
        return judge_both(given, problem, file)


def test_a_right_program_is_correct_by_their_rules_and_right_by_ours_and_not_timed(checkout):
    suite = get_suite("compute-eval")
    row = judged(checkout, SOLUTION)
    assert (row.theirs.status, row.theirs.passed, row.theirs.time_us) == ("correct", 1, None)
    assert (standing_of(row), row.ours.verdict) == ("right", "accepted"), row.ours.reason
    with setup(suite, checkout, device="cpu") as given:
        (found,) = diagnose(given, suite.problems(checkout), admits=False)
    assert found.loads, found.reason


def test_a_kernel_that_is_launched_by_its_address_is_judged_by_its_launches_too(tmp_path):
    data = written(tmp_path, DECLARED + HARNESS.replace("doubled(a, b, 100);", BY_ADDRESS))
    row = judged(data, SOLUTION)
    assert (standing_of(row), row.ours.verdict) == ("right", "accepted"), row.ours.reason


@pytest.mark.parametrize(("change", "said"), [
    (("2 * x[i]", "3 * x[i]"), "exit code 2: mismatch"),
    (("if (i < n) ", ""), "stopped where it is executed: out-of-bounds"),
])  # fmt: skip
def test_a_wrong_program_and_one_at_fault_are_refused(checkout, change, said):
    row = judged(checkout, SOLUTION.replace(*change))
    assert (row.theirs.status, row.ours.verdict) == ("wrong", "rejected")
    assert said in row.ours.reason


@pytest.mark.parametrize(("body", "verdict", "said"), [
    ("if (n == 100) kernel<<<2, 64>>>(x, y, 100);", "rejected", "at none of the sizes 48, 24"),
    ("int kept[100]; cudaMemcpy(kept, x, 4 * n, cudaMemcpyDeviceToHost); for (int& one : kept) one *= 2; "
     "cudaMemcpy(y, kept, 4 * n, cudaMemcpyHostToDevice);", "rejected", "were copied from the host"),
    ("for (int i = 0; i < n; i++) y[i] = 2 * x[i];", "unknown", "its host half computes"),
    ("kernel<<<2, 64>>>(x, y, n); cudaMemset((void*)x, 1, 4);", "rejected", "given to read alone"),
])  # fmt: skip
def test_what_is_right_for_its_harness_alone_or_on_the_host_is_not_taken_for_right(
    checkout, body, verdict, said
):
    changed = SOLUTION.replace("{ kernel<<<(n + 63) / 64, 64>>>(x, y, n); }", f"{{ {body} }}")
    row = judged(checkout, changed)
    assert (row.theirs.status, row.ours.verdict) == ("correct", verdict)
    assert said in row.ours.reason


@pytest.mark.parametrize("ends", [
    "struct Ends { Ends() { _exit(0); } } ends;",
    "struct Ends { ~Ends() { _exit(0); } } ends;",
], ids=["before main", "after main"])  # fmt: skip
def test_a_wrong_program_that_ends_well_by_itself_is_refused(checkout, ends):
    row = judged(checkout, f"#include <unistd.h>\n{ends}\n{SOLUTION.replace('2 * x[i]', '3 * x[i]')}")
    assert (row.theirs.status, row.ours.failed) == ("correct", ("harness",))


def test_where_the_benchmarks_own_program_ends_itself_nothing_follows(checkout, monkeypatch):
    ends, kept = SOLUTION.replace("{ kernel<<<", "{ exit(0); kernel<<<"), get_suite("compute-eval").program

    def changed(_, data, problem):
        return replace(kept(data, problem), original={"solution.cu": ends})

    monkeypatch.setattr("kernelwright.suites.computeeval.ComputeEval.program", changed)
    row = judged(checkout, ends)
    assert (row.theirs.status, row.ours.verdict) == ("correct", "unknown")


def test_what_is_not_executed_is_unknown_by_both(checkout):
    calls = SOLUTION.replace("{ kernel<<<", "{ cudaProfilerStart(); kernel<<<")
    row = judged(checkout, "#include <cuda_profiler_api.h>\n" + calls)
    assert (row.theirs.status, row.ours.verdict) == ("unknown", "unknown")
    assert "not executed: cudaProfilerStart" in row.ours.reason


def test_where_the_benchmarks_own_program_fails_too_nothing_is_refused(checkout, monkeypatch):
    """A program may ask for more than the device that is executed has."""
    wrong, kept = SOLUTION.replace("2 * x[i]", "3 * x[i]"), get_suite("compute-eval").program

    def changed(_, data, problem):
        return replace(kept(data, problem), original={"solution.cu": wrong})

    monkeypatch.setattr("kernelwright.suites.computeeval.ComputeEval.program", changed)
    row = judged(checkout, wrong)
    assert (row.theirs.status, row.ours.verdict) == ("unknown", "unknown")
    assert "own program fails where it is executed, too" in row.ours.reason
