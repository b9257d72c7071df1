"""References of embeddings: torch alone, in float32 or wider, rounded once."""

import torch

T = torch.Tensor


def wide(x: T) -> T:
    """Return x in float32, or as it is where it is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def embedding(weight: T, ids: T, padding: int = -1) -> T:  # noqa: ARG001
    """Return the rows of a table that are named; the padding matters to the gradient only."""
    return weight[ids.long()]


def embedding_backward(g: T, ids: T, rows: int, padding: int = -1) -> T:
    """Return the gradient of the table; the padding's row is zero."""
    named = ids.long().flatten()
    total = wide(g).new_zeros(rows, g.shape[-1])
    total.index_add_(0, named, wide(g).reshape(len(named), g.shape[-1]))
    if padding >= 0:
        total[padding] = 0
    return total.to(g.dtype)


def ends(ids: T, offsets: T, ended: bool) -> T:
    """Return where bags begin, and where the last ends."""
    return offsets if ended else torch.cat([offsets, offsets.new_full((1,), ids.shape[0])])


def bags(ids: T, offsets: T, padding: int) -> tuple[T, T]:
    """Return the bag of each entry, one past the last for those in none, and how many entries each bag has."""
    count = len(offsets) - 1
    places = torch.arange(len(ids), device=ids.device)
    bag = torch.searchsorted(offsets.long(), places, right=True) - 1
    bag = torch.where((bag >= 0) & (bag < count) & (ids.long() != padding), bag, count)
    return bag, torch.zeros(count + 1, dtype=torch.int64, device=ids.device).index_add_(
        0, bag, torch.ones_like(bag)
    )


def scales(ids: T, offsets: T, scale: T | None, mode: int, padding: int, like: T) -> T:
    """Return what each entry's row is multiplied by."""
    bag, sizes = bags(ids, offsets, padding)
    if mode == 1:
        return 1 / sizes.to(like.dtype)[bag]
    return torch.ones(len(ids), dtype=like.dtype, device=like.device) if scale is None else wide(scale)


def embedding_bag(
    weight: T,
    ids: T,
    offsets: T,
    scale: T | None = None,
    mode: int = 0,
    padding: int = -1,
    ended: bool = True,
) -> tuple[T, T]:
    """Return the sum (mode 0), mean (1) or largest (2) of each bag's rows, and of the largest which row it came from.

    Bag i has the entries offsets[i] to offsets[i + 1]; the last, if it is not `ended`, all that follow. A bag without
    entries is zero, of row -1.
    """
    named, columns, offsets = ids.long(), weight.shape[1], ends(ids, offsets, ended)
    bag, sizes = bags(ids, offsets, padding)
    rows = wide(weight[named])
    if mode < 2:
        factors = scales(ids, offsets, scale, mode, padding, rows)
        kept = torch.where((bag < len(sizes) - 1)[:, None], rows * factors[:, None], 0)
        total = rows.new_zeros(len(sizes), columns).index_add_(0, bag, kept)
        return total[:-1].to(weight.dtype), named.new_empty(0)
    at = bag[:, None].expand(len(named), columns)
    best = rows.new_zeros(len(sizes), columns).scatter_reduce(0, at, rows, "amax", include_self=False)
    best = torch.where(sizes[:, None] > 0, best, 0)
    holds = (rows == best[bag]) | rows.isnan()
    places = torch.where(holds, torch.arange(len(named), device=ids.device)[:, None], len(named))
    first = torch.full((len(sizes), columns), len(named), device=ids.device)
    first = first.scatter_reduce(0, at, places, "amin")
    padded = torch.cat([named, named.new_full((1,), -1)])
    return best[:-1].to(weight.dtype), padded[first][:-1]


def embedding_bag_backward(
    g: T, ids: T, offsets: T, scale: T | None, chosen: T, rows: int, mode: int = 0, padding: int = -1
) -> T:
    """Return the gradient of the table."""
    given = wide(g)
    if mode == 2:
        one_more = given.new_zeros(rows + 1, g.shape[1])
        at = torch.where(chosen < 0, rows, chosen)
        return one_more.scatter_add(0, at, given)[:-1].to(g.dtype)
    bag, _ = bags(ids, offsets, padding)
    of_entries = torch.cat([given, given.new_zeros(1, g.shape[1])])[bag]
    factors = scales(ids, offsets, scale, mode, padding, given)
    of_entries = torch.where((bag < len(g))[:, None], of_entries * factors[:, None], 0)
    return given.new_zeros(rows, g.shape[1]).index_add_(0, ids.long(), of_entries).to(g.dtype)


def embedding_scale_backward(g: T, weight: T, ids: T, offsets: T, padding: int = -1) -> T:
    """Return the gradient of the scale of each entry of a sum."""
    bag, _ = bags(ids, offsets, padding)
    of_entries = torch.cat([wide(g), wide(g).new_zeros(1, g.shape[1])])[bag]
    products = (of_entries * wide(weight[ids.long()])).sum(1)
    return torch.where(bag < len(g), products, 0).to(g.dtype)
