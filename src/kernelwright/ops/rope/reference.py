"""References of rotary embedding: torch alone, in float32 or wider, rounded once."""

import torch


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
    heads_first: bool = False,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q and k with their first elements turned by the angles of their positions."""
    length = q.shape[2 if heads_first else 1]
    if positions is None:
        positions = torch.arange(length, device=q.device).expand(q.shape[0], length)
    if positions.numel() and not (positions.min() >= 0 and positions.max() < len(cos)):
        raise ValueError(
            f"rope.rope: positions is out of range somewhere; expected 0 to {len(cos) - 1}, the rows of cos"
        )
    axis = 1 if heads_first else 2
    c, s = (table[positions].unsqueeze(axis) for table in (cos, sin))
    s = -s if inverse else s
    return _turned(q, c, s, interleaved), _turned(k, c, s, interleaved)


def _turned(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor, interleaved: bool) -> torch.Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    half = c.shape[-1]
    turned, rest = x[..., : 2 * half].to(wide), x[..., 2 * half :]
    if interleaved:
        a, b = turned[..., ::2], turned[..., 1::2]
    else:
        a, b = turned[..., :half], turned[..., half:]
    c, s = c.to(wide), s.to(wide)
    first, second = a * c - b * s, b * c + a * s
    out = torch.stack([first, second], -1).flatten(-2) if interleaved else torch.cat([first, second], -1)
    return torch.cat([out.to(x.dtype), rest], -1)
