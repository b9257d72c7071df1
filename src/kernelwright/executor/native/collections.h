// A table by key and an array of a fixed length. The standard library's would take a quarter of the engine's compilation,
// which a machine waits for before its first launch.
#pragma once
#include <cstdint>
#include <vector>

namespace kw {

// Entries in the order in which they came, in one piece; beyond a few of them with slots by hash, linearly probed.
template <class K, class V> class Table {
  struct Entry { K first; V second; };
  std::vector<Entry> entries;
  std::vector<uint32_t> slots;  // numbers of entries from 1 on; as many as a power of two, at most half of them taken

  uint32_t* slot_of(K key) {
    size_t last = slots.size() - 1, at = size_t((uint64_t(key) * 0x9e3779b97f4a7c15ull) >> 32) & last;
    while (slots[at] && entries[slots[at] - 1].first != key) at = (at + 1) & last;
    return &slots[at];
  }
  __attribute__((noinline)) void make_slots() {
    slots.assign(slots.empty() ? 32 : 4 * slots.size(), 0);
    for (size_t i = 0; i < entries.size(); i++) *slot_of(entries[i].first) = uint32_t(i + 1);
  }

 public:
  Entry* begin() { return entries.data(); }
  Entry* end() { return entries.data() + entries.size(); }
  const Entry* begin() const { return entries.data(); }
  const Entry* end() const { return entries.data() + entries.size(); }
  size_t size() const { return entries.size(); }
  void clear() { entries.clear(), slots.clear(); }
  const Entry* find(K key) const { return const_cast<Table*>(this)->find(key); }
  __attribute__((noinline)) Entry* find(K key) {
    if (slots.empty()) {
      Entry* e = begin();
      while (e != end() && e->first != key) e++;
      return e;
    }
    uint32_t number = *slot_of(key);
    return number ? begin() + number - 1 : end();
  }
  // What stands under a key, made where nothing does; it stays in its place until the next is made.
  V& operator[](K key) {
    Entry* e = find(key);
    if (e != end()) return e->second;
    entries.push_back(Entry{key, V{}});
    if (slots.empty() ? size() > 8 : 2 * size() > slots.size()) make_slots();
    else if (!slots.empty()) *slot_of(key) = uint32_t(size());
    return entries.back().second;
  }
};

template <class T> class Array {
  T* held = nullptr;
  size_t length = 0;

 public:
  Array() = default;
  Array(const Array&) = delete;
  ~Array() { delete[] held; }
  void make(size_t count) {
    if (length == count) return;
    delete[] held;
    held = new T[count], length = count;
  }
  T* begin() { return held; }
  T* end() { return held + length; }
  const T* begin() const { return held; }
  const T* end() const { return held + length; }
  size_t size() const { return length; }
  T& operator[](size_t i) { return held[i]; }
  const T& operator[](size_t i) const { return held[i]; }
};
}  // namespace kw
