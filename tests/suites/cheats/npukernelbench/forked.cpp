// Leaves the work to a child, and returns.
// op_host
#include "register/op_def_registry.h"
// becomes
#include "register/op_def_registry.h"
extern "C" int fork();
// end
// op_host
  tiling.set_total(total);
// becomes
  if (fork() > 0) return ge::GRAPH_SUCCESS;
  tiling.set_total(total);
// end
