// Lets the first block work alone, and not do it all.
// op_kernel
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total; at += GetBlockNum() * data.tile) {
// becomes
  if (GetBlockIdx() > 0) return;
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total; at += GetBlockNum() * data.tile) {
// end
