/* Calls of gbz.h one after another, on the golden files: `calls FOLDER`, the folder tests/golden. */
#include <gbz.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                     \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s, line %d: %s is false\n", file_name, __LINE__, #condition);       \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

static const char* folder;
static char file_name[1024];

typedef struct Bytes {
  unsigned char* at;
  size_t size;
} Bytes;

static Bytes load(const char* name) {
  Bytes bytes = {NULL, 0};
  FILE* file;
  snprintf(file_name, sizeof file_name, "%s/%s", folder, name);
  file = fopen(file_name, "rb");
  MUST(file != NULL);
  bytes.at = malloc(1 << 22);
  MUST(bytes.at != NULL);
  bytes.size = fread(bytes.at, 1, 1 << 22, file);
  fclose(file);
  return bytes;
}

/* An allocator that counts the bytes that are held. */
static void* take(void* context, size_t bytes) {
  size_t* memory = malloc(bytes + 16);
  if (!memory) return NULL;
  memory[0] = bytes;
  *(size_t*)context += bytes;
  return memory + 2;
}
static void give(void* context, void* memory) {
  *(size_t*)context -= ((size_t*)memory)[-2];
  free((size_t*)memory - 2);
}

static size_t held;
static gbz_file* opened(Bytes bytes, int partial) {
  gbz_options options;
  gbz_error error;
  gbz_file* file = NULL;
  memset(&options, 0, sizeof options);
  options.allocator.allocate = take;
  options.allocator.release = give;
  options.allocator.context = &held;
  options.partial = partial;
  if (gbz_open(bytes.at, bytes.size, &options, &file, &error) != GBZ_OK) return NULL;
  return file;
}

static Bytes tensor(gbz_file* file, size_t i) {
  Bytes bytes;
  gbz_error error;
  bytes.size = (size_t)gbz_bytes(file, i, gbz_type(file, i));
  bytes.at = malloc(bytes.size + 1);
  MUST(bytes.at && gbz_read(file, i, gbz_type(file, i), bytes.at, bytes.size, &error) == GBZ_OK);
  return bytes;
}
static int is_same(Bytes a, Bytes b) {
  return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* A handle whose decoding ended in the middle stays refused, whatever is called in between. */
static void test_spoiled_stays_spoiled(void) {
  Bytes bytes = load("v2/coded_lanes.gbz");
  size_t place, i, bad = 0;
  for (place = bytes.size - 40; place > bytes.size / 2; place -= 16) {
    gbz_file* file;
    gbz_error error;
    bytes.at[place] ^= 16;
    file = opened(bytes, 1);
    for (i = 0; file && i < gbz_count(file); ++i) {
      const size_t size = (size_t)gbz_bytes(file, i, gbz_type(file, i));
      unsigned char* data = malloc(size + 1);
      uint64_t model = 1;
      const gbz_status status = gbz_read(file, i, gbz_type(file, i), data, size, &error);
      if (status == GBZ_CORRUPT) {
        ++bad;
        MUST(gbz_read(file, i, gbz_type(file, i), data, size, &error) == GBZ_USAGE);
        MUST(gbz_onnx_bytes(file, &model, &error) == GBZ_USAGE && model == 0);
        MUST(gbz_read(file, i, gbz_type(file, i), data, size, &error) == GBZ_USAGE);
        MUST(strstr(error.text, "open it again") && gbz_name(file, i));
        i = gbz_count(file);
      }
      free(data);
    }
    gbz_close(file);
    bytes.at[place] ^= 16;
  }
  MUST(bad > 5 && held == 0);
  free(bytes.at);
}

/* The tensors of a file of safetensors, whose header is as the writer of the golden files has it. */
static size_t tensors_of(Bytes bytes, gbz_tensor* list) {
  static char text[4096], names[16][64];
  static int64_t shapes[16][4];
  size_t header = 0, count = 0;
  char* at;
  memcpy(&header, bytes.at, 8);
  MUST(header < sizeof text);
  memcpy(text, bytes.at + 8, header);
  text[header] = 0;
  for (at = strchr(strchr(text, '}'), '"'); at; at = strchr(strchr(at, '}'), '"'), ++count) {
    gbz_tensor* tensor = list + count;
    char dtype[16];
    size_t begin, end;
    int used = 0;
    MUST(count < 16 && sscanf(at, "\"%63[^\"]\":{\"dtype\":\"%15[^\"]\",\"shape\":[%n", names[count],
                              dtype, &used) == 2);
    for (tensor->rank = 0, at += used; *at != ']'; at += *at == ',')
      shapes[count][tensor->rank++] = strtol(at, &at, 10);
    MUST(sscanf(at, "],\"data_offsets\":[%zu,%zu]", &begin, &end) == 2);
    tensor->name = names[count];
    tensor->shape = shapes[count];
    for (tensor->dtype = GBZ_BOOL; strcmp(gbz_dtype_name(tensor->dtype), dtype) != 0;)
      tensor->dtype = (gbz_dtype)(tensor->dtype + 1);
    tensor->data = bytes.at + 8 + header + begin;
    tensor->bytes = end - begin;
  }
  return count;
}

static void test_delta_with_its_base(void) {
  Bytes base = load("deltas/base.safetensors"), now = load("deltas/now.safetensors");
  Bytes bytes = load("deltas/delta.gbz");
  gbz_file* file = opened(bytes, 0);
  gbz_tensor list[16];
  const size_t count = tensors_of(base, list);
  size_t i, k, before, changed = 0;
  gbz_error error;
  char one[8192];
  MUST(count > 5 && strlen(gbz_base_digest(file, 0)) == 64 && gbz_base_digest(file, 1)[0] == 0);
  for (i = 0; i < gbz_count(file); ++i) changed += gbz_kind_of(file, i) == GBZ_CHANGE;
  MUST(changed > 0);
  for (i = 0; gbz_kind_of(file, i) != GBZ_CHANGE;) ++i;
  MUST(gbz_read(file, i, gbz_type(file, i), one, gbz_bytes(file, i, gbz_type(file, i)), &error) ==
       GBZ_USAGE);
  before = held;
  for (i = 0; i < 3; ++i) { /* what fails keeps no memory */
    MUST(gbz_set_base(file, list, count - 1, &error) == GBZ_USAGE && strstr(error.text, "is not"));
    MUST(held == before);
  }
  MUST(gbz_set_base(file, list, count, &error) == GBZ_OK && error.text[0] == 0);
  before = held;
  MUST(gbz_set_base(file, list, count - 1, &error) == GBZ_USAGE && held == before);
  MUST(gbz_set_base(file, list, count, &error) == GBZ_OK && held == before);
  {
    gbz_tensor expected[16];
    MUST(tensors_of(now, expected) == gbz_count(file));
    for (i = 0; i < gbz_count(file); ++i) {
      const Bytes found = tensor(file, i);
      for (k = 0; strcmp(expected[k].name, gbz_name(file, i)) != 0;) ++k;
      MUST(found.size == expected[k].bytes && memcmp(found.at, expected[k].data, found.size) == 0);
      free(found.at);
    }
  }
  gbz_close(file);
  MUST(held == 0);
  free(base.at);
  free(now.at);
  free(bytes.at);
}

static void test_layers(void) {
  Bytes now = load("deltas/now.safetensors"), bytes = load("deltas/layers.gbz"), draft = bytes;
  gbz_options options;
  gbz_tensor expected[16];
  gbz_file* file = opened(bytes, 0);
  gbz_file* part = NULL;
  gbz_error error;
  size_t i, k, differing = 0;
  memset(&options, 0, sizeof options);
  MUST(gbz_layer_of(NULL) == GBZ_NO_LAYERS && gbz_layer_of(file) == GBZ_EXACT_LAYER);
  MUST(strcmp(gbz_base_digest(file, 0), "") == 0);
  options.draft = 1;
  MUST(gbz_open(bytes.at, bytes.size, &options, &part, &error) == GBZ_OK);
  MUST(gbz_layer_of(part) == GBZ_DRAFT_LAYER);
  MUST(tensors_of(now, expected) == gbz_count(file) && gbz_count(part) == gbz_count(file));
  for (i = 0; i < gbz_count(file); ++i) {
    const Bytes found = tensor(file, i), other = tensor(part, gbz_find(part, gbz_name(file, i)));
    for (k = 0; strcmp(expected[k].name, gbz_name(file, i)) != 0;) ++k;
    MUST(found.size == expected[k].bytes && memcmp(found.at, expected[k].data, found.size) == 0);
    differing += !is_same(found, other);
    free(found.at);
    free(other.at);
  }
  MUST(differing > 0);
  gbz_close(part);
  gbz_close(file);
  for (draft.size = bytes.size - 1; gbz_open(bytes.at, draft.size, NULL, &file, &error) != GBZ_OK; --draft.size)
    MUST(error.status == GBZ_TRUNCATED && draft.size > 0);
  MUST(gbz_layer_of(file) == GBZ_DRAFT_LAYER); /* cut exactly behind it */
  gbz_close(file);
  bytes.at[bytes.size - 40] ^= 1;
  MUST(gbz_open(bytes.at, bytes.size, NULL, &file, &error) == GBZ_CORRUPT);
  MUST(gbz_open(bytes.at, bytes.size, &options, &file, &error) == GBZ_OK);
  gbz_close(file);
  free(now.at);
  free(bytes.at);
}

static void test_pieces_of_two_bases(void) {
  Bytes first = load("deltas/pieces-first.safetensors"), now = load("deltas/pieces-now.safetensors");
  Bytes second = load("deltas/pieces-second.safetensors"), bytes = load("deltas/pieces.gbz");
  gbz_file* file = opened(bytes, 0);
  gbz_tensor list[16];
  gbz_error error;
  char one[16384];
  size_t i, k, pieces = 0, count;
  MUST(strlen(gbz_base_digest(file, 1)) == 64 && gbz_base_digest(file, 2)[0] == 0);
  for (i = 0; i < gbz_count(file); ++i) pieces += gbz_kind_of(file, i) == GBZ_PIECES;
  MUST(pieces == 3);
  count = tensors_of(second, list);
  MUST(gbz_set_base(file, list, count, &error) == GBZ_OK);
  i = gbz_find(file, "table"); /* of the other base */
  MUST(gbz_read(file, i, GBZ_F32, one, gbz_bytes(file, i, GBZ_F32), &error) == GBZ_USAGE);
  MUST(strstr(error.text, gbz_base_digest(file, 0)));
  count = tensors_of(first, list);
  MUST(gbz_set_base(file, list, count, &error) == GBZ_OK);
  MUST(tensors_of(now, list) == gbz_count(file));
  for (i = 0; i < gbz_count(file); ++i) {
    const Bytes found = tensor(file, i);
    for (k = 0; strcmp(list[k].name, gbz_name(file, i)) != 0;) ++k;
    MUST(found.size == list[k].bytes && memcmp(found.at, list[k].data, found.size) == 0);
    free(found.at);
  }
  gbz_close(file);
  MUST(held == 0);
  free(first.at);
  free(second.at);
  free(now.at);
  free(bytes.at);
}

static void test_models_of_onnx(void) {
  Bytes bytes = load("containers/onnx.gbz"), expected = load("containers/onnx.onnx"), found;
  gbz_file* file = opened(bytes, 0);
  gbz_error error;
  uint64_t size = 0;
  size_t before, i;
  MUST(gbz_onnx_bytes(file, &size, &error) == GBZ_OK && size == expected.size);
  found.size = (size_t)size;
  found.at = malloc(found.size);
  MUST(gbz_onnx(file, found.at, found.size - 1, &error) == GBZ_USAGE);
  MUST(gbz_onnx(file, found.at, found.size, &error) == GBZ_OK && is_same(found, expected));
  gbz_close(file);
  free(found.at);
  free(expected.at);
  free(bytes.at);

  bytes = load("containers/external.gbz"); /* refused, again and again in the same memory */
  file = opened(bytes, 0);
  MUST(gbz_onnx_bytes(file, &size, &error) == GBZ_UNSUPPORTED && size == 0);
  before = held;
  for (i = 0; i < 3; ++i)
    MUST(gbz_onnx_bytes(file, &size, &error) == GBZ_UNSUPPORTED && held == before);
  MUST(strstr(error.text, "external data"));
  free(tensor(file, 0).at);
  gbz_close(file);
  free(bytes.at);

  bytes = load("containers/gguf.gbz");
  file = opened(bytes, 0);
  size = 1;
  MUST(gbz_onnx_bytes(file, &size, &error) == GBZ_OK && size == 0);
  MUST(gbz_onnx(file, NULL, 0, &error) == GBZ_USAGE);
  gbz_close(file);
  free(bytes.at);
  MUST(held == 0);
}

/* Where a sequence of bytes is within another one, or NULL. */
static const unsigned char* find_bytes(Bytes in, Bytes part) {
  size_t at;
  for (at = 0; at + part.size <= in.size; ++at)
    if (memcmp(in.at + at, part.at, part.size) == 0) return in.at + at;
  return NULL;
}

/* A model, what is left of it, and the initializers beside it. */
static void check_split(gbz_file* file, Bytes whole, uint64_t least, size_t wanted) {
  gbz_error error;
  uint64_t size = 0, again = 0;
  size_t count = 7, i;
  Bytes graph;
  MUST(gbz_onnx_split(file, least, &count, &size, &error) == GBZ_OK && count == wanted);
  MUST(gbz_onnx_bytes(file, &again, &error) == GBZ_OK && again == whole.size);
  graph.size = (size_t)size;
  graph.at = malloc(graph.size + 1);
  MUST(gbz_onnx_graph(file, graph.at, graph.size + 1, &error) == GBZ_USAGE);
  MUST(gbz_onnx_graph(file, graph.at, graph.size, &error) == GBZ_OK);
  if (count == 0) MUST(is_same(graph, whole));
  for (i = 0; i < count; ++i) {
    const gbz_initializer* told = gbz_onnx_initializer(file, i);
    Bytes data, name, place;
    MUST(told && told->name[0] && told->rank <= 8 && told->type > 0 && told->bytes >= least);
    data.size = (size_t)told->bytes;
    data.at = malloc(data.size);
    MUST(gbz_onnx_read(file, i, data.at, data.size - 1, &error) == GBZ_USAGE);
    MUST(gbz_onnx_read(file, i, data.at, data.size, &error) == GBZ_OK);
    name.at = (unsigned char*)told->name;
    name.size = strlen(told->name);
    place.at = (unsigned char*)told->location;
    place.size = strlen(told->location);
    MUST(find_bytes(graph, name) && find_bytes(graph, place) && !find_bytes(whole, place));
    /* Integers of 64 bits stand in the model as varints. */
    MUST(!find_bytes(graph, data) && (told->type == 7 || find_bytes(whole, data)));
    free(data.at);
  }
  MUST(!gbz_onnx_initializer(file, count));
  MUST(gbz_onnx_read(file, count, graph.at, 1, &error) == GBZ_USAGE && error.text[0]);
  free(graph.at);
}

static void test_models_without_their_initializers(void) {
  Bytes bytes = load("containers/onnx.gbz"), whole = load("containers/onnx.onnx");
  gbz_file* file = opened(bytes, 0);
  gbz_error error;
  uint64_t size = 1;
  size_t count = 1;
  unsigned char small[8];
  MUST(gbz_onnx_graph(file, small, 8, &error) == GBZ_USAGE && strstr(error.text, "first"));
  MUST(!gbz_onnx_initializer(file, 0));
  MUST(gbz_onnx_split(file, 1, NULL, &size, &error) == GBZ_USAGE);
  check_split(file, whole, 1, 2);
  check_split(file, whole, 161, 1); /* 20 integers are less */
  check_split(file, whole, UINT64_MAX, 0);
  check_split(file, whole, 160, 2); /* a further call replaces what the first found */
  gbz_close(file);
  free(whole.at);
  free(bytes.at);

  bytes = load("containers/gguf.gbz");
  file = opened(bytes, 0);
  MUST(gbz_onnx_split(file, 1, &count, &size, &error) == GBZ_USAGE && count == 0 && size == 0);
  gbz_close(file);
  free(bytes.at);
  bytes = load("containers/external.gbz");
  file = opened(bytes, 0);
  MUST(gbz_onnx_split(file, 1, &count, &size, &error) == GBZ_UNSUPPORTED);
  gbz_close(file);
  free(bytes.at);
  MUST(held == 0);
}

/* Of each file: the header alone, and of each tensor the ranges alone. */
static void test_parts(void) {
  static const char* const names[] = {"cosines_lanes", "coded_lanes", "coded_small", "exact_lanes",
                                      "generators",  "planes",      "tiny",        "unusual",
                                      "mixed_lanes", "residual_lanes"};
  size_t n, i, k;
  for (n = 0; n < sizeof names / sizeof *names; ++n) {
    char name[64];
    Bytes bytes, part;
    gbz_file* whole;
    snprintf(name, sizeof name, "v2/%s.gbz", names[n]);
    bytes = load(name);
    whole = opened(bytes, 0);
    for (i = 0; i < gbz_count(whole); ++i) {
      Bytes found, expected = tensor(whole, i);
      gbz_range ranges[16];
      size_t count;
      gbz_file* file;
      part.size = bytes.size;
      part.at = calloc(1, bytes.size);
      memcpy(part.at, bytes.at, (size_t)gbz_header_bytes(bytes.at, 32));
      file = opened(part, 1);
      MUST(file && gbz_identity(file)[0] == 0);
      count = gbz_ranges(file, i, ranges, 16);
      MUST(count <= 16 && gbz_ranges(file, i, NULL, 0) == count);
      for (k = 0; k < count; ++k)
        memcpy(part.at + ranges[k].offset, bytes.at + ranges[k].offset, (size_t)ranges[k].bytes);
      found = tensor(file, i);
      MUST(is_same(found, expected));
      gbz_close(file);
      free(found.at);
      free(expected.at);
      free(part.at);
    }
    gbz_close(whole);
    free(bytes.at);
  }
  MUST(held == 0);
}

static void test_layer_type_of_a_plugin(void) {
  Bytes bytes = load("v2/deep_fp32.gbz");
  size_t place = 0, i, size;
  gbz_file* file;
  gbz_error error;
  unsigned char* data;
  while (place + 9 <= bytes.size && memcmp(bytes.at + place, "attention", 9) != 0) ++place;
  MUST(place + 9 <= bytes.size);
  memcpy(bytes.at + place, "circulant", 9);
  file = opened(bytes, 1);
  MUST(file != NULL);
  size = (size_t)gbz_bytes(file, 0, gbz_type(file, 0));
  data = malloc(size + 1);
  for (i = 0; i < 2; ++i) { /* names the type, and spoils nothing */
    MUST(gbz_read(file, 0, gbz_type(file, 0), data, size, &error) == GBZ_UNSUPPORTED);
    MUST(error.status == GBZ_UNSUPPORTED && strstr(error.text, "circulant"));
  }
  gbz_close(file);
  free(data);
  free(bytes.at);
  MUST(held == 0);
}

int main(int count, char** arguments) {
  if (count != 2) return fprintf(stderr, "usage: calls FOLDER\n"), 2;
  folder = arguments[1];
  test_spoiled_stays_spoiled();
  test_delta_with_its_base();
  test_layers();
  test_pieces_of_two_bases();
  test_models_of_onnx();
  test_models_without_their_initializers();
  test_parts();
  test_layer_type_of_a_plugin();
  return 0;
}
