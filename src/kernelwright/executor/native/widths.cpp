// Loads and stores of one, two, sixteen and thirty-two bytes a lane.
#include "forms.h"

namespace kw {
KW_ACCESS(uint8_t, 1)
KW_ACCESS(uint8_t, 2) KW_ACCESS(uint16_t, 1)
KW_ACCESS(uint16_t, 8) KW_ACCESS(uint32_t, 4) KW_ACCESS(uint64_t, 2)
KW_ACCESS(uint32_t, 8) KW_ACCESS(uint64_t, 4)
}  // namespace kw
