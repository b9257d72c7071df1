"""Steps of AdamW and Lion on a GPU: all parameters of a dtype in one launch, by a table of where they lie.

The table is kept as long as all tensors stay where they are.
"""

from functools import partial
from operator import attrgetter

import torch
import triton
import triton.language as tl
from torch.utils.weak import WeakTensorKeyDictionary

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
def adamw(table, rates, size, root, many, kept, left1, beta2, left2, eps, KIND: tl.constexpr, UP: tl.constexpr,
          ALIKE: tl.constexpr, LARGEST: tl.constexpr, EVEN: tl.constexpr, CHUNK: tl.constexpr,
          BLOCK: tl.constexpr):  # fmt: skip
    """Move a chunk of a parameter, its moments, and the largest of its second moments."""
    number = found(table, many)
    row = table + number * 7
    if not ALIKE:  # parameters have taken different numbers of steps
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


class _Table:
    """Where the parameters of a dtype lie, with gradients and states, here and on the GPU."""

    def __init__(self, rows, columns, mine):
        params = [rows[i * columns] for i in mine]
        self.mine, self.device = mine, params[0].device
        self.largest = columns > 3 and rows[mine[0] * columns + 4] is not None
        self._kind = _TYPES[params[0].dtype]
        self._counts = [p.numel() for p in params]
        begins, self.programs = [], 0
        for count in self._counts:
            begins.append(self.programs)
            self.programs += triton.cdiv(count, _CHUNK)
        states = [[rows[i * columns + at] for i in mine] for at in range(2, min(columns, 5))]
        states = [[0 if t is None else t.data_ptr() for t in found] for found in states]
        states += [[0] * len(mine)] * (3 - len(states))
        self._fields = [[p.data_ptr() for p in params], [], *states, self._counts, begins]

    def move(self, grads):
        """Take gradients from where they lie now."""
        self._fields[1] = [grads[i] for i in self.mine]
        even = all(n % _ALIGNED == 0 for field in (*self._fields[:5], self._counts) for n in field)
        self.how = {"KIND": self._kind, "EVEN": even}
        table = torch.tensor(self._fields, dtype=torch.int64).t().contiguous()
        self.on_gpu = table.to(self.device, non_blocking=True)


class _Known:
    """Tensors of a step that are served, with their tables, as long as they are where they were."""

    def __init__(self, rows, columns):
        self._columns = columns
        lasting = self._lasting(rows)
        self._ids, self._places = list(map(id, lasting)), list(map(torch.Tensor.data_ptr, lasting))
        self._looks = self._look(rows)
        params = rows[::columns]
        kinds = dict.fromkeys(p.dtype for p in params)
        found = [[i for i, p in enumerate(params) if p.dtype is kind and p.numel()] for kind in kinds]
        self._tables = [_Table(rows, columns, mine) for mine in found if mine]
        self._grads = None

    def _lasting(self, rows):
        """Return parameters and states, without the numbers of steps."""
        c = self._columns
        held = [*rows[::c], *rows[2::c], *(rows[3::c] if c > 3 else ())]
        return held if c == 3 or rows[4] is None else [*held, *rows[4::c]]

    def _look(self, rows):
        several = [*rows[:: self._columns], *rows[1 :: self._columns]]
        return list(map(_LOOK, several)), list(map(torch.Tensor.size, several))

    def fits(self, rows):
        """Tell whether these are the same tensors in the same places, with gradients like those before."""
        lasting = self._lasting(rows)
        return (
            list(map(id, lasting)) == self._ids
            and list(map(torch.Tensor.data_ptr, lasting)) == self._places
            and self._look(rows) == self._looks
            and all(map(torch.Tensor.is_contiguous, rows[1 :: self._columns]))
            and (self._columns == 3 or not any(isinstance(s, torch.Tensor) and s.is_cuda for s in rows[5::6]))
        )

    def tables(self, rows):
        """Return the tables with gradients where they are now."""
        grads = list(map(torch.Tensor.data_ptr, rows[1 :: self._columns]))
        if grads != self._grads:
            for table in self._tables:
                table.move(grads)
            self._grads = grads
        return self._tables


_LOOK = attrgetter("dtype", "device", "layout")
_known = WeakTensorKeyDictionary()
"""First parameter of a step → what is known of all of them."""


def _adamw(numbers, rows):
    lr, beta1, beta2, eps, decay, up = numbers
    counters = [step for step in rows[5::6] if isinstance(step, torch.Tensor)]
    if counters:
        torch._foreach_add_(counters, 1.0)
    steps = list(map(float, rows[5::6]))
    for table in _known[rows[0]].tables(rows):
        mine = [steps[i] for i in table.mine]
        rates = [(lr / (1 - beta1**t), (1 - beta2**t) ** 0.5) for t in dict.fromkeys(mine)]
        alike, each = len(rates) == 1, table.on_gpu
        if not alike:
            of = dict(zip(dict.fromkeys(mine), rates, strict=True))
            each = torch.tensor([of[t] for t in mine]).to(table.device, non_blocking=True)
        adamw[(table.programs,)](
            table.on_gpu, each, *rates[0], len(mine), 1 - lr * decay, 1 - beta1, beta2, 1 - beta2, eps, UP=bool(up),
            ALIKE=alike, LARGEST=table.largest, CHUNK=_CHUNK, BLOCK=_BLOCK, num_warps=4, **table.how,
        )  # fmt: skip


def _lion(numbers, rows):
    lr, beta1, beta2, decay, up = numbers
    for table in _known[rows[0]].tables(rows):
        lion[(table.programs,)](
            table.on_gpu, len(table.mine), 1 - lr * decay, lr, 1 - beta1, 1 - beta2, UP=bool(up), CHUNK=_CHUNK,
            BLOCK=_BLOCK, num_warps=4, **table.how,
        )  # fmt: skip


def _serves(numbers, rows, columns):  # noqa: ARG001
    """Serve contiguous parameters on one GPU, with float32 states of their shapes and counters on the processor."""
    if columns > 3 and rows[0].is_cuda and torch.cuda.is_current_stream_capturing():
        return "steps are counted on the processor, which a graph would not repeat"
    known = _known.get(rows[0])
    if known is not None and known.fits(rows):
        return None
    why = _refusal(rows, columns)
    if why is None:
        _known[rows[0]] = _Known(rows, columns)
    return why


def _refusal(rows, columns):
    """Return why a step is not served, looking at every tensor."""
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
