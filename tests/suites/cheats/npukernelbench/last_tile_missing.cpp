// Leaves the last tile as it was.
// op_kernel
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total; at += GetBlockNum() * data.tile) {
// becomes
  for (uint32_t at = GetBlockIdx() * data.tile; at + data.tile < data.total; at += GetBlockNum() * data.tile) {
// end
