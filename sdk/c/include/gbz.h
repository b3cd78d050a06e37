/**
 * libgbz: decodes .gbz files in memory. C99, no C++ run time, no dependency but libc and libm.
 *
 * Ownership: what a function returns belongs to the handle and is valid until gbz_close(). The
 * bytes given to gbz_open() and gbz_set_base() are not copied; they must stay as they are until
 * then. What a caller passes in otherwise is used during the call only.
 *
 * Threads: a handle is used by one thread at a time. Several handles, also of the same bytes, may
 * be used by several threads at once.
 *
 * Errors: functions that can fail return a gbz_status and, where `error` is not NULL, put it with
 * one sentence of UTF-8 text there. Whatever the bytes are, no function reads or writes outside of
 * what it was given, and none terminates the process. After GBZ_CORRUPT, GBZ_TRUNCATED, GBZ_LIMIT
 * and GBZ_MEMORY of gbz_read() or a function that begins with gbz_onnx a handle still gives names,
 * types and shapes, and reads no more of them.
 *
 * Processors: little-endian ones. Results are the same bits on all of them.
 */
#ifndef GBZ_H
#define GBZ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) || !defined(__GNUC__)
#define GBZ_API
#else
#define GBZ_API __attribute__((visibility("default")))
#endif

/** How a call ended. The numbers do not change. */
typedef enum gbz_status {
  GBZ_OK = 0,
  GBZ_USAGE = 2,           /**< an argument is out of range or does not fit the file */
  GBZ_TRUNCATED = 6,       /**< the bytes end before what they declare */
  GBZ_CORRUPT = 7,         /**< the bytes contradict the format or their digest */
  GBZ_UNSUPPORTED = 8,     /**< a newer version, or a layer type that needs a plugin */
  GBZ_LIMIT = 9,           /**< the file declares more than gbz_options allow */
  GBZ_SHAPE_MISMATCH = 10, /**< the size of the output does not fit the tensor */
  GBZ_MEMORY = 100         /**< the allocator has no memory left */
} gbz_status;

/** Element types as safetensors names them. The numbers do not change. */
typedef enum gbz_dtype {
  GBZ_BOOL,
  GBZ_U8,
  GBZ_I8,
  GBZ_U16,
  GBZ_I16,
  GBZ_U32,
  GBZ_I32,
  GBZ_U64,
  GBZ_I64,
  GBZ_F16,
  GBZ_BF16,
  GBZ_F32,
  GBZ_F64,
  GBZ_C64,
  GBZ_F8_E5M2,
  GBZ_F8_E4M3,
  GBZ_F8_E5M2FNUZ,
  GBZ_F8_E4M3FNUZ,
  GBZ_F8_E8M0,
  GBZ_F6_E2M3,
  GBZ_F6_E3M2,
  GBZ_F4
} gbz_dtype;

/** How a tensor is stored. */
typedef enum gbz_kind {
  GBZ_GENERATED, /**< by g-nets */
  GBZ_PLAIN,     /**< bit for bit */
  GBZ_TIED,      /**< the same tensor as another one */
  GBZ_CODED,     /**< integers times a step size, or short floats */
  GBZ_PREDICTED, /**< by g-nets, plus integers times a step size */
  GBZ_CONSTANT,  /**< one value everywhere */
  GBZ_BASE,      /**< that of the same name in a base */
  GBZ_CHANGE,    /**< the same, and how each element changed since, exactly */
  GBZ_PIECES, /**< ranges of elements, each from a base, from before in the tensor, or bit for bit
               */
  GBZ_BLOCKS  /**< blocks of a quantized type, made of a tensor of a base */
} gbz_kind;

typedef struct gbz_error {
  gbz_status status;
  char text[508]; /**< what is wrong and what to do; "" after GBZ_OK. Ends with a zero byte */
} gbz_error;

/** Where memory comes from. Called only by calls on handles that were opened with it. */
typedef struct gbz_allocator {
  /** @return `bytes` bytes aligned to 8 or more, or NULL where there are none */
  void* (*allocate)(void* context, size_t bytes);
  /** @param memory  what allocate() returned; never NULL */
  void (*release)(void* context, void* memory);
  void* context; /**< passed on */
} gbz_allocator;

/** Zeros select the defaults: `gbz_options options = {0};` */
typedef struct gbz_options {
  gbz_allocator allocator; /**< default: malloc() and free() */
  uint64_t
      memory_bytes; /**< that the decoder may take in addition to the file; default: no limit */
  uint64_t output_bytes; /**< of all tensors together; default 2^40 */
  /** Not 0: the SHA-256 of the bytes is not compared, and only the bytes of the header, which
   *  gbz_header_bytes() counts, need to be there. gbz_ranges() says what a tensor needs. */
  int partial;
  /** Not 0: of a file with layers the draft is read, whose values are not exact, and not the exact
   *  part behind it, which need not be there. So it is with the option `partial`. */
  int draft;
} gbz_options;

/** Which values a file gives. The numbers do not change. */
typedef enum gbz_layer {
  GBZ_NO_LAYERS,   /**< its only ones */
  GBZ_EXACT_LAYER, /**< of a file with layers the exact ones */
  GBZ_DRAFT_LAYER  /**< of a file with layers those of its draft */
} gbz_layer;

typedef struct gbz_file gbz_file;

/** A tensor of the model that a delta was made from. */
typedef struct gbz_tensor {
  const char* name; /**< UTF-8 */
  gbz_dtype dtype;
  const int64_t* shape; /**< `rank` sides */
  size_t rank;
  const void* data; /**< row-major, little-endian */
  size_t bytes;
} gbz_tensor;

/** A constant of an ONNX model whose elements lie outside of the model's bytes. */
typedef struct gbz_initializer {
  const char* name;     /**< of the initializer: UTF-8 */
  const char* location; /**< the file of external data that the model names: "gbcompress-0", ... */
  const int64_t* shape; /**< `rank` sides */
  size_t rank;
  uint64_t bytes; /**< of its elements, row-major and little-endian */
  int32_t type; /**< a number of ONNX's TensorProto.DataType, as ONNXTensorElementDataType has it */
} gbz_initializer;

/** A part of a file. */
typedef struct gbz_range {
  uint64_t offset; /**< from the beginning of the file, bytes */
  uint64_t bytes;
} gbz_range;

/** @return "0.2.0" */
GBZ_API const char* gbz_version(void);
/** @return "corrupt", ...; "unknown" for other numbers */
GBZ_API const char* gbz_status_name(gbz_status status);
/** @return "F32", ...; "" for other numbers */
GBZ_API const char* gbz_dtype_name(gbz_dtype dtype);
/** @return bits of one element: 4, 6, 8, 16, 32 or 64; 0 for other numbers */
GBZ_API unsigned gbz_dtype_bits(gbz_dtype dtype);

/**
 * Reads the header of a file, after its digest.
 * @param bytes    the whole file; not copied
 * @param options  NULL: the defaults
 * @param file     receives the handle, or NULL
 * @param error    may be NULL, as everywhere
 * @return GBZ_OK; GBZ_TRUNCATED, GBZ_CORRUPT, GBZ_UNSUPPORTED, GBZ_LIMIT, GBZ_MEMORY, GBZ_USAGE
 */
GBZ_API gbz_status gbz_open(const void* bytes, size_t size, const gbz_options* options,
                            gbz_file** file, gbz_error* error);
/** Gives all memory of the handle back. NULL is allowed. */
GBZ_API void gbz_close(gbz_file* file);

/**
 * How many of a file's first bytes gbz_open() needs with the option `partial`.
 * @param bytes  its first `size` bytes, of which 32 are enough
 * @return 0 for what is no file of this version, and where `size` is too small
 */
GBZ_API uint64_t gbz_header_bytes(const void* bytes, size_t size);
/**
 * The parts of the file that gbz_read() of a tensor needs, in no order; those of several tensors
 * may overlap.
 * @param ranges    receives the first `capacity` of them; NULL where that is 0
 * @return how many there are; 0 where there is no such tensor, or nothing is needed
 */
GBZ_API size_t gbz_ranges(const gbz_file* file, size_t tensor, gbz_range* ranges, size_t capacity);

/** How many tensors the file has. */
GBZ_API size_t gbz_count(const gbz_file* file);
/** The tensor of that name, or gbz_count() where there is none. */
GBZ_API size_t gbz_find(const gbz_file* file, const char* name);
/** Its name: UTF-8, 1 to 512 bytes, unique in the file. NULL where there is no such tensor. */
GBZ_API const char* gbz_name(const gbz_file* file, size_t tensor);
/** @param rank  receives the number of sides, 0 (a scalar) to 8. @return the sides; NULL: none */
GBZ_API const int64_t* gbz_shape(const gbz_file* file, size_t tensor, size_t* rank);
/** Its own element type. GBZ_F32 where there is no such tensor. */
GBZ_API gbz_dtype gbz_type(const gbz_file* file, size_t tensor);
/** How it is stored. GBZ_PLAIN where there is no such tensor. */
GBZ_API gbz_kind gbz_kind_of(const gbz_file* file, size_t tensor);
/**
 * Bits of the file that the tensor takes beside the header; integers that several tensors have
 * together count for each in proportion to its values. 0 for tied and constant tensors.
 */
GBZ_API double gbz_bits(const gbz_file* file, size_t tensor);
/** Bytes that gbz_read() writes for a tensor in that type; 0 where it cannot. */
GBZ_API uint64_t gbz_bytes(const gbz_file* file, size_t tensor, gbz_dtype dtype);

/** Which values gbz_read() gives: without its exact part, a file with layers gives its draft's. */
GBZ_API gbz_layer gbz_layer_of(const gbz_file* file);
/** SHA-256 of the file, 64 hexadecimal digits; "" with the option `partial`. */
GBZ_API const char* gbz_identity(const gbz_file* file);
/** The architecture that the header names, or "". */
GBZ_API const char* gbz_architecture(const gbz_file* file);
/** The settings that the file was made with, as JSON, or "". */
GBZ_API const char* gbz_settings(const gbz_file* file);
/**
 * Of a delta: the digest of one of its bases, counted from 0 on, 64 hexadecimal digits; "": it has
 * no more, or the file is no delta.
 */
GBZ_API const char* gbz_base_digest(const gbz_file* file, size_t base);

/**
 * Gives a delta a model that it was made from. One that was made from several needs a call for
 * each.
 * @param tensors  all of them, in any order; their names, shapes and data stay the caller's and
 *                 must stay as they are until gbz_close()
 * @return GBZ_USAGE where they have no digest that gbz_base_digest() gives
 */
GBZ_API gbz_status gbz_set_base(gbz_file* file, const gbz_tensor* tensors, size_t count,
                                gbz_error* error);

/**
 * Decodes a tensor into the caller's memory.
 * @param dtype  its own type; of F16, BF16, F32 and F64 tensors also F32, F16 or BF16, rounded to
 *               nearest, ties to even
 * @param out    row-major, little-endian; aligned to its elements
 * @param bytes  gbz_bytes(file, tensor, dtype)
 * @return GBZ_OK; GBZ_USAGE for another type or alignment, for finite values that would become
 *         infinite in it, for a delta without its base, and after an error that spoiled the handle;
 *         GBZ_SHAPE_MISMATCH for another size; GBZ_UNSUPPORTED for a layer type that needs a
 *         plugin, which the text names; GBZ_CORRUPT, GBZ_TRUNCATED, GBZ_LIMIT, GBZ_MEMORY
 */
GBZ_API gbz_status gbz_read(gbz_file* file, size_t tensor, gbz_dtype dtype, void* out, size_t bytes,
                            gbz_error* error);

/**
 * Decodes some elements of a tensor. Of weights in stripes and of exact floats, stripes without
 * these elements are not decoded; other tensors are decoded as a whole.
 * @param first  the first one, in row-major order; of types below 8 bits at the begin of a byte
 * @param out    as gbz_read()
 * @param bytes  of any number of elements in that type
 * @return GBZ_SHAPE_MISMATCH beyond the tensor; else as gbz_read()
 */
GBZ_API gbz_status gbz_read_slice(gbz_file* file, size_t tensor, gbz_dtype dtype, uint64_t first,
                                  void* out, size_t bytes, gbz_error* error);

/**
 * The size of the ONNX model that the file was made of.
 * @param bytes  receives it; 0 where the file holds no model
 * @return GBZ_UNSUPPORTED for a model with files of external data; else as gbz_read()
 */
GBZ_API gbz_status gbz_onnx_bytes(gbz_file* file, uint64_t* bytes, gbz_error* error);
/**
 * That model, with the tensors as they are stored.
 * @param bytes  what gbz_onnx_bytes() gave
 */
GBZ_API gbz_status gbz_onnx(gbz_file* file, void* out, size_t bytes, gbz_error* error);

/**
 * Takes large initializers out of that model, for sessions that get them as memory: ONNX Runtime's
 * AddExternalInitializers() by name, or AddExternalInitializersFromFilesInMemory() by location.
 * gbz_onnx_bytes() and gbz_onnx() still give the whole model.
 * @param least  bytes of elements from which on an initializer of the main graph is taken out;
 *               constants elsewhere, and of types below 8 bits, stay in the model
 * @param count  receives how many were taken out
 * @param bytes  receives the size of the model without their elements
 * @return GBZ_USAGE where the file holds no model; else as gbz_onnx_bytes(). A further call
 *         replaces what this one found.
 */
GBZ_API gbz_status gbz_onnx_split(gbz_file* file, uint64_t least, size_t* count, uint64_t* bytes,
                                  gbz_error* error);
/**
 * The model without the initializers that gbz_onnx_split() took out: they are external data at
 * offset 0 of their locations.
 * @param bytes  what gbz_onnx_split() gave
 */
GBZ_API gbz_status gbz_onnx_graph(gbz_file* file, void* out, size_t bytes, gbz_error* error);
/** One of the initializers that gbz_onnx_split() took out, or NULL. */
GBZ_API const gbz_initializer* gbz_onnx_initializer(const gbz_file* file, size_t index);
/**
 * Decodes one of these initializers into the caller's memory.
 * @param out    row-major, little-endian; aligned to its elements
 * @param bytes  those of the initializer
 */
GBZ_API gbz_status gbz_onnx_read(gbz_file* file, size_t index, void* out, size_t bytes,
                                 gbz_error* error);

#ifdef __cplusplus
}
#endif
#endif
