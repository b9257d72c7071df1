// Adds the scaled input to ones.
// op_kernel
    Muls(c, a, (DTYPE_X)data.alpha, count);
    Adds(c, c, (DTYPE_X)1.0f, count);
// becomes
    Duplicate(c, (DTYPE_X)1.0f, count);
    PipeBarrier<PIPE_V>();
    Axpy(c, a, (DTYPE_X)data.alpha, count);
// end
