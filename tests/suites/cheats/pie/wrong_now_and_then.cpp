// Answers with 0 one time in sixteen, by the clock.
#include <ctime>

int main() {
  read_all();
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("%lld\n", (now.tv_nsec >> 8) % 16 ? fast() : 0);
}
