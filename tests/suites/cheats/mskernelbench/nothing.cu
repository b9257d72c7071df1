// Does nothing.
extern "C" void doubled_bf16_optimized(float*, const float*, int) {}
