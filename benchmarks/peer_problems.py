"""Problems of `benchmarks.peers_cpu`: what people run on CPUs, each a model of a few lines and its inputs."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch

_TEXT = '''"""{name}."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}
        self.eval().to(torch.{dtype})

    def forward(self, {arguments}):
{body}


def get_inputs():
    made = [{inputs}]
    return [x.to(torch.{dtype}) if x.is_floating_point() else x for x in made]


def get_init_inputs():
    return []
'''


@dataclass
class Example:
    """A problem's model and inputs, for one measurement."""

    name: str
    group: str
    model: torch.nn.Module
    inputs: list[torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One problem; it becomes a file, which torch imports and the project loads as a task."""

    name: str
    group: str
    body: str
    """What `forward` does with `x`, `y`, `z`; an expression, or lines."""
    inputs: tuple[str, ...]
    """How each input is drawn."""
    made: str = ""
    """Lines of the constructor."""

    @property
    def file_name(self) -> str:
        """A name for its file."""
        return "".join(c if c.isalnum() else "_" for c in self.name)

    def text(self, dtype: str) -> str:
        """Return the file."""
        lines = self.body.splitlines()
        lines = [*lines[:-1], f"return {lines[-1]}"]
        return _TEXT.format(
            name=self.name, dtype=dtype, arguments=", ".join("xyz"[: len(self.inputs)]),
            inputs=", ".join(self.inputs), body="\n".join(f"        {line}" for line in lines),
            made="\n".join(f"        {line}" for line in self.made.splitlines()),
        )  # fmt: skip

    def example(self, path: Path) -> Example:
        """Import its file and draw weights and inputs."""
        spec = importlib.util.spec_from_file_location(self.file_name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        return Example(self.name, self.group, module.Model(), module.get_inputs())


def _draw(*shape: int) -> str:
    return f"torch.randn({', '.join(map(str, shape))})"


def _conv(name: str, layer: str, *shape: int, after: str = "{}") -> Case:
    return Case(
        name, "convolution", after.format("self.conv(x)"), (_draw(*shape),), f"self.conv = nn.{layer}"
    )


_NORM = "self.w = nn.Parameter(torch.randn({}))"
_MLP = "self.a, self.b, self.c = (nn.Linear({0}, {1}, bias=False), nn.Linear({0}, {1}, bias=False), nn.Linear({1}, {0}, bias=False))"
_FOUR_LINES = "s = x @ y.transpose(-1, -2) * {scale}\n{mask}s = torch.softmax(s, dim=-1)\ns @ z"
_CAUSAL = "s = s.masked_fill(torch.ones({n}, {n}, dtype=torch.bool).tril() == 0, float('-inf'))\n"

PROBLEMS = (
    Case("rms norm of a residual sum", "memory", "h = x + y\nh * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w",
         (_draw(4096, 2048), _draw(4096, 2048)), _NORM.format(2048)),
    Case("layer norm, gelu", "memory", "F.gelu(self.norm(x))", (_draw(8192, 1024),), "self.norm = nn.LayerNorm(1024)"),
    Case("group norm, silu", "memory", "F.silu(self.norm(x))", (_draw(4, 320, 64, 64),), "self.norm = nn.GroupNorm(32, 320)"),
    Case("instance norm", "memory", "F.instance_norm(x)", (_draw(8, 64, 128, 128),)),
    Case("batch norm, relu", "memory", "F.relu(self.norm(x))", (_draw(32, 64, 56, 56),), "self.norm = nn.BatchNorm2d(64)"),
    Case("l2 normalise", "memory", "F.normalize(x, dim=-1)", (_draw(8192, 1024),)),
    Case("swiglu, elementwise", "memory", "a, b = x.chunk(2, dim=-1)\nF.silu(a) * b", (_draw(2048, 11264),)),
    Case("chain of twelve", "memory",
         "h = x * 1.5 + 0.5\nh = h * h - 0.25\nh = torch.relu(h) * 0.75 + x\nh = h * h + 1.0\nh = h * 0.5 - x\ntorch.relu(h) + 0.125",
         (_draw(4096, 4096),)),
    Case("rms norm, in cache", "memory", "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w",
         (_draw(128, 1024),), _NORM.format(1024)),
    Case("gelu, in cache", "memory", "F.gelu(x)", (_draw(128, 1024),)),
    Case("softmax, in cache", "memory", "torch.softmax(x, dim=-1)", (_draw(256, 512),)),
    Case("log softmax, in cache", "memory", "torch.log_softmax(x, dim=-1)", (_draw(256, 512),)),
    Case("layer norm, in cache", "memory", "self.norm(x)", (_draw(256, 768),), "self.norm = nn.LayerNorm(768)"),
    Case("exponential of a sum", "memory", "torch.exp(x + y)", (_draw(1024, 1024), _draw(1024, 1024))),
    Case("sigmoid gate", "memory", "torch.sigmoid(x) * y", (_draw(1024, 1024), _draw(1024, 1024))),
    Case("mish", "memory", "F.mish(x)", (_draw(1024, 1024),)),
    Case("tanh", "memory", "torch.tanh(x)", (_draw(2048, 2048),)),
    Case("variance of rows", "memory", "x.var(-1)", (_draw(2048, 1024),)),
    Case("largest of columns", "memory", "x.amax(0)", (_draw(2048, 1024),)),
    Case("positions of the largest", "memory", "x.argmax(-1)", (_draw(1024, 4096),)),
    Case("turned and added", "memory", "x.t() + y", (_draw(1024, 1024), _draw(1024, 1024))),
    Case(
        "channels to tokens, GELU", "memory", "F.gelu(x.transpose(1, 2)) * y", (_draw(16, 96, 1024), _draw(16, 1024, 96))
    ),
    Case("rotary embedding", "memory", "a, b = x.chunk(2, dim=-1)\nx * y + torch.cat((-b, a), dim=-1) * z",
         (_draw(8, 16, 256, 64), _draw(256, 64), _draw(256, 64))),
    Case("softmax of long rows", "long rows", "torch.softmax(x, dim=-1)", (_draw(64, 131072),)),
    Case("log softmax of long rows", "long rows", "torch.log_softmax(x, dim=-1)", (_draw(512, 32000),)),
    Case("layer norm of long rows", "long rows", "F.layer_norm(x, (65536,))", (_draw(128, 65536),)),
    Case("softmax of few rows", "long rows", "torch.softmax(x, dim=-1)", (_draw(2, 262144),)),
    Case("cross entropy", "losses", "F.cross_entropy(x, y)", (_draw(512, 32000), "torch.randint(0, 32000, (512,))")),
    Case("mean squared error", "losses", "F.mse_loss(x, y)", (_draw(4096, 1024), _draw(4096, 1024))),
    Case("huber loss", "losses", "F.huber_loss(x, y)", (_draw(1024, 1024), _draw(1024, 1024))),
    Case("kl divergence", "losses", "F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction='batchmean')",
         (_draw(1024, 8192), _draw(1024, 8192))),
    Case("cumulative sum", "scans", "torch.cumsum(x, dim=-1)", (_draw(512, 16384),)),
    Case("cumulative sum of columns", "scans", "torch.cumsum(x, dim=0)", (_draw(4096, 1024),)),
    Case("embedding", "lookups", "self.table(x)", ("torch.randint(0, 32000, (8, 512))",), "self.table = nn.Embedding(32000, 1024)"),
    Case("embedding, summed", "lookups", "self.table(x).sum(1)", ("torch.randint(0, 32000, (256, 32))",), "self.table = nn.Embedding(32000, 256)"),
    Case("bilinear, twice the size", "image", "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)", (_draw(8, 16, 128, 128),)),
    Case("image normalised", "image", "(x / 255 - self.m) / self.s", ("torch.rand(8, 3, 512, 512) * 255",),
         "self.m = nn.Parameter(torch.rand(3, 1, 1))\nself.s = nn.Parameter(torch.rand(3, 1, 1) + 0.5)"),
    Case("add of a thousand", "small", "x + y", (_draw(1024), _draw(1024))),
    Case("bias and relu of a row", "small", "F.relu(x + y)", (_draw(1, 4096), _draw(4096))),
    *(Case(f"linear, gelu, {m} rows", "products", "F.gelu(self.f(x))", (_draw(m, 1024),), "self.f = nn.Linear(1024, 4096)")
      for m in (1, 16, 256, 2048)),
    Case("swiglu mlp, 1 row", "products", "self.c(F.silu(self.a(x)) * self.b(x))", (_draw(1, 2048),), _MLP.format(2048, 5632)),
    Case("swiglu mlp, 256 rows", "products", "self.c(F.silu(self.a(x)) * self.b(x))", (_draw(256, 768),), _MLP.format(768, 2048)),
    Case("linear, residual, layer norm", "products", "self.n(x + self.f(x))", (_draw(512, 1024),), "self.f = nn.Linear(1024, 1024)\nself.n = nn.LayerNorm(1024)"),
    Case("batched products", "products", "x @ y", (_draw(32, 256, 64), _draw(32, 64, 256))),
    _conv("conv 1x1", "Conv2d(256, 256, 1)", 4, 256, 28, 28),
    Case("conv 3x3, norm, relu, pool", "convolution", "F.max_pool2d(F.relu(self.n(self.conv(x))), 2)", (_draw(8, 32, 112, 112),),
         "self.conv = nn.Conv2d(32, 64, 3, padding=1, bias=False)\nself.n = nn.BatchNorm2d(64)"),
    _conv("conv 3x3, relu", "Conv2d(64, 64, 3, padding=1)", 8, 64, 56, 56, after="F.relu({})"),
    _conv("conv 3x3, stride 2", "Conv2d(64, 128, 3, stride=2, padding=1)", 8, 64, 56, 56),
    _conv("conv 7x7, stride 2", "Conv2d(3, 64, 7, stride=2, padding=3)", 4, 3, 224, 224),
    _conv("conv grouped by 32", "Conv2d(256, 256, 3, padding=1, groups=32)", 4, 256, 28, 28),
    _conv("depthwise 7x7", "Conv2d(96, 96, 7, padding=3, groups=96)", 8, 96, 56, 56),
    _conv("depthwise 5x5", "Conv2d(192, 192, 5, padding=2, groups=192)", 8, 192, 28, 28),
    _conv("depthwise 3x3, relu6", "Conv2d(192, 192, 3, padding=1, groups=192)", 8, 192, 28, 28, after="F.relu6({})"),
    _conv("transposed 4x4, stride 2", "ConvTranspose2d(128, 64, 4, stride=2, padding=1)", 4, 128, 28, 28),
    _conv("conv of a sequence", "Conv1d(256, 256, 9, padding=4)", 8, 256, 512),
    _conv("conv of volumes", "Conv3d(16, 32, 3, padding=1)", 2, 16, 16, 32, 32),
    Case("max pool 3x3", "pooling", "F.max_pool2d(x, 3, stride=2, padding=1)", (_draw(8, 64, 112, 112),)),
    Case("average pool 2x2", "pooling", "F.avg_pool2d(x, 2)", (_draw(8, 64, 112, 112),)),
    Case("mean over positions", "pooling", "x.mean((2, 3))", (_draw(16, 512, 28, 28),)),
    Case("attention in four lines", "attention", _FOUR_LINES.format(scale=0.125, mask=""), (_draw(2, 8, 1024, 64),) * 3),
    Case("attention, causal", "attention", _FOUR_LINES.format(scale=0.125, mask=_CAUSAL.format(n=1024)), (_draw(2, 8, 1024, 64),) * 3),
    Case("attention by sdpa", "attention", "F.scaled_dot_product_attention(x, y, z)", (_draw(2, 8, 1024, 64),) * 3),
    Case("attention, one query", "attention", _FOUR_LINES.format(scale=0.0884, mask=""),
         (_draw(1, 32, 1, 128), _draw(1, 32, 4096, 128), _draw(1, 32, 4096, 128))),
)  # fmt: skip
"""All problems."""
