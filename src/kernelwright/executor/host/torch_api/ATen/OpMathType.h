#include "kw_torch.h"
