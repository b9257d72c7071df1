// Sorts.
int main() {
  read_all();
  std::sort(values.rbegin(), values.rend());
  std::printf("%lld\n", values[0] + values[1]);
}
