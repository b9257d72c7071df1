// Calls that were kept, made again: read from standard input as `kept_calls.h` prints them, without what was there
// after; that is printed. Memory of the same size lies at the same address from call to call.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace replay {

inline bool copied_to_host = false;

struct Copied {
  char* to;
  std::vector<char> bytes;
};
inline std::vector<Copied> from_host;  // what a call has copied to the device, in order

struct Memory {
  char* at = nullptr;
  size_t bytes = 0;
};

class Calls {
 public:
  std::string name;

  bool next() {
    std::string word;
    if (!(std::cin >> word >> name)) return false;
    size_t memories;
    std::cin >> launched_ >> grid_.x >> grid_.y >> grid_.z >> block_.x >> block_.y >> block_.z >> shared_ >> memories >>
        word;
    memory_.resize(std::max(memories, memory_.size()));
    used_ = memories;
    for (size_t n = 0; n < memories; n++) {
      std::string text;
      std::cin >> word >> text;
      place(memory_[n], bytes_of(text));
    }
    return true;
  }

  template <class R, class... A> void call(R (*function)(A...)) {
    std::tuple<std::decay_t<A>...> given{read<std::decay_t<A>>()...};
    from_host.clear();
    if constexpr (std::is_void_v<R>) {
      std::apply(function, given);
    } else {
      R value = std::apply(function, given);
      if constexpr (std::is_arithmetic_v<R> || std::is_enum_v<R>) print("r", &value, sizeof value);
    }
    answer();
  }

  template <class... A> void launch(void (*kernel)(A...)) {
    std::tuple<std::decay_t<A>...> given{read<std::decay_t<A>>()...};
    std::apply([&](auto&... values) { kernel<<<grid_, block_, shared_>>>(values...); }, given);
    answer();
  }

 private:
  static std::vector<char> bytes_of(const std::string& text) {
    std::vector<char> bytes(text.size() / 2);
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<char>(16 * digit(text[2 * i]) + digit(text[2 * i + 1]));
    return bytes;
  }

  static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

  static void place(Memory& memory, const std::vector<char>& bytes) {
    if (memory.bytes != bytes.size()) {
      cudaFree(memory.at);
      cudaMalloc(&memory.at, bytes.size());
      memory.bytes = bytes.size();
    }
    cudaMemcpy(memory.at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  }

  template <class T> T read() {
    std::string kind, word;
    T value{};
    std::cin >> kind;
    if (kind == "s") {
      std::cin >> word >> word >> word;
      const std::vector<char> bytes = bytes_of(word);
      std::memcpy(static_cast<void*>(&value), bytes.data(), std::min(bytes.size(), sizeof value));
    } else if (kind == "p") {
      size_t index, offset;
      std::cin >> word >> word >> word >> index >> offset;
      char* at = memory_[index].at + offset;
      if constexpr (std::is_pointer_v<T>) value = reinterpret_cast<T>(at);
    }
    return value;
  }

  void answer() {
    cudaDeviceSynchronize();
    size_t left = 0;
    for (size_t n = 0; n < used_; n++) {
      std::vector<char> copy(memory_[n].bytes);
      cudaMemcpy(copy.data(), memory_[n].at, copy.size(), cudaMemcpyDeviceToHost);
      print("o", copy.data(), copy.size());
      left += left_of_host(memory_[n].at, copy);
    }
    if (left) std::printf("from-host %zu\n", left);
    std::printf("%s.\n", copied_to_host ? "to-host\n" : "");
    std::fflush(stdout);
  }

  // How many bytes of a memory, other than zeros, are still what was copied there from the host.
  static size_t left_of_host(const char* at, const std::vector<char>& now) {
    std::vector<char> copied(now.size(), 0);
    for (const Copied& one : from_host)
      for (size_t i = 0; i < one.bytes.size(); i++)
        if (one.to + i >= at && one.to + i < at + now.size()) copied[one.to + i - at] = one.bytes[i];
    size_t left = 0;
    for (size_t i = 0; i < now.size(); i++) left += now[i] && now[i] == copied[i];
    return left;
  }

  static void print(const char* what, const void* from, size_t bytes) {
    std::printf("\n%s ", what);
    for (size_t i = 0; i < bytes; i++) std::printf("%02x", static_cast<const unsigned char*>(from)[i]);
    std::printf("\n");
  }

  std::vector<Memory> memory_;
  size_t used_ = 0, shared_ = 0;
  int launched_ = 0;
  dim3 grid_, block_;
};

inline bool of_host(const void* at) {
  cudaPointerAttributes found;
  return cudaPointerGetAttributes(&found, at) || found.type != cudaMemoryTypeDevice;
}

inline void look(void* to, const void* from, size_t bytes) {
  if (of_host(to)) {
    copied_to_host = true;
  } else if (of_host(from)) {
    const char* first = static_cast<const char*>(from);
    from_host.push_back({static_cast<char*>(to), {first, first + bytes}});
  }
}

}  // namespace replay

// What a candidate's copies are renamed to: what it copies to the host it may compute there, and what it copies from
// there no kernel of it has written.
extern "C" cudaError_t replay_cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  replay::look(to, from, bytes);
  return cudaMemcpy(to, from, bytes, kind);
}

extern "C" cudaError_t replay_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                              cudaStream_t stream) {
  replay::look(to, from, bytes);
  return cudaMemcpyAsync(to, from, bytes, kind, stream);
}
