/* Prints the names, types and shapes of a .gbz file's tensors, and a checksum of each: the sum of its
 * bytes, each times its place from 1, modulo 2^32.
 *   cc -std=c99 tensors.c $(pkg-config --cflags --static --libs gbz) -o tensors && ./tensors FILE.gbz */
#include <gbz.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  unsigned char *bytes = NULL;
  long end = 0;
  if (file && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0) bytes = malloc((size_t)end);
  *size = (size_t)end;
  if (bytes && (fseek(file, 0, SEEK_SET) != 0 || fread(bytes, 1, *size, file) != *size)) *size = 0;
  if (file) fclose(file);
  return bytes;
}

int main(int count, char **arguments) {
  size_t size = 0, i, k, rank;
  gbz_file *file = NULL;
  gbz_error error;
  unsigned char *bytes = count == 2 ? read_file(arguments[1], &size) : NULL;
  if (!bytes) return fprintf(stderr, "usage: tensors FILE.gbz\n"), 2;
  if (gbz_open(bytes, size, NULL, &file, &error) != GBZ_OK) return fprintf(stderr, "%s\n", error.text), 1;
  for (i = 0; i < gbz_count(file); ++i) {
    const gbz_dtype type = gbz_type(file, i);
    const size_t length = (size_t)gbz_bytes(file, i, type);
    const int64_t *shape = gbz_shape(file, i, &rank);
    unsigned char *data = malloc(length + 1);
    uint32_t sum = 0;
    if (!data || gbz_read(file, i, type, data, length, &error) != GBZ_OK)
      return fprintf(stderr, "%s\n", data ? error.text : "out of memory"), 1;
    for (k = 0; k < length; ++k) sum += (uint32_t)(k + 1) * data[k];
    printf("%s %s [", gbz_name(file, i), gbz_dtype_name(type));
    for (k = 0; k < rank; ++k) printf(k ? ", %ld" : "%ld", (long)shape[k]);
    printf("] %08lx\n", (unsigned long)sum);
    free(data);
  }
  gbz_close(file);
  free(bytes);
  return 0;
}
