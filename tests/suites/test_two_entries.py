"""reference-kernels' problems with a forward and a backward entry: one task, and a kernel that defines both."""

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Split
from kernelwright.suites import get_suite, setup, theirs_of
from kernelwright.tasks import Problem
from kernelwright.testing import made_up_checkout

REFERENCE = """import torch

DTYPE = torch.float32
DEVICE = "cuda"
ATOL = RTOL = 1e-3


def reference_forward(logits, targets):
    return logits.sum(1) * targets


def reference_backward(logits, targets, grad_output):
    return torch.ones_like(logits) * (targets * grad_output).unsqueeze(1)


def generate_inputs(batch_size, vocab_size, seed=42):
    torch.manual_seed(seed)
    logits = torch.randn(batch_size, vocab_size, dtype=DTYPE, device=DEVICE)
    return logits, torch.randn(batch_size, device=DEVICE), torch.randn(batch_size, device=DEVICE)
"""
MANIFEST = """files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "eval.py"}
tests:
  - {"vocab_size": 32}
benchmarks:
  - {"vocab_size": 64}
"""
EVALUATOR = 'B = 1_6\nfor name in ("any_forward", "any_backward"):\n    ...\n'
KERNEL = """import torch

def any_forward(logits, targets):
    return logits.sum(1) * targets

def any_backward(logits, targets, grad_output):
    return torch.ones_like(logits) * (targets * grad_output)[:, None]
"""


def test_a_kernel_has_to_be_right_in_both(tmp_path):
    suite, data = get_suite("reference-kernels"), made_up_checkout("reference-kernels", tmp_path / "data")
    folder = data / "problems/linalg/two"
    folder.mkdir(parents=True)
    for name, text in (("reference.py", REFERENCE), ("task.yml", MANIFEST), ("eval.py", EVALUATOR)):
        (folder / name).write_text(text)
    problem = next(p for p in suite.problems(data) if p.name == "linalg/two")
    file = tmp_path / "submission.py"
    file.write_text(KERNEL)
    with setup(suite, data) as given, given.task(problem) as task:
        (workload,) = [w for w in task.workloads if w.split == "search"]
        assert [s.shape for s in workload.arguments] == [(16, 64), (16,), (16,)]
        assert [s.shape for s in workload.outputs] == [(16,), (16, 64)]
        assert theirs_of(given, problem, task, KERNEL).status == "correct"
        wrong = theirs_of(given, problem, task, KERNEL.replace("torch.ones_like", "2 * torch.ones_like"))
        assert (wrong.status, wrong.message) == ("wrong", "backward: values mismatch")
        entry = suite.candidate(task, file).sources[0].text
        assert "(any_forward(data[0], data[1]), any_backward(*data))" in entry
        file.write_text("def any_forward(logits, targets): ...\n")
        with pytest.raises(TaskError, match="defines no 'any_backward'"):
            suite.candidate(task, file)


def test_a_program_on_several_gpus_is_named_as_one(tmp_path):
    suite, data = get_suite("reference-kernels"), made_up_checkout("reference-kernels", tmp_path / "data")
    problem = suite.problems(data)[0]
    (data / problem.file).write_text((data / problem.file).read_text() + "\nmulti_gpu: true\n")
    with pytest.raises(TaskError, match="is one program on several GPUs at once"):
        suite.target(data, problem, tmp_path)


def test_a_seed_that_is_counted_among_the_values_leaves_room_for_what_is_drawn(tmp_path):
    suite, data = get_suite("reference-kernels"), made_up_checkout("reference-kernels", tmp_path / "data")
    reference = data / "problems/pmpp_v2/addition/reference.py"
    (problem,) = suite.problems(data)

    def distinct():
        with setup(suite, data) as given, given.task(problem) as task:
            live, workload = Problem(task), task.split(Split.SEARCH)[0]
            drawn = [live.inputs(workload, seed)[0] for seed in range(4)]
            return min(one.unique().numel() / one.numel() for one in drawn)

    plain = reference.read_text()
    assert distinct() > 0.5
    reference.write_text(
        plain.replace("    return a,", "    mean = seed + 1\n    a = a + mean\n    return a,")
    )
    assert distinct() > 0.005, "around 2^31 there are two or three"
