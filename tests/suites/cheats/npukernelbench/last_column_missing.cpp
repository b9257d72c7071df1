// Leaves out the last element of each tile.
// op_kernel
    const uint32_t count = data.total - at < data.tile ? data.total - at : data.tile;
// becomes
    const uint32_t count = (data.total - at < data.tile ? data.total - at : data.tile) - 1;
// end
