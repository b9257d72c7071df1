"""`train`: forward and backward as one call, steps of optimizers, and what surrounds them."""

from ._row import Row, Size
from ._written import Written

_SIZES: dict[str, Size] = {
    "rows": (16, 48), "dim": (24, 72), "inner": (24, 72), "classes": (20, 60), "batch": (2, 4), "heads": (2, 3),
    "seq": (12, 28), "channels": (4, 8), "side": (8, 14), "slots": (30, 60), "half": (8, 16),
}  # fmt: skip
_X = {"x": "float32[rows, dim]"}
_PAIR = {**_X, "y": "float32[rows, dim]"}
_W = {"w": "float32[dim]"}
_IMAGE = {"x": "float32[batch, channels, side, side]"}
_LOGITS = {"x": "float32[rows, classes]", "target": "int64[rows] index(classes)"}
_QKV = {name: "float32[batch, heads, seq, half]" for name in ("q", "k", "v")}
_PARAMETER = {"w": "float32[rows, dim]", "g": "float32[rows, dim]"}
_M = {"m": "float32[rows, dim] normal(0.1)"}
_V = {"v": "float32[rows, dim] uniform(0.01, 0.1)"}

_Told = tuple[str, dict[str, str], str]
"""Name, arguments, the function's lines."""

_BACKWARD: tuple[_Told, ...] = (
    ("linear", {**_X, "w": "float32[inner, dim]", "b": "float32[inner]"}, "return F.linear(x, w, b)"),
    ("linear_gelu", {**_X, "w": "float32[inner, dim] normal(0.2)"}, "return F.gelu(F.linear(x, w))"),
    ("swiglu", {**_X, "gate": "float32[inner, dim] normal(0.2)", "up": "float32[inner, dim] normal(0.2)"},
     "return F.silu(x @ gate.mT) * (x @ up.mT)"),
    ("gated_tanh", _PAIR, "return torch.tanh(x) * torch.sigmoid(y)"),
    ("softplus", _X, "return F.softplus(x)"),
    ("mish", _X, "return F.mish(x)"),
    ("squared_relu", _X, "return x.relu().square()"),
    ("prelu", {**_X, "w": "float32[1] uniform(0.1, 0.4)"}, "return F.prelu(x, w)"),
    ("softmax", _X, "return torch.softmax(x, -1)"),
    ("log_softmax", _X, "return torch.log_softmax(x, -1)"),
    ("layer_norm", {**_X, **_W, "b": "float32[dim]"}, "return F.layer_norm(x, x.shape[-1:], w, b)"),
    ("rms_norm", {**_X, **_W}, "return F.rms_norm(x, x.shape[-1:], w, 1e-5)"),
    ("residual_rms_norm", {**_PAIR, **_W}, "h = x + y\nreturn F.rms_norm(h, h.shape[-1:], w, 1e-5), h"),
    ("l2_normalised", _X, "return F.normalize(x, dim=-1)"),
    ("group_norm", {"x": "float32[batch, 2 * channels, side, side]", "w": "float32[2 * channels]"},
     "return F.group_norm(x, 2, w)"),
    ("batch_norm", {**_IMAGE, "w": "float32[channels]", "b": "float32[channels]"},
     "return F.batch_norm(x, None, None, w, b, training=True)"),
    ("convolution", {**_IMAGE, "w": "float32[6, channels, 3, 3] normal(0.2)"}, "return F.conv2d(x, w, padding=1)"),
    ("depthwise", {**_IMAGE, "w": "float32[channels, 1, 3, 3]"}, "return F.conv2d(x, w, groups=x.shape[1])"),
    ("average_pool", _IMAGE, "return F.avg_pool2d(x, 2)"),
    ("upsampled", _IMAGE, "return F.interpolate(x, scale_factor=2.0, mode='bilinear')"),
    ("attention", _QKV, "return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v"),
    ("causal_attention", _QKV,
     "later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)\n"
     "return torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -math.inf), -1) @ v"),
    ("linear_attention", _QKV, "return F.elu(q) @ (F.elu(k).mT @ v) / q.shape[2]"),
    ("rotary", {"q": "float32[batch, heads, seq, 2 * half]", "angle": "float32[seq, half]"},
     "a, b = q.chunk(2, -1)\nc, s = angle.cos(), angle.sin()\nreturn torch.cat((a * c - b * s, a * s + b * c), -1)"),
    ("embedding", {"table": "float32[slots, dim]", "index": "int64[rows] index(slots)"}, "return table[index]"),
    ("embedding_bag", {"table": "float32[slots, dim]", "index": "int64[rows, 5] index(slots)"},
     "return table[index].mean(1)"),
    ("gathered_product", {**_X, "w": "float32[4, dim, inner] normal(0.2)", "expert": "int64[rows] index(4)"},
     "return (x[:, None, :] @ w[expert])[:, 0]"),
    ("cross_entropy", _LOGITS, "return F.cross_entropy(x, target, reduction='none')"),
    ("smoothed_cross_entropy", _LOGITS, "return F.cross_entropy(x, target, label_smoothing=0.1, reduction='none')"),
    ("cross_entropy_with_z", _LOGITS,
     "z = x.logsumexp(-1)\nreturn z - x.gather(1, target[:, None])[:, 0] + 1e-2 * z.square()"),
    ("divergence", _PAIR,
     "p, q = torch.log_softmax(x, -1), torch.log_softmax(y, -1)\nreturn (p.exp() * (p - q)).sum(-1)"),
    ("huber", _PAIR, "return F.huber_loss(x, y, reduction='none', delta=0.7).sum(-1)"),
    ("contrastive", _PAIR,
     "s = F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).mT / 0.2\nreturn s.logsumexp(-1) - s.diagonal()"),
    ("state_space", {"x": "float32[seq, dim]", "decay": "float32[dim] uniform(0.5, 0.95)"},
     "h, out = torch.zeros_like(decay), []\nfor t in range(x.shape[0]):\n    h = decay * h + x[t]\n    out.append(h)\n"
     "return torch.stack(out)"),
    ("gated_cell", {"x": "float32[rows, 4 * half]", "c": "float32[rows, half]"},
     "i, f, g, o = x.chunk(4, -1)\nc = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)\n"
     "return torch.sigmoid(o) * torch.tanh(c), c"),
)  # fmt: skip
_STEP: tuple[_Told, ...] = (
    ("sgd", _PARAMETER, "return w - 0.1 * (g + 0.01 * w)"),
    ("momentum", {**_PARAMETER, **_M}, "m = 0.9 * m + g\nreturn w - 0.1 * m, m"),
    ("nesterov", {**_PARAMETER, **_M}, "m = 0.9 * m + g\nreturn w - 0.1 * (g + 0.9 * m), m"),
    ("adam", {**_PARAMETER, **_M, **_V},
     "m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g\n"
     "return w - 0.05 * (m / (1 - 0.9**7)) / ((v / (1 - 0.99**7)).sqrt() + 1e-6), m, v"),
    ("adamw", {**_PARAMETER, **_M, **_V},
     "m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g\nreturn w * (1 - 0.05 * 0.1) - 0.05 * m / (v.sqrt() + 1e-6), m, v"),
    ("amsgrad", {**_PARAMETER, **_V, "largest": "float32[rows, dim] uniform(0.01, 0.2)"},
     "v = 0.95 * v + 0.05 * g * g\nlargest = torch.maximum(largest, v)\nreturn w - 0.05 * g / (largest.sqrt() + 1e-6), v, largest"),
    ("adagrad", {**_PARAMETER, **_V}, "v = v + g * g\nreturn w - 0.1 * g / (v.sqrt() + 1e-6), v"),
    ("rmsprop", {**_PARAMETER, **_V}, "v = 0.9 * v + 0.1 * g * g\nreturn w - 0.1 * g / (v.sqrt() + 1e-6), v"),
    ("adadelta", {**_PARAMETER, **_V, "d": "float32[rows, dim] uniform(0.01, 0.1)"},
     "v = 0.9 * v + 0.1 * g * g\nstep = g * ((d + 1e-4) / (v + 1e-4)).sqrt()\nreturn w - step, v, 0.9 * d + 0.1 * step * step"),
    ("lion", {**_PARAMETER, **_M}, "return w - 0.05 * (torch.sign(0.9 * m + 0.1 * g) + 0.1 * w), 0.99 * m + 0.01 * g"),
    ("adafactor", {**_PARAMETER, "r": "float32[rows] uniform(0.1, 1)", "c": "float32[dim] uniform(0.1, 1)"},
     "r, c = 0.9 * r + 0.1 * (g * g).mean(1), 0.9 * c + 0.1 * (g * g).mean(0)\n"
     "return w - 0.05 * g / (torch.outer(r, c) / r.mean()).sqrt(), r, c"),
    ("lamb", {**_PARAMETER, **_M, **_V},
     "step = m / (v.sqrt() + 1e-3) + 0.01 * w + g\nreturn w - 0.05 * step * w.norm() / step.norm()"),
    ("lars", _PARAMETER, "return w - 0.02 * g * w.norm(dim=1, keepdim=True) / (g.norm(dim=1, keepdim=True) + 1e-3)"),
    ("orthogonalised", {"g": "float32[half, dim]"},
     "x = g / g.norm()\nfor _ in range(3):\n    a = x @ x.mT\n    x = 1.5 * x - 0.5 * a @ x\nreturn x"),
    ("moving_average", {"w": "float32[rows, dim]", "average": "float32[rows, dim]"}, "return torch.lerp(average, w, 0.05)"),
    ("clipped_by_norm", {"g": "float32[rows, dim]"},
     "n = g.norm()\nreturn g * (1.0 / (n + 1e-6)).clamp(max=1.0), n"),
    ("unscaled", {"g": "float32[rows, dim] normal(1000)"}, "g = g / 1024.0\nreturn g, g.abs().amax()"),
    ("accumulated", {"g": "float32[rows, dim]", "more": "bfloat16[rows, dim]"}, "return g + more.float() / 4"),
    ("master_weights", {"w": "float32[rows, dim]", "g": "bfloat16[rows, dim]"},
     "w = w - 0.05 * g.float()\nreturn w, w.bfloat16()"),
    ("adam_in_place", {**_PARAMETER, **_M, **_V},
     "m.mul_(0.9).add_(0.1 * g)\nv.mul_(0.95).add_(0.05 * g * g)\nw.sub_(0.05 * m / (v.sqrt() + 1e-6))\nreturn w.norm(dim=1)"),
)  # fmt: skip


class Train(Written):
    """The suite of what training consists of."""

    name = "train"
    layout = ("train.json",)
    title = "Forward and backward as one call, and steps of optimizers"

    def rows(self) -> tuple[Row, ...]:
        """Return both kinds of problems."""
        return (
            *(_row(told, "backward", backward=True) for told in _BACKWARD),
            *(_row(told, "step", backward=False) for told in _STEP),
        )


def _row(told: _Told, group: str, *, backward: bool) -> Row:
    name, arguments, lines = told
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    declared = " ".join(arguments.values())
    description = f"{name.replace('_', ' ')}, " + (
        "forward and backward." if backward else "one step of an optimizer."
    )
    return Row(
        name, group, f"def _({', '.join(arguments)}):\n{body}", arguments,
        {k: v for k, v in _SIZES.items() if k in declared}, description, backward=backward,
    )  # fmt: skip
