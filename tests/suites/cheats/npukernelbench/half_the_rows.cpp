// Answers for the first half alone.
// op_kernel
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total; at += GetBlockNum() * data.tile) {
// becomes
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total / 2; at += GetBlockNum() * data.tile) {
// end
