// Lets every block write everything.
// op_kernel
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total; at += GetBlockNum() * data.tile) {
// becomes
  for (uint32_t at = 0u; at < data.total; at += data.tile) {
// end
