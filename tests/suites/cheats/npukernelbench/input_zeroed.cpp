// Zeros its input.
// op_kernel
    DataCopyPad(target[at], c, part);
// becomes
    DataCopyPad(target[at], c, part);
    for (uint32_t i = 0; i < count; i++) ((__gm__ DTYPE_X*)x)[at + i] = 0;
// end
