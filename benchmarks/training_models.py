"""Ten small models whose result is their loss, and batches that something can be learnt from: `benchmarks.training`.

`MORE` has two that draw random numbers, or change running statistics.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

Batch = tuple[torch.Tensor, ...]


class Block(nn.Module):
    """A pre-norm transformer block."""

    causal = True

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add attention and two products."""
        batch, tokens, width = x.shape
        q, k, v = (
            self.mixed(self.first(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        found: torch.Tensor = x + self.down(functional.gelu(self.up(self.second(x))))
        return found


class Gpt(nn.Module):
    """A causal language model with its loss."""

    def __init__(self, vocabulary: int = 256, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss of the next tokens."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), wanted.flatten())


class Mlp(nn.Module):
    """A residual classifier of vectors with its loss."""

    def __init__(self, width: int = 128, layers: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss of the classes."""
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + functional.silu(layer(norm(x)))
        return functional.cross_entropy(self.head(x), wanted)


def gpt() -> tuple[nn.Module, Batch]:
    """Return the language model and a batch of text whose next token follows from the last."""
    torch.manual_seed(0)
    return Gpt(), gpt_batch(0)


def mlp() -> tuple[nn.Module, Batch]:
    """Return the classifier and a batch."""
    torch.manual_seed(0)
    return Mlp(), mlp_batch(0)


def gpt_batch(seed: int) -> Batch:
    """Return tokens and the tokens after them: twice the last, plus one."""
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(0, 256, (4, 1), generator=generator)]
    for _ in range(32):
        tokens.append((2 * tokens[-1] + 1) % 251)
    text = torch.cat(tokens, 1)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def mlp_batch(seed: int) -> Batch:
    """Return vectors and which of their first ten elements is the largest."""
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :10].argmax(1)


class Gated(nn.Module):
    """A block of RMS norms, causal attention and a gated product, as of Llama."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(a, b, bias=False)
            for a, b in ((width, 2 * width), (width, 2 * width), (2 * width, width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add attention and the gated product."""
        batch, tokens, width = x.shape
        q, k, v = (
            self.mixed(self.first(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        y = self.second(x)
        found: torch.Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return found


class Mixer(nn.Module):
    """A block that mixes patches, then channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(
            nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches)
        )
        self.along = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix both ways."""
        x = x + self.across(self.first(x).transpose(1, 2)).transpose(1, 2)
        found: torch.Tensor = x + self.along(self.second(x))
        return found


class Lossy(nn.Module):
    """A body and a loss of its result and what is wanted."""

    def __init__(self, body: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.body, self.loss = body, loss

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        found: torch.Tensor = self.loss(self.body(x), wanted)
        return found


class Patches(nn.Module):
    """Patches of an image through blocks, and classes from their mean."""

    def __init__(self, blocks: list[nn.Module], width: int = 64, patch: int = 4) -> None:
        super().__init__()
        self.patch, self.embed = patch, nn.Linear(3 * patch * patch, width)
        self.blocks, self.norm, self.head = nn.Sequential(*blocks), nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores of the classes."""
        cut = x.unfold(2, self.patch, self.patch).unfold(3, self.patch, self.patch)
        rows = cut.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)
        found: torch.Tensor = self.head(self.norm(self.blocks(self.embed(rows))).mean(1))
        return found


class Tables(nn.Module):
    """Embeddings of categories next to numbers, and a head: recommendation."""

    def __init__(self, tables: int = 6, rows: int = 100, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.head = nn.Sequential(
            nn.Linear(13 + tables * width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, x: torch.Tensor, categories: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the loss of the clicks."""
        rows = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return functional.binary_cross_entropy_with_logits(self.head(torch.cat([x, *rows], 1))[:, 0], wanted)


class Convolved(nn.Module):
    """Residual convolutions along time between normed channels."""

    def __init__(self, channels: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.into, self.out = nn.Conv1d(4, channels, 5, padding=2), nn.Conv1d(channels, 1, 1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, channels) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Conv1d(channels, channels, 3, padding=1) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one channel."""
        x = self.into(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + functional.silu(layer(norm(x)))
        found: torch.Tensor = self.out(x)
        return found


class Neighbours(nn.Module):
    """Two layers on a graph as a dense matrix."""

    def __init__(self, nodes: int = 200, width: int = 32) -> None:
        super().__init__()
        links = (
            torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(0)).lt(0.05)
            | torch.eye(nodes).bool()
        )
        self.register_buffer("links", links / links.sum(1, keepdim=True))
        self.first, self.second = nn.Linear(16, width), nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores of the nodes' classes."""
        found: torch.Tensor = self.links @ self.second(torch.relu(self.links @ self.first(x)))  # type: ignore[operator]
        return found


def _made(build: Callable[[], nn.Module], batch: Callable[[int], Batch]) -> tuple[nn.Module, Batch]:
    torch.manual_seed(0)
    return build(), batch(0)


def llama() -> tuple[nn.Module, Batch]:
    """Return a language model of gated blocks."""

    def build() -> nn.Module:
        model = Gpt()
        model.layers = nn.ModuleList(Gated(64, 4) for _ in range(2))
        return model

    return _made(build, gpt_batch)


def vit() -> tuple[nn.Module, Batch]:
    """Return a classifier of images by attention over patches."""
    return _made(
        lambda: Lossy(Patches([_Seeing(64, 4) for _ in range(2)]), nn.CrossEntropyLoss()), image_batch
    )


def mixer() -> tuple[nn.Module, Batch]:
    """Return a classifier of images by mixing patches."""
    return _made(
        lambda: Lossy(Patches([Mixer(16, 64) for _ in range(2)]), nn.CrossEntropyLoss()), image_batch
    )


def cnn() -> tuple[nn.Module, Batch]:
    """Return a classifier of images by convolutions."""

    def build() -> nn.Module:
        body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip
        return Lossy(body, nn.CrossEntropyLoss())

    return _made(build, image_batch)


def autoencoder() -> tuple[nn.Module, Batch]:
    """Return an autoencoder of vectors."""
    sizes = (128, 96, 32, 96, 128)

    def build() -> nn.Module:
        layers = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), nn.GELU())]
        return Lossy(nn.Sequential(*layers[:-1]), nn.MSELoss())

    return _made(build, same_batch)


def clicks() -> tuple[nn.Module, Batch]:
    """Return a model of clicks."""
    return _made(Tables, click_batch)


def series() -> tuple[nn.Module, Batch]:
    """Return a forecaster of time series."""
    return _made(lambda: Lossy(Convolved(), nn.HuberLoss()), series_batch)


def graph() -> tuple[nn.Module, Batch]:
    """Return a classifier of a graph's nodes."""
    return _made(lambda: Lossy(Neighbours(), nn.CrossEntropyLoss()), node_batch)


def batch_norm() -> tuple[nn.Module, Batch]:
    """Return a classifier of images by residual convolutions between batch norms."""

    def build() -> nn.Module:
        body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Normed(16), Normed(16),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
        )  # fmt: skip
        return Lossy(body, nn.CrossEntropyLoss())

    return _made(build, image_batch)


def dropout() -> tuple[nn.Module, Batch]:
    """Return a language model that drops embeddings and what each block adds."""

    def build() -> nn.Module:
        model = Gpt()
        model.embed = nn.Sequential(model.embed, nn.Dropout(0.1))  # type: ignore[assignment]
        model.layers = nn.ModuleList(nn.Sequential(layer, nn.Dropout(0.1)) for layer in model.layers)
        return model

    return _made(build, gpt_batch)


class Normed(nn.Module):
    """A residual block of two convolutions with batch norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the convolutions find."""
        found: torch.Tensor = torch.relu(x + self.parts(x))
        return found


class _Seeing(Block):
    """A pre-norm block that sees both ways."""

    causal = False


def image_batch(seed: int) -> Batch:
    """Return images, and which of ten places of the first channel is brightest."""
    x = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    return x, x[:, 0, 0, :10].argmax(1)


def same_batch(seed: int) -> Batch:
    """Return vectors of few directions, twice."""
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(seed)).repeat(1, 16)
    return x, x.clone()


def click_batch(seed: int) -> Batch:
    """Return numbers, categories, and whether the first number and category say yes."""
    generator = torch.Generator().manual_seed(seed)
    x, at = torch.randn(128, 13, generator=generator), torch.randint(0, 100, (128, 6), generator=generator)
    return x, at, (x[:, 0] + at[:, 0] / 50 > 1).float()


def series_batch(seed: int) -> Batch:
    """Return four series, and the mean of their neighbours in time."""
    x = torch.randn(8, 4, 128, generator=torch.Generator().manual_seed(seed))
    return x, functional.avg_pool1d(x, 3, stride=1, padding=1).mean(1, keepdim=True)


def node_batch(seed: int) -> Batch:
    """Return features of nodes, and which of the first four is the largest."""
    x = torch.randn(200, 16, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :4].argmax(1)


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Batch]], Callable[[int], Batch]]] = {
    "gpt": (gpt, gpt_batch), "mlp": (mlp, mlp_batch), "llama": (llama, gpt_batch), "vit": (vit, image_batch),
    "mixer": (mixer, image_batch), "cnn": (cnn, image_batch), "autoencoder": (autoencoder, same_batch),
    "clicks": (clicks, click_batch), "series": (series, series_batch), "graph": (graph, node_batch),
}  # fmt: skip
"""What makes each model with a batch, and further batches by seed."""
MORE: dict[str, tuple[Callable[[], tuple[nn.Module, Batch]], Callable[[int], Batch]]] = {
    "batch_norm": (batch_norm, image_batch), "dropout": (dropout, gpt_batch),
}  # fmt: skip
"""Models that are judged by name alone."""
