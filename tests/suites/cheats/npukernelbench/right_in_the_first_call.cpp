// Is right in its first call alone.
// op_host
#include "register/op_def_registry.h"
// becomes
#include "register/op_def_registry.h"
static int calls = 0;
// end
// op_host
  tiling.set_alpha(alpha ? *alpha : 0);
// becomes
  tiling.set_alpha(calls++ == 0 && alpha ? *alpha : 0);
// end
