// Adds what nobody has written.
// op_kernel
    Muls(c, a, (DTYPE_X)data.alpha, count);
// becomes
    Muls(c, c, (DTYPE_X)0.0f, count);
    Axpy(c, a, (DTYPE_X)data.alpha, count);
// end
