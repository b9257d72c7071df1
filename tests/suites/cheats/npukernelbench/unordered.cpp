// Reads the copied tile with nothing that orders the two.
// op_kernel
    in.EnQue(a);
    a = in.DeQue<DTYPE_X>();
// becomes

// end
