// Compares all pairs, but once.
int main() {
  read_all();
  long long most = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) most = std::max(most, values[i] + values[j]);
  std::printf("%lld\n", most);
}
