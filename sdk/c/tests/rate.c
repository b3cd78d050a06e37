/* The rate of gbz_read(): `rate FILE.gbz [TIMES]` decodes all tensors of a file TIMES times (default 9), each in its own
 * type, on one thread, and prints the least time. Opening, which compares the digest, is not counted. rate_library.cpp does
 * the same with the C++ library. */
#include <gbz.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Time of the processor, which other programs on the machine hardly change. */
static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(int count, char** arguments) {
  static unsigned char bytes[1 << 28];
  const int times = count > 2 ? atoi(arguments[2]) : 9;
  FILE* file = count > 1 ? fopen(arguments[1], "rb") : NULL;
  const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  double least = 1e9;
  uint64_t all = 0;
  int run;
  if (size == 0) return fprintf(stderr, "usage: rate FILE.gbz [TIMES]\n"), 2;
  fclose(file);
  for (run = 0; run < times; ++run) {
    gbz_error error;
    gbz_file* handle = NULL;
    double begin, taken = 0;
    size_t i;
    if (gbz_open(bytes, size, NULL, &handle, &error) != GBZ_OK)
      return fprintf(stderr, "%s\n", error.text), 1;
    for (i = 0, all = 0; i < gbz_count(handle); ++i) {
      const size_t length = (size_t)gbz_bytes(handle, i, gbz_type(handle, i));
      void* out = malloc(length + 1);
      size_t k;
      if (!out) return fprintf(stderr, "out of memory\n"), 1;
      for (k = 0; k < length; k += 4096) ((volatile char*)out)[k] = 0; /* pages are there */
      begin = now();
      if (gbz_read(handle, i, gbz_type(handle, i), out, length, &error) != GBZ_OK)
        return fprintf(stderr, "%s\n", error.text), 1;
      taken += now() - begin;
      all += length;
      free(out);
    }
    gbz_close(handle);
    if (taken < least) least = taken;
  }
  printf("{\"library\": \"libgbz\", \"bytes\": %lu, \"milliseconds\": %.2f, \"gigabytes_a_second\": %.3f}\n",
         (unsigned long)all, 1e3 * least, 1e-9 * (double)all / least);
  return 0;
}
