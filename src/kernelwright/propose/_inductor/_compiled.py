"""What the harvesting process asks torch.compile for: a graph's code, and the flags that it is built with."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from ...records import Workload
from ...tasks import Problem
from ._harvest import Generated, HarvestError


def code_of(
    graph: torch.fx.GraphModule,
    tensors: Sequence[torch.Tensor],
    options: dict[str, Any],
    names: Sequence[str] = (),
) -> Generated:
    """Return the code of a graph; its kernels are not built.

    Args:
        graph: The graph.
        tensors: Its inputs; only what they are like is read.
        options: Inductor's.
        names: What the inputs are called.
    """
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.graph import GraphLowering

    codes = list[str]()
    options = {**options, "force_disable_caches": True}
    with (
        patch.object(GraphLowering, "save_output_code", codes.append),
        patch.object(AsyncCompile, "cpp_pybinding", lambda *_, **__: None),
    ):
        compile_fx(
            graph, list(tensors), config_patches=options
        )  # not torch.compile: Dynamo would reorder the inputs
    if len(codes) != 1:
        raise HarvestError(f"torch.compile wrote {len(codes)} graphs; one is needed to make one candidate")
    return Generated(code=codes[0], flags=_flags(), inputs=tuple(names))


def functional(
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
