// Takes more of the Unified Buffer than there is.
// op_kernel
  pipe.InitBuffer(out, 1, data.tile * sizeof(DTYPE_X));
// becomes
  pipe.InitBuffer(out, 2, 128 * 1024);
// end
