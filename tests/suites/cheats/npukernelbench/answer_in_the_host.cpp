// Computes in the tiling function, where no device is.
// op_host
  tiling.set_total(total);
// becomes
  tiling.set_total(total);
  float* given = (float*)context->GetInputTensor(0);
  for (uint32_t i = 0; i < total; i++) given[i] = given[i] * *alpha + 1;
// end
