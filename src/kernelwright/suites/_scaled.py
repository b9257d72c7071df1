"""Definition → the same with smaller constant axes, where its own sizes need more memory than there is.

It is another problem than the benchmark's, and its name says so.
"""

import ast
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..tasks.forms._expression import size

_ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4}
_FACTORS = (2, 4, 8, 16, 32, 64)
_CHOICES, _EXPERTS = ("top", "group"), "expert"


def scaled(text: str, fits: Callable[[Mapping[str, int]], bool]) -> str:
    """Return a definition's JSON with its constant axes divided alike, by the least power of two at which it fits.

    Axes that count choices (`top_k`) stay, and of experts as many are left as are chosen of them at least. Literals of
    the reference that are the size of an axis become its new size.

    Args:
        text: The definition.
        fits: Tells of the sizes of its constant axes whether they fit.

    Returns:
        The text unchanged where it fits as it is, and where no factor divides its axes so that it fits.

    Example:
        >>> axes = {"n": {"type": "const", "value": 64}, "top_k": {"type": "const", "value": 3}}
        >>> made = {"name": "m", "axes": axes, "reference": "def run(x):\\n    N, K = 64, 3"}
        >>> small = json.loads(scaled(json.dumps(made), lambda axes: axes["n"] <= 16))
        >>> small["name"], small["axes"]["n"]["value"], small["reference"]
        ('m_scaled_4', 16, 'def run(x):\\n    N, K = (16, 3)')
    """
    definition: dict[str, Any] = json.loads(text)
    axes = {n: int(a["value"]) for n, a in definition["axes"].items() if a.get("type") == "const"}
    if fits(axes):
        return text
    for factor in _FACTORS:
        smaller = _divided(axes, factor)
        if smaller is not None and fits(smaller):
            return json.dumps(_with(definition, axes, smaller, factor))
    return text


def bytes_of(definition: Mapping[str, Any], axes: Mapping[str, int]) -> int:
    """Return the bytes of a definition's tensors at the sizes of all its axes; two for an element of fewer, to be safe.

    Example:
        >>> spec = {"shape": ["n", "2"], "dtype": "float32"}
        >>> given = {"x": spec, "scale": {"shape": None, "dtype": "float32"}}
        >>> bytes_of({"inputs": given, "outputs": {"y": spec}}, {"n": 4})
        64
    """
    specs = [*definition["inputs"].values(), *definition["outputs"].values()]
    return sum(
        math.prod(size(str(s), axes) for s in spec["shape"]) * _ITEM_BYTES.get(str(spec["dtype"]), 2)
        for spec in specs
        if spec.get("shape") is not None
    )


def _divided(axes: Mapping[str, int], factor: int) -> dict[str, int] | None:
    chosen = max((v for n, v in axes.items() if _counts_choices(n)), default=1)
    smaller = {}
    for name, value in axes.items():
        few = _EXPERTS in name and (value % factor or value // factor < chosen)
        if _counts_choices(name) or few:
            smaller[name] = value
        elif value % factor:
            return None
        else:
            smaller[name] = value // factor
    sizes = {(value, smaller[name]) for name, value in axes.items()}
    return smaller if len(sizes) == len({value for value, _ in sizes}) else None


def _counts_choices(name: str) -> bool:
    return any(part in name for part in _CHOICES)


def _with(
    definition: dict[str, Any], axes: Mapping[str, int], smaller: Mapping[str, int], factor: int
) -> dict[str, Any]:
    sizes = {str(value): smaller[name] for name, value in axes.items()}

    class Literals(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.Constant(sizes.get(str(node.value), node.value)) if type(node.value) is int else node

    reference = ast.unparse(Literals().visit(ast.parse(definition["reference"])))
    changed = {n: {**a, "value": smaller[n]} if n in smaller else a for n, a in definition["axes"].items()}
    said = ", ".join(
        f"{name} from {axes[name]} to {value}" for name, value in smaller.items() if value != axes[name]
    )
    return {
        **definition, "name": f"{definition['name']}_scaled_{factor}", "axes": changed, "reference": reference,
        "notes": [f"shrunk {said}, which makes it another definition"],
    }  # fmt: skip
