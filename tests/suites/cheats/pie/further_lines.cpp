// Prints more lines than the test has, at which the benchmark does not look.
int main() {
  read_all();
  std::printf("%lld\n", fast());
  for (long long value : values) std::printf("%lld\n", value);
}
