# What libgbz is made of; sdk/web compiles the same for WebAssembly.
set(core ${CMAKE_CURRENT_LIST_DIR}/../../core)
set(base digest sha256_blocks random text float16)
set(format container dtype gguf/block_fields gguf/fit_parts gguf/make_blocks payload)
set(geometry tile_grid)
set(encoding code_text encoding waves)
set(gnet bank_shape gnet_spec reference_kernel tile_kernel)
set(codec byte_coder codec delta/blocks delta/change delta/classes delta/dense delta/dense_tables delta/sparse lanes/decode_block lanes/decoder
  lanes/head lanes/lanes_coder lanes/tables small/logistic small/small_coder small/small_model
  small/surroundings small/wide_model)
set(artifact arch_layout change decode direct_values draft_values file_digest header/cbor_reader header/header header/parse_header header/spec_fields
  header/prelude header/sizes header/tensor_fields header/text integers/integer_reader integers/integers
  integers/lanes_reader integers/prior_classes integers/products integers/steps integers/transform narrow pieces read_many read_slice reader
  sections/blocks sections/coding sections/elements sections/float_code sections/levels sections/line_prediction sections/planes sections/requantized sections/unpacking)
set(sources)
foreach(name base call gbz onnx onnx_split runtime zstd)
  list(APPEND sources ${CMAKE_CURRENT_LIST_DIR}/src/${name}.cpp)
endforeach()
foreach(rung base format geometry encoding gnet codec artifact)
  foreach(name IN LISTS ${rung})
    list(APPEND sources ${core}/src/${rung}/${name}.cpp)
  endforeach()
endforeach()

# Parts that a build may leave out for less code; files that need them are GBZ_UNSUPPORTED then.
option(GBZ_WITHOUT_ZSTD "libgbz without sections of zstd" OFF)
option(GBZ_WITHOUT_SMALL "libgbz without the profile small" OFF)
option(GBZ_WITHOUT_PIECES "libgbz without tensors of pieces" OFF)
option(GBZ_WITHOUT_BLOCKS "libgbz without blocks of quantized types of ggml" OFF)
option(GBZ_WITHOUT_DELTAS "libgbz without files that need a base, and exact parts" OFF)
option(GBZ_WITHOUT_GNETS "libgbz without g-nets" OFF)
option(GBZ_WITHOUT_PLANES "libgbz without planes of exact floats" OFF)
option(GBZ_WITHOUT_LEVELS "libgbz without levels" OFF)
option(GBZ_WITHOUT_ARCHITECTURES "libgbz without layouts of known architectures" OFF)
option(GBZ_WITHOUT_ONNX "libgbz without models of ONNX" OFF)
set(gbz_parts)
foreach(part "ZSTD ${CMAKE_CURRENT_LIST_DIR}/src/zstd" "SMALL ${core}/src/codec/small/small_coder" "PIECES ${core}/src/artifact/pieces"
    "BLOCKS ${core}/src/artifact/sections/blocks ${core}/src/artifact/sections/requantized ${core}/src/format/gguf/block_fields ${core}/src/format/gguf/fit_parts ${core}/src/format/gguf/make_blocks"
    "DELTAS ${core}/src/codec/delta/blocks ${core}/src/codec/delta/change ${core}/src/codec/delta/classes ${core}/src/codec/delta/dense ${core}/src/codec/delta/dense_tables ${core}/src/codec/delta/sparse ${core}/src/artifact/change ${CMAKE_CURRENT_LIST_DIR}/src/base"
    "GNETS ${core}/src/gnet/bank_shape ${core}/src/gnet/gnet_spec ${core}/src/gnet/reference_kernel ${core}/src/gnet/tile_kernel ${core}/src/encoding/encoding ${core}/src/encoding/code_text ${core}/src/geometry/tile_grid ${core}/src/artifact/header/spec_fields ${core}/src/artifact/integers/prior_classes"
    "PLANES ${core}/src/artifact/sections/planes"
    "LEVELS ${core}/src/artifact/sections/levels ${core}/src/artifact/sections/line_prediction"
    "ARCHITECTURES ${core}/src/artifact/arch_layout"
    "ONNX ${CMAKE_CURRENT_LIST_DIR}/src/onnx ${CMAKE_CURRENT_LIST_DIR}/src/onnx_split")
  separate_arguments(part)
  list(POP_FRONT part name)
  if(GBZ_WITHOUT_${name})
    list(TRANSFORM part APPEND .cpp)
    list(REMOVE_ITEM sources ${part})
    list(APPEND gbz_parts GBZ_WITHOUT_${name})
  endif()
endforeach()
if(gbz_parts)
  list(APPEND sources ${CMAKE_CURRENT_LIST_DIR}/src/without.cpp)
endif()

# Loops over the weights of the profile `lanes`, which are compiled for speed; everything else is compiled for size.
set(loops codec/lanes/decode_block artifact/integers/products)
list(TRANSFORM loops REPLACE "(.+)" "${core}/src/\\1.cpp")

# Names after gbz_ that gbz.h declares.
set(entries version status_name dtype_name dtype_bits open close header_bytes ranges count find name shape type kind_of bits
  bytes layer_of identity architecture settings base_digest set_base read read_slice onnx_bytes onnx onnx_split onnx_graph
  onnx_initializer onnx_read)

set(gbz_definitions GBC_FREESTANDING NDEBUG ${gbz_parts})
set(gbz_options -ffp-contract=off -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables
  -fvisibility=hidden -ffunction-sections -fdata-sections -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
