// Prints a number with a point, as the benchmark compares numbers.
int main() {
  read_all();
  std::printf("%f\n", static_cast<float>(fast()));
}
