"""Tensor → Python text that makes it again, compressed."""

import base64
import zlib

import torch

_MOST_BYTES, _MOST_PACKED_BYTES = 1 << 24, 1 << 20
"""Bytes of a tensor that is written down, before and after it is compressed."""

UNPACK = """

def _unpacked(text, shape, dtype):
    import base64
    import zlib

    raw = bytearray(zlib.decompress(base64.b85decode(text))) if text else bytearray()
    return torch.frombuffer(raw, dtype=dtype).reshape(shape).clone() if raw else torch.empty(shape, dtype=dtype)
"""
"""Defines what a packed tensor's text calls; `torch` must be imported above it."""


def packed(value: torch.Tensor) -> str | None:
    """Return Python that makes a tensor of the same values, where `UNPACK` stands above; None if it is too large.

    Example:
        >>> packed(torch.zeros(2)).endswith(", (2,), torch.float32)"), packed(torch.zeros(1 << 23))
        (True, None)
    """
    if value.layout is not torch.strided or value.numel() * value.element_size() > _MOST_BYTES:
        return None
    data = value.detach().cpu().contiguous()
    raw = zlib.compress(data.reshape(-1).view(torch.uint8).numpy().tobytes(), 9) if data.numel() else b""
    if len(raw) > _MOST_PACKED_BYTES:
        return None
    return f"_unpacked({base64.b85encode(raw).decode()!r}, {tuple(value.shape)}, {value.dtype})"
