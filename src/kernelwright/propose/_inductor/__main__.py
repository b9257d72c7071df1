"""The harvesting process: reads an `Order`, compiles, writes a `Harvested` for each mode, one a line."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from ...errors import fault_of
from ...records import Workload
from ...tasks import Problem
from ._harvest import Generated, Harvested, HarvestError, Order


def main() -> int:
    """Compile the order on standard input; everything that compilers print goes to standard error."""
    answer, sys.stdout = sys.stdout, sys.stderr
    order = Order.from_json(sys.stdin.read())
    problem = Problem(order.task)
    for mode in order.modes:
        print(_harvested(problem, order.workloads, mode).to_json(), file=answer, flush=True)
    return 0


def _harvested(problem: Problem, workloads: Sequence[Workload], mode: str) -> Harvested:
    try:
        return Harvested(mode=mode, codes=tuple(_compile(problem, w, mode) for w in workloads))
    except Exception as error:  # noqa: BLE001 - a mode that the compiler cannot do says nothing of the next
        return Harvested(mode=mode, failure=fault_of(error))


def _compile(problem: Problem, workload: Workload, mode: str) -> Generated:
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.utils import run_and_get_code
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs, state = problem.inputs(workload, seed=0), problem.state(workload, seed=0)
    function, tensors = _functional(problem, workload, inputs, state)
    with torch.no_grad():
        graph = make_fx(function, tracing_mode="fake")(*tensors)
        options = {} if mode == "default" else list_mode_options(mode)

        def run(*values: torch.Tensor) -> object:  # not torch.compile: Dynamo would reorder the inputs
            return cast(Callable[..., object], compile_fx(graph, list(values), config_patches=options))(
                *values
            )

        _, codes = run_and_get_code(run, *tensors)
    if len(codes) != 1:
        raise HarvestError(f"torch.compile wrote {len(codes)} graphs; one is needed to make one candidate")
    names = [s.name for s, v in zip(workload.arguments, inputs, strict=True) if isinstance(v, torch.Tensor)]
    return Generated(code=codes[0], flags=_flags(), inputs=(*names, *state))


def _functional(
    problem: Problem, workload: Workload, inputs: list[Any], state: dict[str, torch.Tensor]
) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Return the reference as a function of its tensors, arguments first and then state."""
    reference = problem.reference(workload, state)
    places = [i for i, v in enumerate(inputs) if isinstance(v, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arguments = list(inputs)
        for place, tensor in zip(places, tensors, strict=False):
            arguments[place] = tensor
        if isinstance(reference, torch.nn.Module):
            held = dict(zip(state, tensors[len(places) :], strict=True))
            result = torch.func.functional_call(reference, held, tuple(arguments), tie_weights=False)
        else:
            result = reference(*arguments)
        return tuple(torch.utils._pytree.tree_flatten(result)[0])

    return function, [inputs[i] for i in places] + list(state.values())


def _flags() -> tuple[str, ...]:
    """Return Inductor's C++ compiler flags; paths inside torch's folder are made relative to it."""
    from torch._inductor.cpp_builder import CppTorchOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    options = CppTorchOptions(vec_isa=pick_vec_isa())
    home = str(Path(torch.__file__).parent)
    unwanted = {"shared", "fPIC", "Wall", "pedantic", "DNDEBUG", "g1", "TORCH_INDUCTOR_PRECOMPILE_HEADERS"}
    flags = [f"-{flag}" for flag in options.get_cflags() if flag not in unwanted]
    flags += [f"-D{name.strip()}" for name in options.get_definitions() if name.strip() not in unwanted]
    flags += [word for words in options.get_passthrough_args() for word in words.split()]
    folders = [f for f in options.get_include_dirs() if f.startswith(home)]
    flags += [f"-I{f.replace(home, '@torch')}" for f in folders]
    return (*flags, "-L@torch/lib", "-ltorch_cpu", "-lc10")


if __name__ == "__main__":
    raise SystemExit(main())
