"""A training step run operator by operator in the place of an accepted program, and gradients compared."""

import torch


def program(step):
    """Return a kernel that runs the step's graph operator by operator, and counts its calls."""
    graph = step.capture
    calls = []

    def kernel(*given):
        calls.append(1)
        values = {**graph.constants, **dict(zip(graph.inputs, given, strict=True))}
        for node in graph.nodes:
            args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: values[n.name])
            values[node.name] = node.target(*args, **kwargs)
        return tuple(values[o] for o in graph.outputs)

    return kernel, calls


def gradients(model):
    return {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def same(model, native):
    for (name, one), other in zip(gradients(model).items(), gradients(native).values(), strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, msg=name)
