#pragma once
// In place of libstdc++'s file for glibc, whose masks wasi-libc lacks. The decoder has no streams.

namespace std {

struct ctype_base {
  typedef const int* __to_type;
  typedef unsigned short mask;
  static const mask upper = 1, lower = 2, alpha = 4, digit = 8, xdigit = 16, space = 32, print = 64,
                    graph = 128, cntrl = 256, punct = 512, alnum = 1024, blank = 2048;
};

}  // namespace std
