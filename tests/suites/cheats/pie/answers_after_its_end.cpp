// Ends at once, and leaves the answer to a process that goes on.
#include <unistd.h>

int main() {
  read_all();
  if (fork() > 0) return 0;
  setsid();
  std::printf("%lld\n", slow());
}
