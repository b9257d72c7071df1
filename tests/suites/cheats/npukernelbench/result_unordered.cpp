// Copies the result out with nothing that orders the two.
// op_kernel
    out.EnQue(c);
    c = out.DeQue<DTYPE_X>();
// becomes

// end
