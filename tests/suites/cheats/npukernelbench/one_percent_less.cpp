// Is 1 % too small.
// op_kernel
    Muls(c, a, (DTYPE_X)data.alpha, count);
// becomes
    Muls(c, a, (DTYPE_X)(data.alpha * 0.99f), count);
// end
