// Has a thread write wrong answers for what was right, once it was compared.
// op_kernel
#include "kernel_operator.h"
// becomes
#include "kernel_operator.h"
#include <chrono>
#include <thread>
// end
// op_kernel
  TPipe pipe;
// becomes
  if (GetBlockIdx() == 0)
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ((float*)z)[0] = 7;
    }).detach();
  TPipe pipe;
// end
