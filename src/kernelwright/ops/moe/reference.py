"""References of mixtures of experts: torch alone; each expert multiplies the tokens that chose it."""

import torch
from torch import Tensor


def gate(
    logits: Tensor,
    bias: Tensor | None = None,
    chosen: int = 2,
    sigmoid: bool = False,
    groups: int = 1,
    kept: int = 1,
    best_of_group: int = 1,
    renormalised: bool = True,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the weights and the numbers of the experts that each row chooses, the first of equals."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = wide.sigmoid() if sigmoid else wide.softmax(1)
    by_logit = not sigmoid and bias is None and best_of_group == 1
    choice = wide if by_logit else scores if bias is None else scores + bias.to(wide.dtype)
    if groups > 1:
        parts = choice.view(len(choice), groups, choice.shape[1] // groups)
        best = parts.sort(2, descending=True).values[:, :, :best_of_group].sum(2)
        order = best.sort(dim=1, descending=True, stable=True).indices[:, :kept]
        open_groups = torch.zeros_like(best, dtype=torch.bool).scatter(1, order, True)
        choice = torch.where(open_groups.unsqueeze(2), parts, -torch.inf).flatten(1)
    ids = choice.sort(dim=1, descending=True, stable=True).indices[:, :chosen]
    return weights_of(logits, ids, sigmoid, renormalised, scale), ids


def weights_of(logits: Tensor, ids: Tensor, sigmoid: bool, renormalised: bool, scale: float) -> Tensor:
    """Return the weights of the experts that each row chose."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    weights = (wide.sigmoid() if sigmoid else wide.softmax(1)).gather(1, ids)
    if renormalised:
        weights = weights / weights.sum(1, keepdim=True).clamp(min=1e-20)
    return weights * scale


def plan(keys: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return an order in which equal keys lie together, and where each group begins; keys of no group come last."""
    known = torch.where((keys >= 0) & (keys < groups), keys, groups)
    sizes = (known.unsqueeze(1) == torch.arange(groups, device=keys.device)).sum(0)
    return known.sort(stable=True).indices, torch.nn.functional.pad(sizes.cumsum(0), (1, 0))


def weight_of(panels: Tensor, columns: int) -> Tensor:
    """Return [groups, columns, inner] of [groups, panels, inner, 2, 16], whose two members lie side by side."""
    return panels.flatten(3).transpose(2, 3).flatten(1, 2)[:, :columns]


def members_of(panels: Tensor) -> tuple[Tensor, Tensor]:
    """Return both members of panels, each [groups, columns, inner]."""
    one, two = (panels[:, :, :, i].transpose(2, 3).flatten(1, 2) for i in (0, 1))
    return one, two


def grouped(
    x: Tensor,
    panels: Tensor,
    offsets: Tensor,
    gather: Tensor | None = None,
    scatter: Tensor | None = None,
    weights: Tensor | None = None,
    rows: int = 1,
    columns: int = 1,
) -> Tensor:
    """Return [rows, columns]: rows of each group, times its weight, added to the rows that they belong to."""
    wide = torch.promote_types(x.dtype, torch.float32)
    w = weight_of(panels, columns).to(wide)
    count = int(offsets[-1])
    index = torch.arange(count, device=x.device) if gather is None else gather[:count]
    to = torch.arange(count, device=x.device) if scatter is None else scatter[:count]
    out = torch.zeros(rows, columns, dtype=wide, device=x.device)
    for group, (first, last) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        if first < last:
            products = x[index[first:last]].to(wide) @ w[group].T
            at = to[first:last]
            out = out.index_add(0, at, products if weights is None else products * weights[at, None].to(wide))
    return out.to(x.dtype)


def grouped_by_entry(
    x: Tensor,
    panels: Tensor,
    offsets: Tensor,
    gather: Tensor,
    scatter: Tensor,
    weights: Tensor,
    rows: int,
    columns: int,
) -> Tensor:
    """Return what `grouped` does by a product for each entry, for tasks: it looks at no value."""
    wide = torch.promote_types(x.dtype, torch.float32)
    w = weight_of(panels, columns).to(wide)
    entry = torch.arange(len(gather), device=x.device)
    group = torch.searchsorted(offsets, entry, right=True) - 1
    inside = (group >= 0) & (group < len(w))
    products = torch.bmm(w[group.clamp(0, len(w) - 1)], x[gather].to(wide)[:, :, None])[:, :, 0]
    products = torch.where(inside[:, None], products * weights[scatter, None].to(wide), 0)
    out = torch.zeros(rows, columns, dtype=wide, device=x.device).index_add(0, scatter, products)
    return out.to(x.dtype)


def experts(x: Tensor, ups: Tensor, downs: Tensor, weights: Tensor, ids: Tensor) -> Tensor:
    """Return the sum over a token's experts of weight * (silu(x @ gate.T) * (x @ up.T)) @ down.T."""
    wide = torch.promote_types(x.dtype, torch.float32)
    gates, others = members_of(ups)
    down = weight_of(downs, x.shape[1])
    out = torch.zeros(x.shape, dtype=wide, device=x.device)
    for expert in range(len(ups)):
        token, which = torch.where(ids == expert)
        if len(token):
            rows = x[token].to(wide)
            hidden = torch.nn.functional.silu(rows @ gates[expert].T.to(wide)) * (
                rows @ others[expert].T.to(wide)
            )
            products = (hidden @ down[expert].T.to(wide)) * weights[token, which, None].to(wide)
            out = out.index_add(0, token, products)
    return out.to(x.dtype)
