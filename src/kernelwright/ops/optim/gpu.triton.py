"""Steps of AdamW and Lion on a GPU: all parameters of a dtype in one launch, by a table of where they lie."""

from functools import partial

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm

_CHUNK, _BLOCK = 8192, 1024
_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
_ALIGNED = 16


@triton.jit
def found(table, many):
    """Return the number of the parameter that a program has a chunk of: the last that begins no later."""
    low, high = 0, many
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(table + middle * 7 + 6) <= tl.program_id(0):
            low = middle
        else:
            high = middle
    return low


@triton.jit
def pointer(row, field, kind: tl.constexpr, EVEN: tl.constexpr):
    """Return where a tensor of a row lies."""
    held = tl.load(row + field).to(tl.pointer_type(kind))
    if EVEN:
        held = tl.multiple_of(held, 16)
    return held


@triton.jit
def adamw(table, rates, many, kept, left1, beta2, left2, eps, KIND: tl.constexpr, UP: tl.constexpr,
          LARGEST: tl.constexpr, EVEN: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Move a chunk of a parameter, its moments, and the largest of its second moments."""
    number = found(table, many)
    row = table + number * 7
    size, root = tl.load(rates + 2 * number), tl.load(rates + 2 * number + 1)
    p, g = pointer(row, 0, KIND, EVEN), pointer(row, 1, KIND, EVEN)
    m, v = pointer(row, 2, tl.float32, EVEN), pointer(row, 3, tl.float32, EVEN)
    n = tl.load(row + 5)
    if EVEN:
        n = tl.multiple_of(n, 16)
    start = (tl.program_id(0) - tl.load(row + 6)) * CHUNK
    for step in range(0, CHUNK, BLOCK):
        at = start + step + tl.arange(0, BLOCK)
        inside = at < n
        grad = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        if UP:
            grad = -grad
        mean = tl.load(m + at, mask=inside, other=0.0)
        mean += left1 * (grad - mean)
        square = beta2 * tl.load(v + at, mask=inside, other=0.0) + left2 * grad * grad
        tl.store(m + at, mean, mask=inside)
        tl.store(v + at, square, mask=inside)
        if LARGEST:
            top = pointer(row, 4, tl.float32, EVEN)
            square = tl.maximum(tl.load(top + at, mask=inside, other=0.0), square)
            tl.store(top + at, square, mask=inside)
        value = tl.load(p + at, mask=inside, other=0.0).to(tl.float32) * kept
        value -= size * mean / (tl.sqrt(square) / root + eps)
        tl.store(p + at, value.to(KIND), mask=inside)


@triton.jit
def lion(table, many, kept, lr, left1, left2, KIND: tl.constexpr, UP: tl.constexpr, EVEN: tl.constexpr,
         CHUNK: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Move a chunk of a parameter and its moment."""
    row = table + found(table, many) * 7
    p, g = pointer(row, 0, KIND, EVEN), pointer(row, 1, KIND, EVEN)
    m = pointer(row, 2, tl.float32, EVEN)
    n = tl.load(row + 5)
    if EVEN:
        n = tl.multiple_of(n, 16)
    start = (tl.program_id(0) - tl.load(row + 6)) * CHUNK
    for step in range(0, CHUNK, BLOCK):
        at = start + step + tl.arange(0, BLOCK)
        inside = at < n
        grad = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        if UP:
            grad = -grad
        mean = tl.load(m + at, mask=inside, other=0.0)
        way = mean + left1 * (grad - mean)
        sign = tl.where(way > 0, 1.0, tl.where(way < 0, -1.0, way))
        value = tl.load(p + at, mask=inside, other=0.0).to(tl.float32) * kept - lr * sign
        tl.store(p + at, value.to(KIND), mask=inside)
        tl.store(m + at, mean + left2 * (grad - mean), mask=inside)


def _tables(rows, columns):
    """Yield for each dtype of parameters the table, the rows that are in it, whether all is aligned, and programs."""
    each = [rows[i : i + columns] for i in range(0, len(rows), columns)]
    for kind in dict.fromkeys(row[0].dtype for row in each):
        mine = [row for row in each if row[0].dtype is kind and row[0].numel()]
        fields, programs, even = [], 0, True
        for row in mine:
            tensors = [t if isinstance(t, torch.Tensor) and t.is_floating_point() else None for t in row[:5]]
            tensors += [None] * (5 - len(tensors))
            places = [0 if t is None else t.data_ptr() for t in tensors]
            n = row[0].numel()
            even = even and n % _ALIGNED == 0 and not any(place % _ALIGNED for place in places)
            fields.append([*places, n, programs])
            programs += triton.cdiv(n, _CHUNK)
        if mine:
            table = torch.tensor(fields, dtype=torch.int64).to(mine[0][0].device, non_blocking=True)
            yield table, mine, {"KIND": _TYPES[kind], "EVEN": even}, programs


def _adamw(numbers, rows):
    lr, beta1, beta2, eps, decay, up = numbers
    counters = [step for step in rows[5::6] if isinstance(step, torch.Tensor)]
    if counters:
        torch._foreach_add_(counters, 1.0)
    for table, mine, how, programs in _tables(rows, 6):
        steps = [float(row[5]) for row in mine]
        rates = [[lr / (1 - beta1**t), (1 - beta2**t) ** 0.5] for t in steps]
        adamw[(programs,)](
            table, torch.tensor(rates).to(table.device, non_blocking=True), len(mine), 1 - lr * decay, 1 - beta1,
            beta2, 1 - beta2, eps, UP=bool(up), LARGEST=mine[0][4] is not None, CHUNK=_CHUNK, BLOCK=_BLOCK,
            num_warps=4, **how,
        )  # fmt: skip


def _lion(numbers, rows):
    lr, beta1, beta2, decay, up = numbers
    for table, mine, how, programs in _tables(rows, 3):
        lion[(programs,)](
            table, len(mine), 1 - lr * decay, lr, 1 - beta1, 1 - beta2, UP=bool(up), CHUNK=_CHUNK, BLOCK=_BLOCK,
            num_warps=4, **how,
        )  # fmt: skip


def _serves(numbers, rows, columns):  # noqa: ARG001
    """Serve contiguous parameters on one GPU, with float32 states of their shapes and counters on the processor."""
    device = rows[0].device
    for i in range(0, len(rows), columns):
        param, grad, *states = rows[i : i + columns]
        if param.dtype not in FLOATS or grad.dtype is not param.dtype:
            return "a parameter or its gradient is of another dtype"
        if columns > 3 and (states[2] is None) != (rows[4] is None):
            return "some parameters have a largest moment"
        if columns > 3 and isinstance(states[3], torch.Tensor) and states.pop().is_cuda:
            return "a counter of steps is on the GPU"
        for t in (param, grad, *(s for s in states if isinstance(s, torch.Tensor))):
            if (
                t.device != device
                or t.shape != param.shape
                or not t.is_contiguous()
                or t.layout is not torch.strided
            ):
                return "a tensor is on another device, of another shape or not contiguous"
        if any(isinstance(s, torch.Tensor) and s.dtype is not torch.float32 for s in states):
            return "a state is not float32"
    return None


FORMS = {
    "optim_adamw_many": GpuForm(partial(_serves, columns=6), _adamw),
    "optim_lion_many": GpuForm(partial(_serves, columns=3), _lion),
}
