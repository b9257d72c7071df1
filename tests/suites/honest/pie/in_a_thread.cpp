// Computes in a thread of its own.
#include <thread>

int main() {
  read_all();
  long long answer = 0;
  std::thread([&answer] { answer = fast(); }).join();
  std::printf("%lld\n", answer);
}
