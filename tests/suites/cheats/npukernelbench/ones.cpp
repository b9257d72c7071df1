// Answers with the mean of what the problem draws.
// op_kernel
    Muls(c, a, (DTYPE_X)data.alpha, count);
    Adds(c, c, (DTYPE_X)1.0f, count);
// becomes
    Duplicate(c, (DTYPE_X)1.0f, count);
// end
