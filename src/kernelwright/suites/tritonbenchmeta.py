"""Meta's tritonbench, as its operator loader has it: aten operators with arguments recorded while models were trained.

Source: meta-pytorch/tritonbench, tritonbench/operator_loader and tritonbench/data/input_loaders.
"""

import re
from pathlib import Path

from ..records import Task
from ._modules import LIMIT_S, needs_gpu, reference_text
from ._protocol import Script
from ._recorded_calls import CallForm, called_in, calls_in, most_frequent, now_called, problem_of
from ._records import Rules, SuiteProblem

_LOADER, _INPUTS = "tritonbench/operator_loader/aten/config.yaml", "tritonbench/data/input_configs"
_LINE = re.compile(r"^(aten\.[\w.]+): *(\S+)$", re.MULTILINE)


class TritonBenchMeta(CallForm):
    """The adapter of Meta's tritonbench."""

    name, suffix = "tritonbench-meta", ""
    title = "tritonbench of Meta: aten operators with arguments recorded in the training of models"
    repository = "meta-pytorch/tritonbench"
    commit = "db2155c807755c19f5d98c64917ec897f24061f3"
    layout = (_LOADER, _INPUTS)
    rules = Rules(
        correctness="`torch.testing.assert_close` of one call with the operator's, at the tolerances of the dtype",
        timing="median of Triton's do_bench",
        score="speedup over eager by operator",
        trials=1, tolerance=0.0, timed=100, seed=0,
        here="of an operator's recorded calls the one that was seen most often, and its values drawn between -9 and 9; "
        "median of 100 calls by the host's clock; operators that the benchmark writes out itself are not read",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the operators of the loader, by the set of models that their arguments come from."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=operator.replace(".", "_"), group=file.partition("/")[0],
                file=f"{_INPUTS}/{file}",
            )
            for operator, file in _LINE.findall((data / _LOADER).read_text())
            if (data / _INPUTS / file).is_file()
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the operator's most frequent call."""
        known = {o.replace(".", "_"): o for o, _ in _LINE.findall((data / _LOADER).read_text())}
        operator = now_called(known[problem.name])
        calls = calls_in((data / problem.file).read_text())
        path = folder / f"{problem.name}.py"
        path.write_text(problem_of(operator, most_frequent(operator, calls)))
        return path

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its comparison and timing of one call; None if the kernel can only run on a GPU."""
        del data, problem
        if needs_gpu(candidate):
            return None
        parameters, arguments = called_in(task)
        given = {
            "reference": reference_text(task), "submission": candidate, "symbol": task.name,
            "parameters": parameters, "arguments": arguments, "timed": self.rules.timed,
        }  # fmt: skip
        return Script("tritonbench_meta", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()
