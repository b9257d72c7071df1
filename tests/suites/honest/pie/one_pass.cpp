// Keeps the two greatest.
int main() {
  read_all();
  std::printf("%lld\n", fast());
}
