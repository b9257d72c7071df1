"""The steps of random programs: each writes one expression over available values."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Written = tuple[str, bool] | None
"""An expression and whether its result is exact; None if no operand fits."""


@dataclass(frozen=True)
class Value:
    """A named tensor."""

    tensor: torch.Tensor
    exact: bool
    """Whether every honest computation of it gives identical numbers."""


@dataclass
class Writer:
    """The values of a program so far."""

    chance: random.Random
    values: dict[str, Value] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)

    def pick(self, fits: Callable[[Value], bool] = lambda _: True) -> tuple[str, Value] | None:
        """Choose a value that fits, the latest ones most often."""
        found = [(name, value) for name, value in self.values.items() if fits(value)]
        if not found:
            return None
        return self.chance.choices(found, [1 + 2 * i for i in range(len(found))])[0]

    def dim(self, tensor: torch.Tensor) -> int:
        """Choose a dimension, from the front or from the back."""
        return self.chance.randrange(-tensor.dim(), tensor.dim())

    def dims(self, tensor: torch.Tensor) -> list[int]:
        """Choose one dimension or several."""
        count = self.chance.randint(1, tensor.dim())
        return sorted(self.chance.sample(range(tensor.dim()), count))


@dataclass(frozen=True)
class Step:
    """One family of operations."""

    write: Callable[[Writer], Written]
    weight: int
    """Its weight relative to the other families."""


def _is_float(value: Value) -> bool:
    return value.tensor.is_floating_point()


def _has_dims(value: Value, least: int = 1) -> bool:
    return value.tensor.dim() >= least


def _is_number(value: Value) -> bool:
    return value.tensor.dtype is not torch.bool


_SMOOTH = (
    "torch.tanh({})", "torch.sigmoid({})", "F.silu({})", "F.gelu({})", "F.gelu({}, approximate='tanh')",
    "F.softplus({})", "torch.exp(-{}.abs())", "torch.log({}.abs() + 1.0)", "torch.sqrt({}.abs())",
    "torch.rsqrt({}.square() + 1.0)", "torch.sin({})", "torch.cos({})", "torch.erf({})", "F.mish({})",
    "torch.expm1({}.clamp(-3.0, 3.0))", "torch.log1p({}.abs())", "F.elu({})", "{}.square()",
    "{}.clamp(-2.0, 2.0).pow(3)", "F.logsigmoid({})", "torch.atan({})", "({} + 4.0).reciprocal().clamp(-9.0, 9.0)",
    "{} / 3.0", "1.5 - {}", "{} * 0.7", "F.hardswish({})", "F.hardsigmoid({})", "F.leaky_relu({}, 0.1)",
)  # fmt: skip
_SELECTING = ("F.relu({})", "{}.abs()", "-{}", "{}.clamp(-1.0, 1.0)", "F.hardtanh({}, -0.5, 0.5)", "{} * 2")
_JUMPING = (
    "{}.floor()", "{}.ceil()", "{}.round()", "{}.trunc()", "{}.sign()", "{} > 0", "{} <= 0.5", "{} != 0", "{}.long()",
    "{}.to(torch.int64)", "{}.bool()",
)  # fmt: skip


def _unary(w: Writer) -> Written:
    picked = w.pick(_is_float)
    if picked is None:
        return None
    name, value = picked
    kind = w.chance.random()
    if kind < 0.25:
        return w.chance.choice(_SELECTING).format(name), value.exact
    if kind < 0.4 and value.exact:
        return w.chance.choice(_JUMPING).format(name), True
    return w.chance.choice(_SMOOTH).format(name), False


def _whole(w: Writer) -> Written:
    picked = w.pick(lambda v: v.tensor.dtype in (torch.int64, torch.bool))
    if picked is None:
        return None
    name, value = picked
    if value.tensor.dtype is torch.bool:
        return w.chance.choice(("~{}", "{}.float()", "{}.long()", "{} & True")).format(name), True
    forms = ("{} + 3", "{} * -2", "{} // 3", "{} % 5", "{}.abs()", "{}.clamp(-4, 4)", "{} > 2", "{}.float()")
    return w.chance.choice(forms).format(name), True


def _binary(w: Writer) -> Written:
    one = w.pick()
    other = w.pick() if one is None else w.pick(lambda v: _broadcasts(v.tensor, one[1].tensor))
    if one is None or other is None:
        return None
    (a, left), (b, right) = one, other
    if w.chance.random() < 0.5:
        (a, left), (b, right) = (b, right), (a, left)
    exact = left.exact and right.exact
    if torch.bool in (left.tensor.dtype, right.tensor.dtype):
        if left.tensor.dtype == right.tensor.dtype:
            return w.chance.choice(("{} & {}", "{} | {}", "{} ^ {}")).format(a, b), True
        return f"{a} * {b}", exact
    if exact and w.chance.random() < 0.25:
        return w.chance.choice(("{} > {}", "{} <= {}", "{} == {}", "{} != {}")).format(a, b), True
    if w.chance.random() < 0.2:
        return w.chance.choice(("torch.maximum({}, {})", "torch.minimum({}, {})")).format(a, b), exact
    forms = ("{} + {}", "{} - {}", "{} * {}", "{} / ({}.abs() + 1)", "torch.add({}, {}, alpha=2)")
    both_whole = exact and not left.tensor.is_floating_point() and not right.tensor.is_floating_point()
    text = w.chance.choice(forms)
    return text.format(a, b), both_whole and "/" not in text


def _broadcasts(a: torch.Tensor, b: torch.Tensor) -> bool:
    try:
        torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    except RuntimeError:
        return False
    return True


def _choice(w: Writer) -> Written:
    mask = w.pick(lambda v: v.tensor.dtype is torch.bool)
    one = mask and w.pick(lambda v: _is_number(v) and _broadcasts(v.tensor, mask[1].tensor))
    if not mask or not one:
        return None
    other = w.pick(lambda v: v.tensor.dtype == one[1].tensor.dtype and _broadcasts(v.tensor, one[1].tensor))
    if other is None or w.chance.random() < 0.4:
        return f"torch.where({mask[0]}, {one[0]}, 0)", one[1].exact
    return f"torch.where({mask[0]}, {one[0]}, {other[0]})", one[1].exact and other[1].exact


def _view(w: Writer) -> Written:
    picked = w.pick(_has_dims)
    if picked is None:
        return None
    name, value = picked
    x, chance = value.tensor, w.chance
    dim = w.dim(x)
    size = x.shape[dim]
    order = list(range(x.dim()))
    chance.shuffle(order)
    start = chance.randrange(size)
    at = dim % x.dim()
    divisor = chance.choice([k for k in range(1, size + 1) if size % k == 0])
    split = [*x.shape[:at], divisor, size // divisor, *x.shape[at + 1 :]]
    index = ", ".join([":"] * at + [f"{start}::{chance.choice((1, 2, 3))}"])
    forms = [
        f"{name}.permute({', '.join(map(str, order))})", f"{name}.reshape({', '.join(map(str, split))})",
        f"{name}.flatten()", f"{name}.unsqueeze({chance.randrange(x.dim() + 1)})", f"{name}.flip({dim})",
        f"{name}[{index}]", f"{name}.select({dim}, {start})", f"{name}.narrow({dim}, {start}, {size - start})",
        f"{name}.chunk({chance.choice((2, 3))}, dim={dim})[0]", f"{name}.roll({chance.randint(-3, 3)}, {dim})",
        f"{name}.expand({chance.choice((2, 3))}, {', '.join(['-1'] * x.dim())})", f"{name}.contiguous()",
        f"{name}.squeeze()",
    ]  # fmt: skip
    if x.dim() >= 2:
        forms += [f"{name}.transpose({dim}, 0)", f"{name}.tril({chance.randint(-2, 2)})", f"{name}.triu(1)"]
        forms += [f"{name}.flatten({min(at, x.dim() - 2)}, {x.dim() - 1})"]
    return chance.choice(forms), value.exact


def _join(w: Writer) -> Written:
    one = w.pick(_has_dims)
    if one is None:
        return None
    (name, value), chance = one, w.chance
    x, dim = value.tensor, w.dim(value.tensor)
    at = dim % x.dim()
    if chance.random() < 0.4 and x.dtype is not torch.bool:
        low, high = chance.randint(0, 3), chance.randint(0, 2)
        return f"F.pad({name}, ({low}, {high}), value={chance.choice((0, 1, -2))})", value.exact
    other = w.pick(lambda v: v.tensor.dtype == x.dtype and _fits(v.tensor, x, at))
    if other is None:
        return None
    both = value.exact and other[1].exact
    if other[1].tensor.shape == x.shape and chance.random() < 0.3:
        return f"torch.stack(({name}, {other[0]}), dim={dim})", both
    return f"torch.cat(({name}, {other[0]}), dim={at})", both


def _fits(a: torch.Tensor, b: torch.Tensor, dim: int) -> bool:
    return a.dim() == b.dim() and all(
        m == n or d == dim for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True))
    )


def _reduction(w: Writer) -> Written:
    picked = w.pick(_has_dims)
    if picked is None:
        return None
    name, value = picked
    x, chance = value.tensor, w.chance
    dims, keep, dim = w.dims(x), chance.random() < 0.5, w.dim(x)
    tail = f"dim={tuple(dims)}, keepdim={keep}"
    if x.dtype is torch.bool:
        form = chance.choice(
            (f".any(dim={dim}, keepdim={keep})", f".all(dim={dim}, keepdim={keep})", f".sum({tail})")
        )
        return name + form, True
    exact_whole = value.exact and not x.is_floating_point()
    forms = [
        (f"{name}.sum({tail})", exact_whole),
        (f"{name}.amax({tail})", value.exact),
        (f"{name}.amin({tail})", value.exact),
    ]
    if value.exact:
        forms += [(f"{name}.argmax(dim={dim}, keepdim={keep})", True), (f"{name}.argmin(dim={dim})", True)]
        forms += [(f"{name}.max(dim={dim}, keepdim={keep}).values", True)]
    if x.is_floating_point():
        forms += [
            (f"{name}.mean({tail})", False), (f"torch.logsumexp({name}, {tail})", False),
            (f"{name}.var({tail}, correction=0)", False), (f"{name}.sum()", False),
            (f"torch.linalg.vector_norm({name}, {tail})", False),
            (f"{name}.tanh().prod(dim={dim}, keepdim={keep})", False),
        ]  # fmt: skip
    return chance.choice(forms)


def _row(w: Writer) -> Written:
    picked = w.pick(lambda v: _is_float(v) and _has_dims(v))
    if picked is None:
        return None
    name, value = picked
    dim, last = w.dim(value.tensor), value.tensor.shape[-1]
    forms = [
        f"torch.softmax({name}, dim={dim})", f"torch.log_softmax({name}, dim={dim})",
        f"F.layer_norm({name}, ({last},))", f"F.normalize({name}, dim={dim})",
        f"{name} * torch.rsqrt({name}.pow(2).mean(-1, keepdim=True) + 1e-5)",
    ]  # fmt: skip
    return w.chance.choice(forms), False


def _scan(w: Writer) -> Written:
    picked = w.pick(lambda v: _is_number(v) and _has_dims(v))
    if picked is None:
        return None
    name, value = picked
    dim, whole = w.dim(value.tensor), not value.tensor.is_floating_point()
    if whole or w.chance.random() < 0.7:
        return f"{name}.cumsum({dim})", whole
    return f"{name}.tanh().cumprod({dim})", False


def _contraction(w: Writer) -> Written:
    one = w.pick(lambda v: _is_float(v) and 2 <= v.tensor.dim() <= 3)
    if one is None:
        return None
    (name, value), chance = one, w.chance
    x = value.tensor
    other = w.pick(
        lambda v: (
            v.tensor.dtype == x.dtype
            and v.tensor.dim() in (2, x.dim())
            and x.shape[-1] in v.tensor.shape[-2:]
        )
    )
    if other is None or chance.random() < 0.2:
        return f"{name} @ {name}.transpose(-1, -2)", False
    b, y = other[0], other[1].tensor
    if y.shape[-1] == x.shape[-1] and y.dim() == 2 and chance.random() < 0.5:
        return f"F.linear({name}, {b})", False
    return (f"{name} @ {b}" if y.shape[-2] == x.shape[-1] else f"{name} @ {b}.transpose(-1, -2)"), False


def _window(w: Writer) -> Written:
    picked = w.pick(lambda v: v.tensor.dtype is torch.float32 and v.tensor.dim() == 3)
    if picked is None:
        return None
    name, value = picked
    size = w.chance.choice((2, 3))
    channels, stride = value.tensor.shape[1], w.chance.choice((1, 2))
    forms = [
        (f"F.max_pool1d({name}, {size}, stride={stride}, padding=1)", value.exact),
        (f"F.avg_pool1d({name}, {size}, stride={stride}, padding=1)", False),
        (f"F.conv1d({name}, torch.full((3, {channels}, {size}), 0.25), stride={stride}, padding=1)", False),
    ]
    return w.chance.choice(forms)


def _index(w: Writer) -> Written:
    where = w.pick(lambda v: v.tensor.dtype is torch.int64 and v.tensor.dim() >= 1)
    picked = w.pick(_has_dims)
    if where is None or picked is None:
        return None
    (index, at), (name, value) = where, picked
    dim = w.chance.randrange(value.tensor.dim())
    size = value.tensor.shape[dim]
    forms = [f"{name}.index_select({dim}, {index}.flatten() % {size})"]
    if at.tensor.dim() == value.tensor.dim():
        small = all(
            i <= s or d == dim
            for d, (i, s) in enumerate(zip(at.tensor.shape, value.tensor.shape, strict=True))
        )
        forms += [f"{name}.gather({dim}, {index} % {size})"] * 2 * small
    if dim == 0:
        forms += [f"{name}[{index} % {size}]"]
    return w.chance.choice(forms), value.exact


def _scatter(w: Writer) -> Written:
    where = w.pick(lambda v: v.tensor.dtype is torch.int64 and v.tensor.dim() >= 1)
    picked = w.pick(lambda v: _is_number(v) and _has_dims(v))
    if where is None or picked is None:
        return None
    (index, at), (name, value) = where, picked
    x, chance = value.tensor, w.chance
    count, rows = min(at.tensor.numel(), x.shape[0]), chance.choice((1, 3, 8, 17))
    updates, to = f"{name}[:{count}]", f"{index}.flatten()[:{count}] % {rows}"
    base = f"torch.ones({', '.join(map(str, (rows, *x.shape[1:])))}, dtype={name}.dtype)"
    spread = f"({to}).view({', '.join(map(str, (-1, *[1] * (x.dim() - 1))))}).expand_as({updates})"
    whole = value.exact and not x.is_floating_point()
    forms = [
        (f"{base}.index_add(0, {to}, {updates})", whole),
        (f"{base}.index_put(({to} - {rows},), {updates}, accumulate=True)", whole),
        (f"{base}.scatter_add(0, {spread}, {updates})", whole),
        (f"{base}.scatter_reduce(0, {spread}, {updates}, '{chance.choice(('amax', 'amin'))}')", value.exact),
    ]
    return chance.choice(forms)


def _cast(w: Writer) -> Written:
    picked = w.pick()
    if picked is None:
        return None
    name, value = picked
    wider = f"{name}.float()"
    if not value.tensor.is_floating_point():
        return wider, value.exact
    text = w.chance.choice((wider, f"{name}.to(torch.bfloat16)", f"{name}.half()"))
    return text, False


STEPS = (
    Step(_unary, 22), Step(_binary, 20), Step(_view, 16), Step(_reduction, 12), Step(_row, 6), Step(_join, 7),
    Step(_choice, 5), Step(_whole, 5), Step(_scan, 4), Step(_contraction, 6), Step(_window, 3), Step(_index, 4),
    Step(_cast, 3), Step(_scatter, 2),
)  # fmt: skip
"""Every family with its weight."""
