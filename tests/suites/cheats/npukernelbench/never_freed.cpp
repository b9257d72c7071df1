// Keeps a queue's tensor, so that the next is never there.
// op_kernel
    in.FreeTensor(a);
// becomes

// end
