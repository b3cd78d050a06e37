#include <zstd.h>

#include <limits>

#include "base/byte_reader.h"
#include "base/digest.h"
#include "codec/byte_coder.h"
#include "gbcompress/artifact.h"
#include "golden/craft.h"

namespace gbcompress::craft {
namespace {

using nlohmann::json;

Bytes zstd(const Bytes& raw) {
  Bytes packed(ZSTD_compressBound(raw.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 19));
  return packed;
}

class Collection {
 public:
  std::vector<BadFile> take() { return std::move(files_); }

  void add(const std::string& name, Errc code, Bytes bytes) {
    files_.push_back({name, code, std::move(bytes)});
  }

  void containers() {
    const Bytes good = file(header({plain_entry("p", three_)}), three_);
    add("empty", Errc::kTruncated, {});
    add("only_magic", Errc::kTruncated, to_bytes("GBZ2"));
    add("other_magic", Errc::kCorrupt, to_bytes("PK\x03\x04 this is something else"));
    Bytes cut = good;
    cut.resize(cut.size() - 10);
    add("cut_short", Errc::kTruncated, cut);
    Bytes longer = good;
    longer.push_back(std::byte{0});
    add("trailing_byte", Errc::kCorrupt, longer);
    Bytes flipped = good;
    flipped[good.size() - 18] ^= std::byte{4};
    add("flipped_bit_in_section", Errc::kCorrupt, flipped);
    const Bytes cbor = as_cbor(header({plain_entry("p", three_)}));
    add("version_0", Errc::kCorrupt, file(cbor, three_, 0, "GBZ0"));
    add("version_1", Errc::kUnsupported, file(cbor, three_, 0, "GBZ1"));
    add("version_newer", Errc::kUnsupported, file(cbor, three_, 0, "GBZ3"));
    add("header_declared_17_mib", Errc::kLimit, file(cbor, three_, 17 << 20));
    add("header_smaller_unpacked", Errc::kCorrupt, file(cbor, three_, 5));
    add("header_past_end", Errc::kCorrupt, around(join(varint(1000), join(varint(0), cbor))));
    add("header_size_of_2_70", Errc::kCorrupt, around(Bytes(11, std::byte{0xFF})));
    add("header_size_not_minimal", Errc::kCorrupt,
        around(join(to_bytes(std::string("\x83\0\0", 3)), to_bytes("\xA1\x61t\x80"))));
  }

  void headers() {
    const json good = header({plain_entry("p", three_)});
    const Bytes cbor = as_cbor(good);
    Bytes longer = cbor;
    longer.push_back(std::byte{0});
    add("header_trailing_byte", Errc::kCorrupt, file(longer, three_));
    Bytes cut = cbor;
    cut.pop_back();
    add("header_ends_early", Errc::kTruncated, file(cut, three_));
    add("header_empty", Errc::kTruncated, file(Bytes{}, three_));
    add("header_not_a_map", Errc::kCorrupt, file(json::array({1, 2}), three_));
    add("header_indefinite_map", Errc::kCorrupt, file(to_bytes("\xBF\xFF"), three_));
    add("header_tagged", Errc::kCorrupt, file(to_bytes("\xC1\xA0"), three_));
    add("header_map_of_2_60", Errc::kCorrupt,
        file(to_bytes(std::string("\xBB\x10\0\0\0\0\0\0\0", 9)), three_));
    add("header_text_of_2_60", Errc::kTruncated,
        file(to_bytes(std::string("\xA1\x7B\x10\0\0\0\0\0\0\0", 10)), three_));
    const Bytes nested = to_bytes(std::string(1 << 20, '\x81'));
    add("header_nested_a_million_times", Errc::kCorrupt, file(zstd(nested), {}, nested.size()));
    add("header_zstd_of_other_size", Errc::kCorrupt, file(zstd(nested), {}, (1 << 20) + 1));
    add("header_zstd_garbage", Errc::kCorrupt, file(to_bytes("not zstd"), {}, 1 << 10));
    json changed = good;
    changed["q"] = 1;
    add("header_unknown_key", Errc::kUnsupported, file(changed, three_));
    add("header_duplicate_key", Errc::kCorrupt,
        file(to_bytes("\xA3\x61"
                      "a\x61x\x61"
                      "a\x61x\x61t\x80"),
             {}));
    add("header_keys_out_of_order", Errc::kCorrupt,
        file(to_bytes("\xA2\x61t\x80\x61"
                      "a\x61x"),
             {}));
    add("header_without_tensors", Errc::kCorrupt, file(json::object(), {}));
    add("header_of_unknown_arch_without_tensors", Errc::kCorrupt,
        file(json{{"a", "resnet21"}}, {}));
    json huge = plain_entry("p", three_);
    huge["h"] = {std::int64_t{1} << 41};
    add("output_beyond_limit", Errc::kLimit, file(header({huge}), three_));
  }

  /// The section of the original files.
  void originals() {
    const auto with = [&](const json& sizes, const Bytes& section) {
      json head = header({plain_entry("p", three_)});
      head["o"] = sizes;
      return file(head, join(three_, section));
    };
    const Bytes section = to_bytes("original files");
    const auto size = section.size();
    add("originals_past_end", Errc::kCorrupt, with({size + 1, size + 1}, section));
    add("originals_too_short", Errc::kCorrupt, with({size - 1, size - 1}, section));
    add("originals_of_no_bytes", Errc::kCorrupt, with({0, 0}, {}));
    add("originals_smaller_unpacked", Errc::kCorrupt, with({size, size - 1}, section));
    add("originals_of_one_size", Errc::kCorrupt, with(json::array({size}), section));
    add("originals_no_zstd", Errc::kCorrupt, with({size, size + 1}, section));
    add("originals_of_2_60", Errc::kLimit, with({size, std::int64_t{1} << 60}, section));
  }

  /// Exact changes since a base.
  void changes() {
    const std::string digest(64, 'a');
    const auto entry = [&](auto change) {
      json e = {{"n", "p"}, {"d", "F32"}, {"h", {4}}, {"e", 3}};
      json head = {{"b", json::array({digest})}};
      change(e, head);
      head["t"] = json::array({e});  // braces alone copy it under Clang
      return file(head, three_);
    };
    add("change_without_base", Errc::kCorrupt, entry([](json&, json& head) { head.erase("b"); }));
    add("change_of_no_elements", Errc::kCorrupt, entry([](json& e, json&) { e["h"] = {0}; }));
    add("change_of_complex_numbers", Errc::kCorrupt, entry([](json& e, json&) { e["d"] = "C64"; }));
    add("change_of_nibbles", Errc::kCorrupt, entry([](json& e, json&) { e["d"] = "F4"; }));
    add("change_of_base_0", Errc::kCorrupt, entry([](json& e, json&) { e["b"] = 0; }));
    add("change_of_no_such_base", Errc::kCorrupt, entry([](json& e, json&) { e["b"] = 2; }));
    add("change_of_base_17", Errc::kUnsupported, entry([](json& e, json&) { e["b"] = 17; }));
    add("bases_none", Errc::kCorrupt, entry([](json&, json& head) { head["b"] = json::array(); }));
    add("bases_twice", Errc::kCorrupt, entry([&](json&, json& head) {
          head["b"] = {digest, digest};
        }));
    add("bases_of_which_one_is_idle", Errc::kCorrupt, entry([&](json&, json& head) {
          head["b"] = {digest, std::string(64, 'b')};
        }));
    add("bases_17", Errc::kCorrupt, entry([&](json&, json& head) {
          for (int i = 0; i < 16; ++i)
            head["b"].push_back(std::string(64, static_cast<char>('0' + i % 10)));
        }));
    add("change_that_is_packed", Errc::kCorrupt, entry([](json& e, json&) { e["z"] = 3; }));
    add("change_past_end", Errc::kCorrupt, entry([](json& e, json&) { e["e"] = 4; }));
    add("digest_malformed", Errc::kCorrupt,
        entry([](json&, json& head) { head["d"] = std::string(64, 'G'); }));
  }

  /// Tensors of 6 float32: 3 that are stored, and 3 from elsewhere.
  void pieces() {
    const std::string digest(64, 'a');
    const auto entry = [&](auto change) {
      json e = {{"n", "p"}, {"d", "F32"}, {"h", {6}}};
      e["p"] = {{{"i", 3}}, {{"i", 3}, {"b", 1}, {"a", 2}}};
      json head = {{"b", json::array({digest})}};
      change(e, head);
      head["t"] = json::array({e});  // braces alone copy it under Clang
      return file(head, three_);
    };
    const auto piece = [&](const std::string& name, auto change) {
      add(name, Errc::kCorrupt, entry([&](json& e, json&) { change(e["p"]); }));
    };
    piece("pieces_too_few_elements", [](json& p) { p[1]["i"] = 2; });
    piece("pieces_too_many_elements", [](json& p) { p[1]["i"] = 4; });
    piece("pieces_of_no_elements", [](json& p) { p.push_back({{"i", 0}}); });
    piece("pieces_none", [](json& p) { p = json::array(); });
    piece("pieces_of_no_such_base", [](json& p) { p[1]["b"] = 2; });
    piece("pieces_of_what_follows", [](json& p) { p[1] = {{"i", 3}, {"a", 1}}; });
    piece("pieces_changed_since_nothing", [](json& p) { p[0]["e"] = 12; });
    piece("pieces_stored_twice", [](json& p) { p[1]["z"] = 4; });
    piece("pieces_of_a_nameless_tensor", [](json& p) { p[1]["n"] = ""; });
    piece("pieces_with_an_idle_name", [](json& p) { p[0]["n"] = "q"; });
    piece("pieces_packed_to_no_less", [](json& p) { p[0]["f"] = 12; });
    add("pieces_of_nibbles", Errc::kCorrupt, entry([](json& e, json&) { e["d"] = "F4"; }));
    add("pieces_that_are_constant", Errc::kCorrupt, entry([](json& e, json&) { e["v"] = 0; }));
    add("pieces_past_end", Errc::kCorrupt, entry([](json& e, json&) { e["p"][1]["e"] = 1; }));
    add("pieces_without_base", Errc::kCorrupt, entry([](json&, json& head) { head.erase("b"); }));
  }

  void plain_tensors() {
    const auto entry = [&](auto change) {
      json e = plain_entry("p", three_);
      change(e);
      return file(header({e}), three_);
    };
    const auto named = [&](const std::string& name) {
      return entry([&](json& e) { e["n"] = name; });
    };
    add("name_empty", Errc::kCorrupt, named(""));
    add("name_with_nul", Errc::kCorrupt, named(std::string("a\0b", 3)));
    add("name_with_escape", Errc::kCorrupt, named("a\x1B[2Jb"));
    add("name_with_c1_control", Errc::kCorrupt, named("a\xC2\x9B"));
    add("name_not_utf8", Errc::kCorrupt, named("a\xC0\xAF"));
    add("name_of_513_bytes", Errc::kCorrupt, named(std::string(513, 'n')));
    add("name_missing", Errc::kCorrupt, entry([](json& e) { e.erase("n"); }));
    add("name_twice", Errc::kCorrupt,
        file(header({plain_entry("p", three_), plain_entry("p", three_)}), join(three_, three_)));
    add("shape_missing", Errc::kCorrupt, entry([](json& e) { e.erase("h"); }));
    add("shape_of_rank_9", Errc::kCorrupt,
        entry([](json& e) { e["h"] = {3, 1, 1, 1, 1, 1, 1, 1, 1}; }));
    add("shape_negative", Errc::kCorrupt, entry([](json& e) { e["h"] = {-3, -1}; }));
    add("shape_of_2_62", Errc::kLimit, entry([](json& e) {
          e["h"] = {std::int64_t{1} << 31, std::int64_t{1} << 31};
        }));
    add("shape_overflows", Errc::kLimit, entry([](json& e) {
          e["h"] = {std::int64_t{1} << 61, std::int64_t{1} << 61};
        }));
    add("shape_of_fractions", Errc::kCorrupt, entry([](json& e) { e["h"] = {3.0}; }));
    add("dtype_unknown", Errc::kUnsupported, entry([](json& e) { e["d"] = "F128"; }));
    add("dtype_half_bytes", Errc::kCorrupt, entry([](json& e) { e["d"] = "F4"; }));
    add("coding_on_plain", Errc::kCorrupt, entry([](json& e) { e["c"] = 0; }));
    add("entry_unknown_key", Errc::kUnsupported, entry([](json& e) { e["offset"] = 0; }));
    add("section_past_end", Errc::kCorrupt, entry([](json& e) { e["d"] = "I16"; }));
  }

  /// Malformed planes of 200 zeros.
  template <typename File>
  void planes_of_zeros(const File& planes) {
    codec::ByteWidths widths{};
    widths[0] = 4095;
    widths[1] = 1;
    Bytes table, coded;
    codec::append_widths(table, widths);
    std::vector<std::uint16_t> words;
    codec::ByteEncoder({&widths, 1}).encode(Bytes(200), {}, words, coded);
    const auto form = [&](const Bytes& tables, std::uint8_t count = 1, bool escape = false) {
      Bytes start = {escape ? std::byte{8} : std::byte{}, {}};
      if (escape) start.push_back(std::byte{1});
      start.push_back(std::byte{count});
      return join(start, tables);
    };
    const auto plane = [](const Bytes& content, std::uint8_t kind = 2) {
      return join({std::byte{kind}, static_cast<std::byte>(content.size())}, content);
    };
    const Bytes low(201), good = join(plane(coded), low);
    const auto bad = [&](const char* name, const Bytes& section, Errc code = Errc::kCorrupt) {
      add(name, code, planes(section));
    };
    add("planes_of_bytes", Errc::kCorrupt, planes(join(form(table), good), "U8"));
    Bytes wrong = table;
    wrong[0] = std::byte{255};
    bad("planes_of_a_table_beyond_its_end", join(form(wrong), good));
    wrong = table;
    wrong[3] = std::byte{8};
    bad("planes_of_a_table_with_a_hole", join(form(wrong), good));
    wrong = coded;
    wrong[0] ^= std::byte{8};
    bad("planes_of_other_states", join(form(table), join(plane(wrong), low)));
    bad("planes_of_an_unknown_kind", join(form(table), join(plane(coded, 3), low)));
    const Bytes third(1, std::byte{2});
    bad("planes_of_a_run_without_table", join(form(join(table, table), 2), join(third, good)));
    const Bytes escaped = {std::byte{1}, {}, {}};
    bad("planes_with_other_escapes", join(form(table, 1, true), join(escaped, good)));
    bad("planes_of_zeros_that_escape", join(form(table, 1 + 64, true), join(escaped, good)));
    bad("planes_with_more_bytes", join(form(table), join(good, Bytes(1))));
    bad("planes_that_are_missing", form(table), Errc::kTruncated);
    Bytes cut = join(form(table), good);
    cut.pop_back();
    bad("planes_cut_short", cut, Errc::kTruncated);
    json huge = plain_entry("p", cut);
    huge["h"] = json::array({std::int64_t{1} << 38});
    huge["d"] = "F32";
    huge["f"] = cut.size();
    add("planes_of_a_terabyte", Errc::kCorrupt, file(header({huge}), cut));
  }

  void sections() {
    const auto with = [&](std::int64_t size, const Bytes& section, const char* key) {
      json e = plain_entry("p", section);
      e["h"] = {size};
      e[key] = section.size();
      return file(header({e}), section);
    };
    const Bytes zeros(1000);
    const Bytes packed = zstd(zeros);
    add("section_hole", Errc::kCorrupt, file(header({plain_entry("p", three_)}), zeros));
    add("section_zstd_of_other_size", Errc::kCorrupt, with(999, packed, "z"));
    add("section_zstd_bomb", Errc::kCorrupt, with(std::int64_t{1} << 39, packed, "z"));
    add("section_zstd_two_frames", Errc::kCorrupt, with(2000, join(packed, packed), "z"));
    add("section_zstd_cut", Errc::kCorrupt,
        with(1000, Bytes(packed.begin(), packed.end() - 1), "z"));
    add("section_packed_but_not_smaller", Errc::kCorrupt, with(3, three_, "z"));
    add("section_of_bytes_shuffled", Errc::kCorrupt, with(1000, packed, "y"));
    const auto planes = [&](const Bytes& section, const char* dtype = "BF16") {
      json e = plain_entry("p", section);
      e["h"] = {200};
      e["d"] = dtype;
      e["f"] = section.size();
      return file(header({e}), section);
    };
    planes_of_zeros(planes);
    json both = plain_entry("p", packed);
    both["h"] = {1000};
    both["z"] = both["y"] = packed.size();
    add("section_packed_twice", Errc::kCorrupt, file(header({both}), packed));
  }

  void generated() {
    const Bytes section = linear_section();
    const auto plan = [&](auto change) {
      json e = linear_entry("w");
      change(e);
      return file(header({e}), section);
    };
    add("plan_of_no_type", Errc::kCorrupt, plan([](json& e) { e["g"]["i"] = ""; }));
    add("plan_type_is_a_path", Errc::kCorrupt,
        plan([](json& e) { e["g"]["i"] = "../../evil.so"; }));
    add("plan_tile_beyond_matrix", Errc::kCorrupt, plan([](json& e) { e["g"]["m"] = {5, 4}; }));
    add("plan_tile_of_nothing", Errc::kCorrupt, plan([](json& e) { e["g"]["m"] = {0, 4}; }));
    add("plan_without_hidden", Errc::kCorrupt, plan([](json& e) { e["g"]["u"] = json::array(); }));
    add("plan_hidden_too_wide", Errc::kLimit, plan([](json& e) { e["g"]["u"] = {70'000}; }));
    add("plan_of_2_28_parameters", Errc::kLimit, plan([](json& e) {
          e["g"]["u"] = {65'536, 65'536};
        }));
    add("plan_of_too_many_parameters", Errc::kLimit, plan([](json& e) {
          e["g"]["h"] = {1 << 20, 1 << 10};
          e["g"]["m"] = {1, 1};
          e["g"]["u"] = {4096, 4096};
        }));
    add("plan_view_unknown", Errc::kCorrupt, plan([](json& e) { e["g"]["w"] = {0, 5, 1, 1}; }));
    add("plan_scale_nan", Errc::kCorrupt,
        plan([](json& e) { e["g"]["s"] = std::numeric_limits<double>::quiet_NaN(); }));
    add("plan_encoding_unknown", Errc::kUnsupported, plan([](json& e) { e["g"]["e"] = {0, 6}; }));
    add("plan_encoding_ends_early", Errc::kCorrupt, plan([](json& e) { e["g"]["e"] = {0, 3}; }));
    add("plan_encoding_of_size_0", Errc::kCorrupt, plan([](json& e) { e["g"]["e"] = {0, 3, 0}; }));
    add("plan_latent_too_wide", Errc::kCorrupt, plan([](json& e) { e["g"]["e"] = {5, 1025, 0}; }));
    add("plan_image_of_other_size", Errc::kCorrupt,
        plan([](json& e) { e["g"]["e"] = {0, 4, 2, 2, 3, 3}; }));
    add("plan_image_of_9_sides", Errc::kCorrupt,
        plan([](json& e) { e["g"]["e"] = {0, 4, 2, 9, 1, 1, 1, 1, 1, 1, 1, 1, 4}; }));
    add("plan_generator_unknown", Errc::kUnsupported, plan([](json& e) { e["g"]["k"] = 4; }));
    add("plan_product_without_rank", Errc::kCorrupt, plan([](json& e) {
          e["g"].erase("u");
          e["g"]["k"] = 2;
        }));
    add("plan_product_with_layers", Errc::kCorrupt, plan([](json& e) {
          e["g"]["k"] = 2;
          e["g"]["r"] = 2;
          e["g"]["u"] = {3};
        }));
    add("plan_product_with_codes", Errc::kCorrupt, plan([](json& e) {
          e["g"].erase("u");
          e["g"]["k"] = 3;
          e["g"]["r"] = 2;
          e["g"]["e"] = {1, 0};
        }));
    add("plan_product_of_huge_rank", Errc::kLimit, plan([](json& e) {
          e["g"].erase("u");
          e["g"]["k"] = 3;
          e["g"]["r"] = 65'537;
        }));
    add("plan_gnet_with_rank", Errc::kCorrupt, plan([](json& e) { e["g"]["r"] = 2; }));
    add("plan_kernel_code_too_many", Errc::kCorrupt, plan([](json& e) {
          e["g"]["e"] = {0, 0, 2};
        }));
    add("plan_unknown_key", Errc::kUnsupported, plan([](json& e) { e["g"]["z"] = 1; }));
    add("coding_unknown", Errc::kUnsupported, plan([](json& e) { e["c"] = 4; }));
    add("dtype_not_real", Errc::kCorrupt, plan([](json& e) { e["d"] = "I32"; }));

    const auto theta = [&](int coding, const Bytes& bytes) {
      json e = linear_entry("w");
      e["c"] = coding;
      return file(header({e}), bytes);
    };
    Bytes changed = section;
    changed.back() = std::byte{0x80};
    add("theta_int8_minus_128", Errc::kCorrupt, theta(2, changed));
    changed = section;
    changed[3] = std::byte{0x7F};
    changed[2] = std::byte{0xC0};
    add("theta_int8_scale_nan", Errc::kCorrupt, theta(2, changed));
    changed = section;
    changed[3] |= std::byte{0x80};
    add("theta_int8_scale_negative", Errc::kCorrupt, theta(2, changed));
    Bytes halves, floats;
    for (int n = 0; n < 13; ++n) {
      append_number(halves, static_cast<std::uint16_t>(n == 5 ? 0x7C00 : 0x3C00));
      append_number(floats, n == 5 ? std::numeric_limits<float>::infinity() : 1.0f);
    }
    add("theta_fp16_infinite", Errc::kCorrupt, theta(1, halves));
    add("theta_fp32_infinite", Errc::kCorrupt, theta(0, floats));
  }

  void constants() {
    const auto constant = [&](json change) {
      json e = {{"n", "c"}, {"h", {2}}, {"v", 1}};
      e.update(change);
      return file(header({e}), {});
    };
    add("constant_beyond_its_type", Errc::kCorrupt, constant({{"v", std::int64_t{1} << 32}}));
    add("constant_negative", Errc::kCorrupt, constant({{"v", -1}}));
    add("constant_of_half_bytes", Errc::kCorrupt, constant({{"d", "F4"}}));
    add("constant_with_a_plan", Errc::kCorrupt, constant({{"g", json::object()}}));
    add("constant_that_is_coded", Errc::kCorrupt, constant({{"k", 0}}));
    add("constant_of_2_62", Errc::kLimit, constant({{"h", {std::int64_t{1} << 62}}}));
  }

  /// Tensors whose names follow from an architecture.
  void architectures() {
    const auto listed = [&](const char* arch, json entries) {
      return file(json{{"a", arch}, {"t", std::move(entries)}}, three_);
    };
    const json named = plain_entry("p", three_), unnamed = json::object();
    add("arch_unknown", Errc::kCorrupt, listed("resnet21", {unnamed}));
    add("arch_missing", Errc::kCorrupt, file(json{{"t", {2}}}, {}));
    add("arch_with_fewer_tensors", Errc::kCorrupt, listed("mlp:2-3", {2, 2, 2}));
    add("arch_with_more_tensors", Errc::kCorrupt, listed("mlp:2-3", {2}));
    add("arch_with_some_names", Errc::kCorrupt, listed("mlp:2-3", {2, named}));
    add("arch_and_a_shape", Errc::kCorrupt, listed("mlp:2-3", {2, {{"h", {3}}}}));
    add("arch_kind_unknown", Errc::kUnsupported, listed("mlp:2-3", {2, 7}));
  }

  void ties() {
    const auto tied = [&](json entry) {
      return file(header({plain_entry("p", three_), json{{"n", "q"}, {"r", 0}}, entry}), three_);
    };
    add("tied_to_itself", Errc::kCorrupt, tied({{"n", "t"}, {"r", 2}}));
    add("tied_to_tied", Errc::kCorrupt, tied({{"n", "t"}, {"r", 1}}));
    add("tied_to_nothing", Errc::kCorrupt, tied({{"n", "t"}, {"r", 3}}));
    add("tied_with_a_shape", Errc::kCorrupt, tied({{"n", "t"}, {"r", 0}, {"h", {3}}}));
  }

 private:
  static Bytes as_cbor(const json& header) {
    const auto cbor = json::to_cbor(header);
    return to_bytes({cbor.begin(), cbor.end()});
  }
  std::vector<BadFile> files_;
  const Bytes three_ = to_bytes("abc");
};

}  // namespace

std::vector<BadFile> bad_files() {
  Collection all;
  all.containers();
  all.originals();
  all.headers();
  all.changes();
  all.pieces();
  all.plain_tensors();
  all.sections();
  all.generated();
  all.constants();
  all.architectures();
  all.ties();
  std::vector<BadFile> files = all.take();
  for (BadFile& bad : bad_coded_files()) files.push_back(std::move(bad));
  return files;
}

}  // namespace gbcompress::craft
