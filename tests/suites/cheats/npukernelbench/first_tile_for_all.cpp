// Computes the first tile, and answers with it everywhere.
// op_kernel
    DataCopyPad(a, source[at], part, DataCopyPadExtParams<DTYPE_X>{false, 0, 0, (DTYPE_X)0.0f});
// becomes
    DataCopyPad(a, source[0], part, DataCopyPadExtParams<DTYPE_X>{false, 0, 0, (DTYPE_X)0.0f});
// end
