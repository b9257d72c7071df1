"""Graph → imports: the modules that bring operators of other libraries into a process that has only torch."""

import sys
from collections.abc import Iterable

import torch
from torch import fx
from torch._library.custom_ops import OPDEFS

from .pieces import Unprintable


def imports_of(nodes: Iterable[fx.Node]) -> list[str]:
    """Return the lines that import whatever registers the operators of these nodes; torch's own need none.

    Covers: operators made by `torch.library.custom_op`, and libraries whose namespace is the package's name.
    Does not cover: `torch.library.define` and `Library` under another name; the process that lacks them says so.

    Raises:
        Unprintable: an operator is defined in a file that is not imported by name.
    """
    operators = {n.target for n in nodes if isinstance(n.target, torch._ops.OpOverload)}
    modules = {_module_of(o) for o in operators if o.namespace != "aten"} - {""}
    return [f"import {module}" for module in sorted(modules)]


def _module_of(operator: torch._ops.OpOverload) -> str:
    defined = OPDEFS.get(operator._schema.name)
    if defined is None:
        return operator.namespace if operator.namespace in sys.modules else ""
    module = str(defined._init_fn.__module__)
    if getattr(sys.modules.get(module), "__spec__", None) is None:
        raise Unprintable(
            f"{operator} is defined in {module!r}, which other processes cannot import; put it into a package"
        )
    return module
