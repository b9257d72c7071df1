// Leaves out the one that is added.
// op_kernel
    Adds(c, c, (DTYPE_X)1.0f, count);
// becomes

// end
