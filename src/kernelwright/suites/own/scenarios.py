"""`scenarios`: what breaks kernels that are right on one plain case.

Sizes that change from call to call, ragged rows, views, special values, several results, arguments changed in place.
"""

from ._row import Row, Size
from ._written import Written

_MANY: dict[str, Size] = {"rows": (3, 90), "columns": (5, 200)}
_PLANE: dict[str, Size] = {"rows": (24, 64), "columns": (24, 96)}
_X = {"x": "float32[rows, columns]"}
_XY = {**_X, "y": "float32[rows, columns]"}
_BATCH = {"x": "float32[batch, longest, dim]", "length": "int64[batch] integers(1, longest + 1)"}
_BATCHES: dict[str, Size] = {"batch": (4, 9), "longest": (12, 30), "dim": (8, 40)}
_SEGMENTS = {"x": "float32[total, dim]", "segment": "int64[total] sorted(0, count)"}
_SEGMENTED: dict[str, Size] = {"total": (120, 300), "dim": (8, 24), "count": 17}
_IN = "inside = torch.arange(x.shape[1]) < length[:, None]\n"
_EMPTY = "mask = torch.arange(x.shape[1]) < (torch.arange(x.shape[0]) % 4)[:, None] * x.shape[1]\n"

_Told = tuple[str, dict[str, str], str]
"""Name, arguments, the function's lines."""

_DYNAMIC: tuple[_Told, ...] = (
    ("softmax", _X, "return torch.softmax(x, -1)"),
    ("layer_norm", {**_X, "w": "float32[columns]"}, "return F.layer_norm(x, x.shape[-1:], w)"),
    ("cumsum", _X, "return x.cumsum(-1)"),
    ("transpose", _X, "return x.t().contiguous()"),
    ("sum_of_columns", _X, "return x.sum(0)"),
    ("outer", {"x": "float32[rows]", "y": "float32[columns]"}, "return torch.outer(x, y)"),
    ("product", {"x": "float32[rows, inner]", "y": "float32[inner, columns]"}, "return x @ y"),
    ("gelu_bias", {**_X, "b": "float32[columns]"}, "return F.gelu(x + b)"),
    ("argmax", _X, "return x.argmax(-1)"),
    ("standardised", _X, "return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 0.1).sqrt()"),
)  # fmt: skip
_RAGGED: tuple[_Told, ...] = (
    ("mean", _BATCH, _IN + "return (x * inside[..., None]).sum(1) / length[:, None]"),
    ("maximum", _BATCH, _IN + "return x.masked_fill(~inside[..., None], -math.inf).amax(1)"),
    ("softmax", _BATCH, _IN + "return torch.softmax(x.masked_fill(~inside[..., None], -math.inf), 1)"),
    ("log_sum_exp", _BATCH, _IN + "return x.masked_fill(~inside[..., None], -math.inf).logsumexp(1)"),
    ("last_row", _BATCH, "return x[torch.arange(x.shape[0]), length - 1]"),
    ("reversed", _BATCH,
     "at = torch.arange(x.shape[1])\nplace = torch.where(at < length[:, None], length[:, None] - 1 - at, at)\n"
     "return x.gather(1, place[..., None].expand_as(x))"),
    ("running_sum", _BATCH, _IN + "return (x * inside[..., None]).cumsum(1) * inside[..., None]"),
    ("segment_sum", _SEGMENTS, "return torch.zeros(17, x.shape[1]).index_add(0, segment, x)"),
    ("segment_softmax", _SEGMENTS,
     "e = x.clamp(-8, 8).exp()\ntotal = torch.zeros(17, x.shape[1]).index_add(0, segment, e)\nreturn e / total[segment]"),
    ("segment_centred", _SEGMENTS,
     "total = torch.zeros(17, x.shape[1]).index_add(0, segment, x)\ncount = torch.bincount(segment, minlength=17)\n"
     "return x - (total / count[:, None].clamp(min=1))[segment]"),
)  # fmt: skip
_STRIDED: tuple[_Told, ...] = (
    ("sum_of_transposed", {"x": "float32[rows, columns] transposed"}, "return x.sum(-1)"),
    ("softmax_of_strided", {"x": "float32[rows, columns] strided"}, "return torch.softmax(x, -1)"),
    ("mixed", {"x": "float32[rows, columns] transposed", "y": "float32[rows, columns] strided"}, "return torch.tanh(x) * y"),
    ("product", {"x": "float32[rows, columns] transposed", "y": "float32[columns, rows] strided"}, "return x @ y"),
    ("every_other_row", _X, "return x[::2] * 2 + 1"),
    ("backwards", _X, "return x.flip(-1).cumsum(-1)"),
    ("diagonal", {"x": "float32[batch, rows, rows] strided"}, "return x.diagonal(dim1=-2, dim2=-1) ** 2 + x.sum(-1)"),
    ("broadcast", {"x": "float32[rows, 1]", "y": "float32[1, columns] strided"}, "return torch.exp(-(x - y) ** 2)"),
    ("windows", _X, "return x.unfold(1, 5, 3).mean(-1)"),
    ("channels_last", {"x": "float32[batch, 6, rows, columns]"}, "return (x.permute(0, 2, 3, 1) * torch.arange(1.0, 7)).relu()"),
)  # fmt: skip
_SPECIAL: tuple[_Told, ...] = (
    ("softmax_of_empty_rows", _X, _EMPTY + "return torch.softmax(x.masked_fill(~mask, -math.inf), -1).nan_to_num(0.0)"),
    ("log_sum_exp_of_empty_rows", _X, _EMPTY + "return x.masked_fill(~mask, -math.inf).logsumexp(-1)"),
    ("quotient_by_zero", _XY, "return x / (y.relu() * 2).round()"),
    ("log_of_zero", _X, "return torch.log(x.relu())"),
    ("root_of_negatives", _X, "return torch.sqrt(x)"),
    ("nan_mean", _X, "return x.masked_fill(x < -1, math.nan).nanmean(-1)"),
    ("nan_maximum", _XY, "return torch.fmax(x.masked_fill(x > 1, math.nan), y)"),
    ("is_nan", _X, "return x.masked_fill(x > 0.5, math.nan).isnan()"),
    ("overflow_to_half", {"x": "float32[rows, columns] normal(70000)"}, "return x.to(torch.float16)"),
    ("infinite_sum", _X, "return x.masked_fill(x > 2.5, math.inf).sum(-1)"),
    ("power_of_zero", _XY, "return (x.relu() * 1.5) ** y.round()"),
    ("sign_of_zero", _XY, "return torch.copysign(y, x.round())"),
)  # fmt: skip
_OUTPUTS: tuple[_Told, ...] = (
    ("mean_and_variance", _X, "return x.mean(-1), x.var(-1, unbiased=False)"),
    ("largest_and_place", _X, "return x.max(-1)"),
    ("top_three", _X, "return x.topk(3, -1)"),
    ("sorted_and_order", _X, "return x.sort(-1)"),
    ("sum_and_product", _XY, "return x + y, x * y"),
    ("split", _X, "a, b = x[:, 0::2], x[:, 1::2]\nreturn a.sum(-1), b.contiguous()"),
    ("ends", _X, "return x.aminmax(dim=-1)"),
    ("norm_and_scale", _X, "n = x.norm(dim=-1)\nreturn x / (n[:, None] + 0.1), n"),
    ("three_dtypes", _X, "return x.half(), (x * 8).round().to(torch.int32), x > 0"),
    ("residual_and_norm", _XY, "h = x + y\nreturn F.rms_norm(h, h.shape[-1:]), h"),
)  # fmt: skip
_IN_PLACE: tuple[_Told, ...] = (
    ("add", _XY, "x += y\nreturn x"),
    ("relu_and_sum", _X, "x.relu_()\nreturn x.sum(-1)"),
    ("normalised", _X, "n = x.norm(dim=-1, keepdim=True) + 0.1\nx /= n\nreturn n"),
    ("running_mean", {**_X, "mean": "float32[columns]"}, "mean.mul_(0.9).add_(0.1 * x.mean(0))\nreturn x - mean"),
    ("cache_write", {"cache": "float32[slots, dim]", "x": "float32[rows, dim]", "slot": "int64[rows] sorted(0, slots)"},
     "keep = torch.ones_like(slot, dtype=torch.bool)\nkeep[:-1] = slot[1:] != slot[:-1]\n"
     "cache[slot[keep]] = x[keep]\nreturn cache.sum(-1)"),
    ("scatter_add", {"table": "float32[slots, dim]", "x": "float32[rows, dim]", "slot": "int64[rows] index(slots)"},
     "table.index_add_(0, slot, x)\nreturn table.mean(0)"),
    ("swap", _XY, "t = x.clone()\nx.copy_(y)\ny.copy_(t)\nreturn x - y"),
    ("clamp_and_count", _X, "n = (x.abs() > 1).sum(-1)\nx.clamp_(-1, 1)\nreturn n"),
    ("upper_half", {"x": "float32[rows, rows]"}, "x.triu_(1)\nreturn x.sum(0)"),
    ("momentum", {"w": "float32[rows, columns]", "m": "float32[rows, columns]", "g": "float32[rows, columns]"},
     "m.mul_(0.9).add_(g)\nw.sub_(0.01 * m)\nreturn m.abs().amax(-1)"),
)  # fmt: skip
_GROUPS: dict[str, tuple[tuple[_Told, ...], dict[str, Size], int]] = {
    "dynamic": (_DYNAMIC, {**_MANY, "inner": (4, 60)}, 5),
    "ragged": (_RAGGED, {**_BATCHES, **_SEGMENTED}, 1),
    "strided": (_STRIDED, {**_PLANE, "batch": (2, 4)}, 1),
    "special": (_SPECIAL, _PLANE, 1),
    "outputs": (_OUTPUTS, _PLANE, 1),
    "in_place": (_IN_PLACE, {**_PLANE, "slots": (30, 60), "dim": (16, 48)}, 1),
}
"""By group: its problems, the sizes that they may use, and how many of these each has."""


class Scenarios(Written):
    """The suite of awkward cases."""

    name = "scenarios"
    layout = ("scenarios.json",)
    title = "Dynamic sizes, ragged rows, views, special values, several results, arguments changed in place"

    def rows(self) -> tuple[Row, ...]:
        """Return the problems of every group."""
        return tuple(
            _row(told, group, sizes, count) for group, (problems, sizes, count) in _GROUPS.items() for told in problems
        )  # fmt: skip


def _row(told: _Told, group: str, sizes: dict[str, Size], count: int) -> Row:
    name, arguments, lines = told
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    declared = " ".join(arguments.values())
    return Row(
        name=f"{group}_{name}", group=group, code=f"def _({', '.join(arguments)}):\n{body}", arguments=arguments,
        sizes={k: v for k, v in sizes.items() if k in declared}, workloads=count, description=f"{group}: {name}.",
        fixed=tuple(k for k in ("count",) if k in declared),
    )  # fmt: skip
