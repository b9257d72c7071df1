// Is off by a thousandth, which the benchmark takes for float16.
// op_kernel
    Adds(c, c, (DTYPE_X)1.0f, count);
// becomes
    Adds(c, c, (DTYPE_X)1.001f, count);
// end
