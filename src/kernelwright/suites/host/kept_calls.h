// What a harness calls, printed: arguments, what they point to, before and after. For harnesses, which are trusted.
//
//   call NAME IS_LAUNCH GRID BLOCK SHARED MEMORIES ARGUMENTS
//   m HEX              memory before, one line each
//   s TYPE SIZE HEX    a number; `p TYPE SIZE CONST MEMORY OFFSET`: a pointer; `n`: a null pointer or a stream
//   o HEX              memory after, one line each; `r TYPE SIZE HEX`: what it returns; `.`: the end
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kept {

constexpr size_t most_bytes = 1 << 18;
constexpr int most_calls = 6;

inline std::map<char*, size_t>& memory() {
  static std::map<char*, size_t> all;
  return all;
}

inline std::set<std::string>& seen() {
  static std::set<std::string> all;
  return all;
}

template <class T> cudaError_t noted(T** at, size_t bytes, cudaError_t error) {
  if (error == cudaSuccess) memory()[reinterpret_cast<char*>(*at)] = bytes;
  return error;
}

template <class T> cudaError_t allocate(T** at, size_t bytes) { return noted(at, bytes, cudaMalloc(at, bytes)); }
template <class T> cudaError_t allocate_managed(T** at, size_t bytes, unsigned flags = cudaMemAttachGlobal) {
  return noted(at, bytes, cudaMallocManaged(at, bytes, flags));
}
template <class T> cudaError_t allocate_async(T** at, size_t bytes, cudaStream_t stream) {
  return noted(at, bytes, cudaMallocAsync(at, bytes, stream));
}

inline std::string hex(const void* from, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text(2 * bytes, '0');
  for (size_t i = 0; i < bytes; i++) {
    const unsigned char byte = static_cast<const unsigned char*>(from)[i];
    text[2 * i] = digits[byte >> 4], text[2 * i + 1] = digits[byte & 15];
  }
  return text;
}

template <class T> constexpr char type_of() {
  using U = std::remove_cv_t<T>;
  if (std::is_same_v<U, float>) return 'f';
  if (std::is_same_v<U, double>) return 'd';
  if (std::is_same_v<U, __half>) return 'h';
  if (std::is_same_v<U, __nv_bfloat16>) return 'b';
  if (std::is_same_v<U, bool>) return '?';
  if (std::is_integral_v<U>) return std::is_signed_v<U> ? 'i' : 'u';
  return 'x';
}

template <class T> constexpr size_t size_of() {
  if constexpr (std::is_void_v<T>) return 1;
  else return sizeof(T);
}

class Record {
 public:
  Record(const char* name, const std::string& how) : name_(name), how_(how) {}

  template <class T> void add(const T& value) {
    using U = std::decay_t<T>;
    count_++;
    if constexpr (std::is_same_v<U, cudaStream_t>) {
      text_ += "n\n";
    } else if constexpr (std::is_pointer_v<U>) {
      pointer(value);
    } else if constexpr (std::is_trivially_copyable_v<U>) {
      text_ += std::string("s ") + type_of<U>() + " " + std::to_string(sizeof(U)) + " " + hex(&value, sizeof(U)) + "\n";
    } else {
      usable_ = false;
    }
  }

  void before() {
    size_t bytes = 0;
    for (auto& [at, size] : used_) bytes += size;
    usable_ = usable_ && bytes && bytes <= most_bytes && seen().size() < most_calls;
    usable_ = usable_ && seen().insert(name_ + how_ + text_).second;
    if (!usable_) return;
    std::printf("\ncall %s %s %zu %d\n", name_.c_str(), how_.c_str(), used_.size(), count_);
    print('m');
    std::printf("%s", text_.c_str());
  }

  template <class R> void returned(const R& value) {
    if (usable_ && (std::is_arithmetic_v<R> || std::is_enum_v<R>))
      std::printf("r %c %zu %s\n", type_of<R>(), sizeof(R), hex(&value, sizeof(R)).c_str());
  }

  void after() {
    if (!usable_) return;
    cudaDeviceSynchronize();
    print('o');
    std::printf(".\n");
    std::fflush(stdout);
  }

 private:
  template <class T> void pointer(T* value) {
    if (!value) {
      text_ += "n\n";
      return;
    }
    char* at = reinterpret_cast<char*>(const_cast<std::remove_cv_t<T>*>(value));
    auto found = memory().upper_bound(at);
    if (found == memory().begin() || at >= std::prev(found)->first + std::prev(found)->second) {
      usable_ = false;  // memory of the host, of which nobody knows the size
      return;
    }
    --found;
    size_t index = 0;
    while (index < used_.size() && used_[index].first != found->first) index++;
    if (index == used_.size()) used_.push_back(*found);
    text_ += std::string("p ") + type_of<T>() + " " + std::to_string(size_of<T>()) + (std::is_const_v<T> ? " 1 " : " 0 ") +
             std::to_string(index) + " " + std::to_string(at - found->first) + "\n";
  }

  void print(char what) {
    std::vector<char> copy;
    for (auto& [at, size] : used_) {
      copy.resize(size);
      cudaMemcpy(copy.data(), at, size, cudaMemcpyDeviceToHost);
      std::printf("%c %s\n", what, hex(copy.data(), size).c_str());
    }
  }

  std::string name_, how_, text_;
  std::vector<std::pair<char*, size_t>> used_;
  int count_ = 0;
  bool usable_ = true;
};

template <class R, class... A> struct Called {
  const char* name;
  R (*function)(A...);

  R operator()(A... given) const {
    Record record(name, "0 0 0 0 0 0 0 0");
    (record.add(given), ...);
    record.before();
    if constexpr (std::is_void_v<R>) {
      function(given...);
      record.after();
    } else {
      R value = function(given...);
      record.returned(value);
      record.after();
      return value;
    }
  }
};

template <class R, class... A> Called<R, A...> call(const char* name, R (*function)(A...)) { return {name, function}; }

template <class... A> struct Launched {
  const char* name;
  void (*kernel)(A...);
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;

  void operator()(A... given) const {
    std::string how = "1";
    for (unsigned n : {grid.x, grid.y, grid.z, block.x, block.y, block.z}) how += " " + std::to_string(n);
    Record record(name, how + " " + std::to_string(shared));
    (record.add(given), ...);
    record.before();
    kernel<<<grid, block, shared, stream>>>(given...);
    record.after();
  }
};

template <class... A>
Launched<A...> launch(const char* name, void (*kernel)(A...), dim3 grid, dim3 block, size_t shared = 0,
                      cudaStream_t stream = nullptr) {
  return {name, kernel, grid, block, shared, stream};
}

template <class... A, size_t... I>
void launch_with(const Launched<A...>& launched, void** arguments, std::index_sequence<I...>) {
  launched(*static_cast<std::decay_t<A>*>(arguments[I])...);
}

// What takes the place of `cudaLaunchKernel`: the kernel's own type says what its arguments are.
template <class... A>
cudaError_t launch_by(const char* name, void (*kernel)(A...), dim3 grid, dim3 block, void** arguments, size_t shared = 0,
                      cudaStream_t stream = nullptr) {
  launch_with(launch(name, kernel, grid, block, shared, stream), arguments, std::index_sequence_for<A...>());
  return cudaPeekAtLastError();
}

}  // namespace kept

#define cudaMalloc(...) kept::allocate(__VA_ARGS__)
#define cudaMallocManaged(...) kept::allocate_managed(__VA_ARGS__)
#define cudaMallocAsync(...) kept::allocate_async(__VA_ARGS__)
