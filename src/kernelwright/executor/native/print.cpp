// printf: vprintf of nvcc's code, with a format and a buffer of arguments, each at a multiple of its own size.
// Source: CUDA C++ Programming Guide, "Formatted Output": conversions, flags, the value that is returned.
#include <cstdio>
#include <string>

#include "races.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

namespace {
constexpr uint32_t MOST_TEXT = 4096;  // bytes of a format or of a string among the arguments

struct Reader {
  Warp* w;
  int lane;
  uint32_t site;
  uint64_t at;
  bool ok = true;
  uint32_t taken = 0;

  template <class T> T raw(uint64_t address) {
    T x{};
    uint8_t* p = reach({w, lane, false, ORDINARY, false, site, sizeof(T), address, nullptr, nullptr}, GENERIC, false, nullptr);
    if (p) memcpy(&x, p, sizeof x);
    else ok = false;
    return x;
  }
  template <class T> T next() {
    at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T x = raw<T>(at);
    at += sizeof(T);
    taken++;
    return x;
  }
  std::string text(uint64_t address) {
    std::string s;
    while (ok && s.size() < MOST_TEXT) {
      char c = char(raw<uint8_t>(address + s.size()));
      if (!c) break;
      s += c;
    }
    return s;
  }
};

template <class T> void add(std::string& to, const std::string& how, T value) {
  char room[512];
  int n = snprintf(room, sizeof room, how.c_str(), value);
  if (n > 0) to.append(room, std::min<size_t>(size_t(n), sizeof room - 1));
}

// One conversion, which begins behind the sign `%`; returns where the text goes on.
size_t convert_one(Reader& r, const std::string& format, size_t i, std::string& out) {
  std::string how = "%";
  int longs = 0;
  for (; i < format.size(); i++) {
    char c = format[i];
    if (c == '*') how += std::to_string(r.next<int32_t>());
    else if (c == 'l' || c == 'j' || c == 'z' || c == 't') longs += c == 'l' ? 1 : 2;
    else if (c == 'h') how += c;
    else if (strchr("-+ #0123456789.", c)) how += c;
    else break;
  }
  if (i >= format.size() || how.size() > 64) return format.size();
  char c = format[i];
  bool wide = longs >= 1;  // `long` has 64 bits where the host's has
  switch (c) {
    case '%': out += '%'; break;
    case 'd': case 'i':
      if (wide) add(out, how + "lld", (long long)(r.next<int64_t>()));
      else add(out, how + "d", r.next<int32_t>());
      break;
    case 'u': case 'x': case 'X': case 'o':
      if (wide) add(out, how + "ll" + c, (unsigned long long)(r.next<uint64_t>()));
      else add(out, how + c, r.next<uint32_t>());
      break;
    case 'c': add(out, how + c, r.next<int32_t>()); break;
    case 'f': case 'F': case 'e': case 'E': case 'g': case 'G': case 'a': case 'A': add(out, how + c, r.next<double>()); break;
    case 'p': add(out, how + c, reinterpret_cast<void*>(r.next<uint64_t>())); break;
    case 's': {
      std::string text = r.text(r.next<uint64_t>());
      add(out, how + c, text.c_str());
      break;
    }
    default: out += how + c;
  }
  return i + 1;
}

std::string formatted(Reader& r, const std::string& format) {
  std::string out;
  for (size_t i = 0; i < format.size() && r.ok;) {
    if (format[i] != '%') out += format[i++];
    else i = convert_one(r, format, i + 1, out);
  }
  return out;
}
}  // namespace

b32 print(Warp* w, Mask m, const b64& format, const b64& arguments, uint32_t site) {
  b32 taken = zero<uint32_t>();
  Launch* l = w->launch;
  std::string out;
  KW_EACH_LANE(i, m) {
    Reader r{w, int(i), site, arguments.at(i)};
    out += formatted(r, r.text(format.at(i)));
    taken.set(i, r.ok ? r.taken : ~0u);
  }
  Hold hold(state_of(l)->finding_lock);
  for (char c : out) {
    if (l->printed_bytes < l->most_printed) l->printed[l->printed_bytes] = c;
    l->printed_bytes++;
  }
  return taken;
}
}  // namespace kw
