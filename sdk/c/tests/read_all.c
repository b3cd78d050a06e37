/* For the tests: reads files and writes what a Python script compares. For every argument, a line
 * "= FILE STATUS", and before it for every tensor "NAME\tBYTES" and these bytes. Files that can be
 * read are read again with wrong arguments and with allocators that fail. */
#define _DEFAULT_SOURCE
#include <gbz.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MUST(condition)                                                                          \
  do {                                                                                           \
    if (!(condition)) return fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition), 1; \
  } while (0)

typedef struct Budget {
  size_t calls, left, held;
} Budget;

static void* take(void* context, size_t bytes) {
  Budget* budget = context;
  void* memory;
  ++budget->calls;
  if (budget->left == 0) return NULL;
  --budget->left;
  memory = malloc(bytes);
  if (memory) ++budget->held;
  return memory;
}
static void give(void* context, void* memory) {
  --((Budget*)context)->held;
  free(memory);
}

static unsigned char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  unsigned char* bytes = malloc(1 << 26);
  if (!file || !bytes) return NULL;
  *size = fread(bytes, 1, 1 << 26, file);
  fclose(file);
  return bytes;
}

/* The middle third of a tensor is that of the whole one. Not while memory is short. */
static int check_slice(gbz_file* file, size_t tensor, const unsigned char* whole, uint64_t bytes) {
  const unsigned bits = gbz_dtype_bits(gbz_type(file, tensor));
  const uint64_t size = bits < 8 ? 1 : bits / 8, first = bytes / size / 3;
  unsigned char* part = malloc(first * size + 16);
  gbz_error error;
  gbz_status status = GBZ_MEMORY;
  int other = 0;
  if (part)
    status = gbz_read_slice(file, tensor, gbz_type(file, tensor), bits < 8 ? first * 8 / bits : first,
                            part, first * size, &error);
  if (status == GBZ_OK) other = memcmp(part, whole + first * size, first * size) != 0;
  free(part);
  if (other || (status != GBZ_OK && status != GBZ_MEMORY))
    return fprintf(stderr, "a slice of %s: status %d\n", gbz_name(file, tensor), status), 1;
  return 0;
}

static gbz_status read_tensors(gbz_file* file, int print, gbz_error* error) {
  size_t i;
  for (i = 0; i < gbz_count(file); ++i) {
    const uint64_t bytes = gbz_bytes(file, i, gbz_type(file, i));
    /* Pages of a tensor that is too large to be true are never touched. */
    void* data = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const gbz_status status =
        data != MAP_FAILED ? gbz_read(file, i, gbz_type(file, i), data, bytes, error) : GBZ_MEMORY;
    if (status == GBZ_OK && print) {
      printf("%s\t%lu\n", gbz_name(file, i), (unsigned long)bytes);
      fwrite(data, 1, bytes, stdout);
      printf("\n");
    }
    if (status == GBZ_OK && print && check_slice(file, i, data, bytes)) return GBZ_CORRUPT;
    if (data != MAP_FAILED) munmap(data, bytes + 1);
    if (status != GBZ_OK) return status;
  }
  return GBZ_OK;
}

/* Every call of the allocator may fail; nothing is left behind then. */
static int try_budgets(const unsigned char* bytes, size_t size) {
  size_t allowed, needed = 1;
  for (allowed = 0; allowed < needed; allowed += 1 + allowed / 8) {
    Budget budget;
    gbz_options options;
    gbz_error error;
    gbz_file* file = NULL;
    gbz_status status;
    memset(&options, 0, sizeof options);
    memset(&budget, 0, sizeof budget);
    budget.left = allowed;
    options.allocator.allocate = take;
    options.allocator.release = give;
    options.allocator.context = &budget;
    status = gbz_open(bytes, size, &options, &file, &error);
    if (status == GBZ_OK) status = read_tensors(file, 0, &error);
    MUST(status == GBZ_OK || (status == GBZ_MEMORY && strlen(error.text) > 0));
    if (status == GBZ_MEMORY && file && gbz_count(file) > 0) {
      char one;
      MUST(gbz_read(file, 0, gbz_type(file, 0), &one, 1, NULL) != GBZ_OK);
      MUST(gbz_name(file, 0) != NULL);
    }
    if (status == GBZ_MEMORY) needed = allowed + 2 + allowed / 8;
    gbz_close(file);
    MUST(budget.held == 0);
  }
  return 0;
}

static int try_arguments(const unsigned char* bytes, size_t size) {
  gbz_error error;
  gbz_file* file = NULL;
  gbz_options options;
  size_t rank = 9;
  char data[8];
  memset(&options, 0, sizeof options);
  MUST(gbz_open(NULL, 5, NULL, &file, &error) == GBZ_USAGE && file == NULL);
  MUST(gbz_open(bytes, size, NULL, NULL, NULL) == GBZ_USAGE);
  options.memory_bytes = 1000;
  MUST(gbz_open(bytes, size, &options, &file, &error) == GBZ_MEMORY && strlen(error.text) > 0);
  options.memory_bytes = 0;
  options.output_bytes = 1;
  MUST(gbz_open(bytes, size, &options, &file, &error) == GBZ_LIMIT);
  options.output_bytes = 0;
  options.allocator.allocate = take;
  MUST(gbz_open(bytes, size, &options, &file, &error) == GBZ_USAGE);
  MUST(gbz_open(bytes, size, NULL, &file, &error) == GBZ_OK && error.text[0] == 0);
  MUST(gbz_name(file, gbz_count(file)) == NULL && gbz_shape(file, gbz_count(file), &rank) == NULL);
  MUST(rank == 0 && gbz_find(file, "none of them") == gbz_count(file));
  MUST(gbz_find(file, gbz_name(file, 0)) == 0);
  MUST(gbz_read(file, gbz_count(file), GBZ_F32, data, 8, &error) == GBZ_USAGE);
  MUST(gbz_read(file, 0, GBZ_F32, NULL, 8, &error) == GBZ_USAGE);
  MUST(gbz_read(file, 0, (gbz_dtype)99, data, 8, &error) == GBZ_USAGE);
  MUST(gbz_read(file, 0, gbz_type(file, 0), data, 1, &error) == GBZ_SHAPE_MISMATCH);
  MUST(gbz_read_slice(file, 0, gbz_type(file, 0), UINT64_MAX, data, 8, &error) == GBZ_USAGE);
  MUST(gbz_read_slice(file, 0, gbz_type(file, 0), 1u << 30, data, 8, &error) == GBZ_SHAPE_MISMATCH);
  MUST(strlen(error.text) > 0 && gbz_set_base(file, NULL, 0, &error) == GBZ_USAGE);
  MUST(gbz_onnx(file, data, 8, &error) == GBZ_USAGE);
  MUST(strlen(gbz_identity(file)) == 64 && gbz_header_bytes(bytes, 32) > 8);
  MUST(read_tensors(file, 0, &error) == GBZ_OK); /* none of that spoiled the handle */
  gbz_close(file);
  gbz_close(NULL);
  return 0;
}

int main(int count, char** arguments) {
  int i, failed = 0;
  for (i = 1; i < count; ++i) {
    size_t size = 0;
    unsigned char* bytes = read_file(arguments[i], &size);
    gbz_file* file = NULL;
    gbz_error error;
    gbz_status status;
    if (!bytes) return fprintf(stderr, "%s cannot be read\n", arguments[i]), 1;
    status = gbz_open(bytes, size, NULL, &file, &error);
    if (status == GBZ_OK) status = read_tensors(file, 1, &error);
    printf("= %s %s\n", arguments[i], gbz_status_name(status));
    gbz_close(file);
    if (status == GBZ_OK) failed |= try_budgets(bytes, size) | try_arguments(bytes, size);
    free(bytes);
  }
  return failed;
}
