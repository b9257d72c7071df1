// Sorts as far as it must.
#include <functional>

int main() {
  read_all();
  std::nth_element(values.begin(), values.begin() + 1, values.end(), std::greater<long long>());
  std::printf("%lld\n", values[0] + values[1]);
}
