// Computes every other tile.
// op_kernel
    DataCopyPad(target[at], c, part);
// becomes
    if (at / data.tile % 2 == 0) DataCopyPad(target[at], c, part);
// end
