"""Models of physics, chemistry and biology."""

import torch
import transformers
from _made import of
from torch import nn


def esm():
    sizes = {"position_embedding_type": "rotary", "vocab_size": 33, "mask_token_id": 32}
    model = of(transformers, "EsmConfig", "EsmModel", **sizes)
    return model, {"input_ids": torch.randint(4, 30, (1, 64))}


class Spectral(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self, width=32, modes=8):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.skip = nn.Conv2d(width, width, 1)

    def forward(self, x):
        m = self.modes
        spectrum = torch.fft.rfft2(x)
        mixed = torch.zeros_like(spectrum)
        mixed[:, :, :m, :m] = torch.einsum(
            "bixy,ioxy->boxy", spectrum[:, :, :m, :m], torch.view_as_complex(self.weight)
        )
        return nn.functional.gelu(torch.fft.irfft2(mixed, s=x.shape[-2:]) + self.skip(x))


def fourier_operator():
    torch.manual_seed(0)
    parts = [nn.Conv2d(3, 32, 1), *(Spectral() for _ in range(3)), nn.Conv2d(32, 1, 1)]
    return nn.Sequential(*parts).eval(), (torch.randn(2, 3, 32, 32),)


def physics_informed():
    torch.manual_seed(0)
    parts = [nn.Linear(3, 128), nn.Tanh()]
    for _ in range(5):
        parts += [nn.Linear(128, 128), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(128, 1)).eval(), (torch.randn(4096, 3),)


class PointNet(nn.Module):
    """Points to a class: the same layers for each point, then their maximum."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Conv1d(128, 512, 1), nn.BatchNorm1d(512),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return torch.log_softmax(self.head(self.each(x).amax(-1)), -1)


def point_cloud():
    torch.manual_seed(0)
    return PointNet().eval(), (torch.randn(4, 3, 512),)


class UNet(nn.Module):
    """Segmentation of medical images: down, up, and skips."""

    def __init__(self, width=16):
        super().__init__()
        self.down = nn.ModuleList(
            self.block(i, o) for i, o in ((1, width), (width, 2 * width), (2 * width, 4 * width))
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, i // 2, 2, stride=2) for i in (4 * width, 2 * width))
        self.join = nn.ModuleList(self.block(i, i // 2) for i in (4 * width, 2 * width))
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def block(inside, outside):
        parts = (nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())
        return nn.Sequential(
            *parts, nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()
        )

    def forward(self, x):
        kept = []
        for at, block in enumerate(self.down):
            x = block(x if not at else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = join(torch.cat((up(x), skip), 1))
        return self.head(x)


def medical_unet():
    torch.manual_seed(0)
    return UNet().eval(), (torch.randn(1, 1, 64, 64),)


def patch_series():
    sizes = {
        "context_length": 64,
        "patch_length": 8,
        "patch_stride": 8,
        "num_input_channels": 2,
        "prediction_length": 16,
    }
    model = of(transformers, "PatchTSTConfig", "PatchTSTModel", **sizes)
    return model, {"past_values": torch.randn(4, 64, 2)}
