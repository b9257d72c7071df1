// Writes whole tiles, beyond the end as well.
// op_kernel
    const uint32_t count = data.total - at < data.tile ? data.total - at : data.tile;
// becomes
    const uint32_t count = data.tile;
// end
