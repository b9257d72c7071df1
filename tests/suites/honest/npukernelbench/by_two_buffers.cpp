// Copies into one of two buffers while the other is computed on.
// op_kernel
  pipe.InitBuffer(in, 1, data.tile * sizeof(DTYPE_X));
  pipe.InitBuffer(out, 1,
// becomes
  pipe.InitBuffer(in, 2, data.tile * sizeof(DTYPE_X));
  pipe.InitBuffer(out, 2,
// end
