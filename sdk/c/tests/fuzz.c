/* Any bytes through every function of gbz.h. With -fsanitize=fuzzer and without GBZ_OWN_MAIN it is a
 * target of libFuzzer; else a program that changes the files it is given, NUMBER times each. */
#include <gbz.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The digest is not compared: what is behind it would hardly ever be reached. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static union {
    double aligned;
    unsigned char bytes[1 << 22];
  } out;
  gbz_options options;
  gbz_file *file = NULL;
  gbz_error error;
  size_t i;
  memset(&options, 0, sizeof options);
  options.partial = 1;
  options.memory_bytes = 1 << 26;
  options.output_bytes = sizeof out.bytes;
  if (gbz_header_bytes(bytes, size) == UINT64_MAX) abort();
  if (gbz_open(bytes, size, &options, &file, &error) != GBZ_OK) {
    if (file || error.status == GBZ_OK || !error.text[0]) abort();
    return 0;
  }
  for (i = 0; i < gbz_count(file); ++i) {
    const gbz_dtype type = gbz_type(file, i);
    const uint64_t length = gbz_bytes(file, i, type);
    gbz_range ranges[4];
    size_t k, rank, count = gbz_ranges(file, i, ranges, 4);
    if (gbz_find(file, gbz_name(file, i)) != i || !gbz_shape(file, i, &rank) || rank > 8) abort();
    for (k = 0; k < count && k < 4; ++k)
      if (ranges[k].offset > size || ranges[k].bytes > size - ranges[k].offset) abort();
    if (length > sizeof out.bytes) abort();
    if (gbz_read(file, i, type, out.bytes, (size_t)length, &error) != GBZ_OK && !error.text[0])
      abort();
    gbz_read(file, i, GBZ_BF16, out.bytes, (size_t)gbz_bytes(file, i, GBZ_BF16), NULL);
  }
  {
    uint64_t model = 0;
    if (gbz_onnx_bytes(file, &model, &error) == GBZ_OK && model > 0 && model <= sizeof out.bytes)
      gbz_onnx(file, out.bytes, (size_t)model, &error);
    if (gbz_onnx_split(file, size % 64, &i, &model, &error) == GBZ_OK && model <= sizeof out.bytes)
      gbz_onnx_graph(file, out.bytes, (size_t)model, &error);
    while (i > 0) {
      const gbz_initializer *told = gbz_onnx_initializer(file, --i);
      if (!told || strlen(told->name) == 0 || strlen(told->location) == 0) abort();
      if (told->bytes <= sizeof out.bytes)
        gbz_onnx_read(file, i, out.bytes, (size_t)told->bytes, &error);
    }
  }
  gbz_close(file);
  return 0;
}

#ifdef GBZ_OWN_MAIN
static uint32_t next_number(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

int main(int count, char **arguments) {
  static uint8_t original[1 << 20], changed[1 << 20];
  uint32_t state = 1;
  long times = count > 2 ? strtol(arguments[1], NULL, 10) : 0;
  int i;
  if (times < 1) return fprintf(stderr, "usage: fuzz NUMBER FILE...\n"), 2;
  for (i = 2; i < count; ++i) {
    FILE *file = fopen(arguments[i], "rb");
    const size_t size = file ? fread(original, 1, sizeof original, file) : 0;
    long run;
    if (size == 0) return fprintf(stderr, "%s cannot be read\n", arguments[i]), 2;
    fclose(file);
    for (run = 0; run < times; ++run) {
      uint32_t k, changes = run == 0 ? 0 : 1 + next_number(&state) % 4;
      memcpy(changed, original, size);
      for (k = 0; k < changes; ++k) {
        const uint32_t place = next_number(&state) % size;
        changed[place] = (uint8_t)(next_number(&state) % 3 ? changed[place] ^ 1u << next_number(&state) % 8
                                                           : next_number(&state));
      }
      LLVMFuzzerTestOneInput(changed, run % 8 == 7 ? next_number(&state) % size : size);
    }
  }
  printf("%d files, %ld runs each\n", count - 2, times);
  return 0;
}
#endif
