"""The harvesting process: reads an `Order`, compiles, writes a `Harvested` for each mode, one a line."""

import sys
from collections.abc import Sequence

import torch

from ...errors import fault_of
from ...records import Workload
from ...tasks import Problem
from ._compiled import code_of, functional
from ._harvest import Generated, Harvested, Order, Parting
from ._step import Steps


def main() -> int:
    """Compile the order on standard input; everything that compilers print goes to standard error."""
    answer, sys.stdout = sys.stdout, sys.stderr
    order = Order.from_json(sys.stdin.read())
    problem = Problem(order.task)
    for mode in order.modes:
        print(_harvested(problem, order.workloads, mode).to_json(), file=answer, flush=True)
    steps = [Steps(problem, workload) for workload in order.workloads] if order.partings else []
    for parting in order.partings:
        print(_parted(steps, parting).to_json(), file=answer, flush=True)
    return 0


def _harvested(problem: Problem, workloads: Sequence[Workload], mode: str) -> Harvested:
    try:
        return Harvested(mode=mode, codes=tuple(_compile(problem, w, mode) for w in workloads))
    except Exception as error:  # noqa: BLE001 - a mode that the compiler cannot do says nothing of the next
        return Harvested(mode=mode, failure=fault_of(error))


def _parted(steps: Sequence[Steps], parting: Parting) -> Harvested:
    try:
        return Harvested(mode=parting.keeps, steps=tuple(step.parted(parting) for step in steps))
    except Exception as error:  # noqa: BLE001 - what one keeps may fail where another does not
        return Harvested(mode=parting.keeps, failure=fault_of(error))


def _compile(problem: Problem, workload: Workload, mode: str) -> Generated:
    from torch._inductor import list_mode_options
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs, state = problem.inputs(workload, seed=0), problem.state(workload, seed=0)
    function, tensors = functional(problem, workload, inputs, state)
    names = [s.name for s, v in zip(workload.arguments, inputs, strict=True) if isinstance(v, torch.Tensor)]
    with torch.no_grad():
        graph = make_fx(function, tracing_mode="fake")(*tensors)
        options = {} if mode == "default" else list_mode_options(mode)
        return code_of(graph, tensors, options, (*names, *state))


if __name__ == "__main__":
    raise SystemExit(main())
