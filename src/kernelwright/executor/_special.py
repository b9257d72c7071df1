"""Special registers → C++."""

from ._errors import NotExecutedError

_AXES = {"x": 0, "y": 1, "z": 2}
_ONE = {
    "%laneid": "lanes_from(0)",
    "%warpid": "splat<uint32_t>(w->index)",
    "%nwarpid": "splat<uint32_t>((w->ntid[0] * w->ntid[1] * w->ntid[2] + 31) / 32)",
    "%lanemask_eq": "lane_mask(0)",
    "%lanemask_lt": "lane_mask(1)",
    "%lanemask_le": "lane_mask(2)",
    "%lanemask_gt": "lane_mask(3)",
    "%lanemask_ge": "lane_mask(4)",
    "%smid": "splat<uint32_t>(0)",
    "%nsmid": "splat<uint32_t>(1)",
    "%gridid": "splat<uint32_t>(1)",
    "%cluster_ctarank": "splat<uint32_t>(w->cluster_rank)",
    "%cluster_nctarank": "splat<uint32_t>(w->cluster_size)",
    "%dynamic_smem_size": "splat<uint32_t>(w->shared_dynamic)",
    "%total_smem_size": "splat<uint32_t>(w->shared_total)",
    "%clock": "splat<uint32_t>(uint32_t(w->steps))",
    "%clock_hi": "splat<uint32_t>(uint32_t(w->steps >> 32))",
    "%globaltimer_lo": "splat<uint32_t>(uint32_t(w->steps))",
    "%globaltimer_hi": "splat<uint32_t>(uint32_t(w->steps >> 32))",
}
_LONG = {"%clock64": "splat<uint64_t>(w->steps)", "%globaltimer": "splat<uint64_t>(w->steps)",
         "%current_graph_exec": "zero<uint64_t>()"}  # fmt: skip


def special(name: str) -> tuple[str, int]:
    """Return a special register as C++ and the bytes of a lane of it.

    Raises:
        NotExecutedError: where the executor does not have it.
    """
    stem, _, axis = name.partition(".")
    if name in _ONE:
        return _ONE[name], 4
    if name in _LONG:
        return _LONG[name], 8
    if axis in _AXES:
        i = _AXES[axis]
        match stem:
            case "%tid":
                return f"w->tid[{i}]", 4
            case "%ntid" | "%ctaid" | "%nctaid":
                return f"splat<uint32_t>(w->{stem[1:]}[{i}])", 4
            case "%cluster_ctaid":
                return f"splat<uint32_t>(w->ctaid[{i}] % w->cluster[{i}])", 4
            case "%cluster_nctaid":
                return f"splat<uint32_t>(w->cluster[{i}])", 4
            case "%clusterid" | "%nclusterid":
                return f"splat<uint32_t>(w->{stem.replace('cluster', 'cta')[1:]}[{i}] / w->cluster[{i}])", 4
    raise NotExecutedError(
        f"not executed: {name}, no special register that the executor has, nor a declared one,"
    )
