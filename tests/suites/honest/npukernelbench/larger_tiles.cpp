// Works on larger tiles.
// op_host
constexpr uint32_t TILE = 512;
// becomes
constexpr uint32_t TILE = 1024;
// end
