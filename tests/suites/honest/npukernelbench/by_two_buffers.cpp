// Copies into one of two buffers while the other is computed on.
// op_kernel
  pipe.InitBuffer(in, 1, data.tile * sizeof(DTYPE_X));
// becomes
  pipe.InitBuffer(in, 2, data.tile * sizeof(DTYPE_X));
// end
// op_kernel
  pipe.InitBuffer(out, 1, data.tile * sizeof(DTYPE_X));
// becomes
  pipe.InitBuffer(out, 2, data.tile * sizeof(DTYPE_X));
// end
