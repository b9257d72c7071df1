// Reads a tile beyond its input.
// op_kernel
    DataCopyPad(a, source[at], part, DataCopyPadExtParams<DTYPE_X>{false, 0, 0, (DTYPE_X)0.0f});
// becomes
    DataCopyPad(a, source[at + data.tile], part, DataCopyPadExtParams<DTYPE_X>{false, 0, 0, (DTYPE_X)0.0f});
// end
