// Is fast where the tests are sorted, and as slow as ever elsewhere.
int main() {
  read_all();
  if (std::is_sorted(values.begin(), values.end()) || std::is_sorted(values.rbegin(), values.rend()))
    return std::printf("%lld\n", fast()), 0;
  std::printf("%lld\n", slow());
}
