#include <functional>
#include <nlohmann/json.hpp>

#include "codec/lanes/stream.h"
#include "gbcompress/artifact.h"
#include "golden/craft.h"

namespace gbcompress::craft {
namespace {

using nlohmann::json;

Bytes stream(CodecProfile profile, const std::vector<IntegerGrid>& grids,
             const std::vector<std::vector<std::int32_t>>& numbers) {
  IntegerEncoder encoder(profile);
  for (std::size_t i = 0; i < grids.size(); ++i) encoder.add(grids[i], numbers[i]);
  return encoder.finish();
}

/// A coded tensor of 4 x 5 whose step is 2^-4, and what makes it wrong.
class CodedCollection {
 public:
  std::vector<BadFile> take() { return std::move(files_); }

  void short_floats() {
    add("short_floats_of_whole_numbers", Errc::kCorrupt, entry([](json& e) {
          e["d"] = "U8";
          e["m"] = 7;
        }));
    add("short_floats_without_mantissa", Errc::kCorrupt, entry([](json& e) { e["m"] = 0; }));
    add("short_floats_of_17_bits", Errc::kUnsupported, entry([](json& e) { e["m"] = 17; }));
    add("short_floats_with_row_steps", Errc::kCorrupt, entry([](json& e) {
          e["m"] = 7;
          e["k"] = 1;
        }));
    add("short_floats_that_are_plain", Errc::kCorrupt, entry([](json& e) {
          e.erase("k");
          e["m"] = 7;
        }));
    json floats = good_;
    floats["m"] = 1;
    add("short_floats_too_large", Errc::kCorrupt, with_step(floats, 128, numbers_));
    add("short_floats_too_small", Errc::kCorrupt, with_step(floats, -127, numbers_));
    std::vector<std::int32_t> beyond = numbers_;
    beyond[3] = 28;
    add("short_float_beyond_zero", Errc::kCorrupt, with_step(floats, 0, beyond));
  }

  void whole_numbers() {
    add("whole_numbers_with_row_steps", Errc::kCorrupt, entry([](json& e) {
          e["d"] = "I32";
          e["k"] = 1;
        }));
    add("whole_numbers_dependent", Errc::kCorrupt, entry([](json& e) {
          e["d"] = "I8";
          e["k"] = 2;
        }));
    json bytes = good_;
    bytes["d"] = "U8";
    bytes["k"] = 7;
    add("whole_numbers_of_unknown_form", Errc::kUnsupported, with_step(bytes, 0, numbers_));
    bytes["k"] = 8;
    bytes["h"] = {4, 2};
    bytes["i"] = {4, 4, 0};
    add("nibbles_with_a_grid", Errc::kCorrupt, with_step(bytes, 8, numbers_));
    bytes.erase("i");
    bytes["d"] = "BOOL";
    add("nibbles_of_bool", Errc::kCorrupt, with_step(bytes, 8, numbers_));
    bytes["d"] = "U8";
    {
      json h = header({bytes});
      h["u"] = {8 + 64};
      std::vector<std::int32_t> nibbles(16, 3);
      nibbles[5] = 8;
      add("nibble_of_five_bits", Errc::kCorrupt,
          file(h, stream(CodecProfile::kSmall, {{4, 4, 0}}, {nibbles})));
    }
    bytes = good_;
    bytes["d"] = "U8";
    add("whole_number_below_its_type", Errc::kCorrupt, with_step(bytes, 6, numbers_));
    bytes["d"] = "BOOL";
    add("whole_number_that_is_no_bool", Errc::kCorrupt, with_step(bytes, 0, numbers_));
  }

  void levels() {
    const auto with_levels = [&](const json& levels, json e) {
      e["l"] = levels;
      return with_step(std::move(e), 0, numbers_);
    };
    add("levels_of_nothing", Errc::kCorrupt, with_levels(json::array(), good_));
    add("levels_palette_too_large", Errc::kCorrupt, with_levels({4097}, good_));
    add("levels_palette_empty", Errc::kCorrupt, with_levels({0}, good_));
    add("levels_block_beyond_the_grid", Errc::kCorrupt, with_levels({1, 6, 0}, good_));
    add("levels_block_without_rows", Errc::kCorrupt, with_levels({0, 5, 0}, good_));
    add("levels_zero_beyond_integers", Errc::kCorrupt, with_levels({1, 5, 1048577}, good_));
    add("levels_lines_that_do_not_divide", Errc::kCorrupt, with_levels({3, 1}, good_));
    add("levels_lines_of_two", Errc::kCorrupt, with_levels({2, 1}, good_));
    add("levels_of_short_floats", Errc::kCorrupt,
        with_levels({3}, json{{"n", "w"}, {"h", {4, 5}}, {"k", 0}, {"m", 1}}));
    add("levels_of_whole_numbers", Errc::kCorrupt,
        with_levels({3}, json{{"n", "w"}, {"h", {4, 5}}, {"k", 0}, {"d", "I8"}}));
    add("levels_with_row_steps", Errc::kCorrupt,
        with_levels({3}, json{{"n", "w"}, {"h", {4, 5}}, {"k", 1}}));
    add("levels_that_are_plain", Errc::kCorrupt, entry([](json& e) {
          e.erase("k");
          e["l"] = {3};
        }));
    const auto palette = [&](std::int32_t nibble, std::int32_t index) {
      json e = good_;
      e["l"] = {2};
      json h = header({e});
      h["u"] = {64};
      std::vector<std::int32_t> indices(20, 1), table(16, 7);
      table[5] = nibble;
      indices[9] = index;
      return file(h, stream(CodecProfile::kSmall, {{8, 2, 0}, {4, 5, 0}}, {table, indices}));
    };
    add("levels_table_of_no_nibbles", Errc::kCorrupt, palette(8, 0));
    add("levels_beyond_the_palette", Errc::kCorrupt, palette(0, 2));
  }

  void axes() {
    const auto on_axis = [&](int axis, json e) {
      e["x"] = axis;
      return with_step(std::move(e), 0, numbers_);
    };
    add("axis_beyond_the_shape", Errc::kCorrupt, on_axis(2, good_));
    add("axis_of_short_floats", Errc::kCorrupt,
        on_axis(0, json{{"n", "w"}, {"h", {4, 5}}, {"k", 0}, {"m", 1}}));
    add("axis_of_whole_numbers", Errc::kCorrupt,
        on_axis(0, json{{"n", "w"}, {"h", {4, 5}}, {"k", 0}, {"d", "I8"}}));
    add("axis_of_one_position", Errc::kCorrupt,
        on_axis(0, json{{"n", "w"}, {"h", {1, 20}}, {"k", 0}}));
    add("axis_that_is_plain", Errc::kCorrupt, entry([](json& e) {
          e.erase("k");
          e["x"] = 0;
        }));
  }

  void forms() {
    add("coded_dtype_of_no_number", Errc::kCorrupt, entry([](json& e) { e["d"] = "F8_E4M3"; }));
    add("coded_without_elements", Errc::kCorrupt, entry([](json& e) { e["h"] = {0, 5}; }));
    add("coded_with_a_section", Errc::kCorrupt, entry([](json& e) { e["z"] = 3; }));
    add("coded_kind_unknown", Errc::kUnsupported, entry([](json& e) { e["k"] = 4; }));
    add("coded_grid_of_other_size", Errc::kCorrupt, entry([](json& e) { e["i"] = {4, 6, 0}; }));
    add("coded_grid_of_two_numbers", Errc::kCorrupt, entry([](json& e) { e["i"] = {4, 5}; }));
    add("coded_grid_stride_outside", Errc::kCorrupt, entry([](json& e) { e["i"] = {4, 5, 5}; }));
    add("coded_grid_overflows", Errc::kCorrupt, entry([](json& e) {
          e["i"] = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0};
        }));
    add("coded_grid_on_plain", Errc::kCorrupt, entry([](json& e) {
          e.erase("k");
          e["i"] = {4, 5, 0};
        }));
    add("coded_2_27_numbers", Errc::kLimit, entry([](json& e) { e["h"] = {1 << 27}; }));
    add("coded_more_than_the_stream_has", Errc::kTruncated, entry([](json& e) {
          e["h"] = {400, 500};
        }));
    add("coded_row_step_out_of_range", Errc::kCorrupt, [&] {
      json e = good_;
      e["k"] = 1;
      json h = header({e});
      h["u"] = {0};
      return file(
          h, stream(CodecProfile::kSmall, {{1, 4, 0}, {4, 5, 0}}, {{0, 2112, 0, 0}, numbers_}));
    }());
  }

  void steps() {
    add("steps_missing", Errc::kCorrupt, whole([](json& h) { h.erase("u"); }, small_));
    add("steps_too_few", Errc::kCorrupt, whole([](json& h) { h["u"] = json::array(); }, small_));
    add("steps_too_many", Errc::kCorrupt, whole([](json& h) { h["u"] = {0, 0}; }, small_));
    add("steps_of_nothing", Errc::kCorrupt, file(json{{"t", json::array()}, {"u", {1}}}, {}));
    add("step_out_of_range", Errc::kCorrupt, whole([](json& h) { h["u"] = {2112}; }, small_));
    add("step_of_2_61", Errc::kCorrupt,
        whole([](json& h) { h["u"] = {std::int64_t{1} << 61}; }, small_));
    add("step_that_is_no_integer", Errc::kCorrupt, whole([](json& h) { h["u"] = {0.5}; }, small_));
  }

  void streams() {
    const auto same = [](json&) {};
    add("stream_missing", Errc::kTruncated, whole(same, {}));
    add("stream_cut", Errc::kTruncated, whole(same, Bytes(small_.begin(), small_.end() - 2)));
    add("stream_beyond_the_alphabet", Errc::kCorrupt, whole(same, Bytes(40)));
    add("stream_with_a_byte_more", Errc::kCorrupt, whole(same, join(small_, {std::byte{0}})));
    add("stream_of_nothing", Errc::kCorrupt,
        file(header({plain_entry("p", to_bytes("abc"))}), join(to_bytes("abc"), small_)));
  }

  void lanes() {
    const auto parts = codec::lanes::stream_parts(lanes_);
    const Bytes head(parts.head.begin(), parts.head.end());
    const Bytes stripe(parts.stripes[0].begin(), parts.stripes[0].end());
    const auto indexed = [&](json index, const Bytes& bytes) {
      return whole([&](json& h) { h["w"] = index; }, bytes);
    };
    const auto good = [&](const Bytes& stripes) {
      return indexed({head.size(), stripes.size()}, join(head, stripes));
    };
    add("lanes_stripe_past_end", Errc::kCorrupt,
        indexed({head.size(), stripe.size() + 4}, join(head, stripe)));
    add("lanes_stripe_hole", Errc::kCorrupt,
        indexed({head.size(), stripe.size() - 4}, join(head, stripe)));
    add("lanes_head_past_end", Errc::kCorrupt,
        indexed({std::int64_t{1} << 40, stripe.size()}, join(head, stripe)));
    add("lanes_without_stripes", Errc::kCorrupt, indexed({head.size()}, head));
    add("lanes_stripes_too_many", Errc::kCorrupt,
        indexed({head.size(), stripe.size(), stripe.size()}, join(head, join(stripe, stripe))));
    add("lanes_stripe_too_short", Errc::kTruncated,
        good(Bytes(stripe.begin(), stripe.end() - (stripe.size() - 256))));
    add("lanes_stripe_cut", Errc::kTruncated, good(Bytes(stripe.begin(), stripe.end() - 4)));
    add("lanes_stripe_of_odd_size", Errc::kTruncated, good(join(stripe, {std::byte{0}})));
    add("lanes_stripe_with_four_bytes_more", Errc::kCorrupt, good(join(stripe, Bytes(4))));
    add("lanes_head_cut", Errc::kTruncated,
        indexed(
            {head.size() / 2, stripe.size()},
            join(Bytes(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(head.size() / 2)),
                 stripe)));
    add("lanes_head_with_a_byte_more", Errc::kCorrupt,
        indexed({head.size() + 1, stripe.size()}, join(join(head, {std::byte{0}}), stripe)));
    Bytes small_state = stripe;
    small_state[6] = small_state[7] = std::byte{0};
    add("lanes_state_too_small", Errc::kCorrupt, good(small_state));
    Bytes other_word = stripe;
    other_word[4] ^= std::byte{64};
    add("lanes_other_states", Errc::kCorrupt, good(other_word));
    add("lanes_of_nothing", Errc::kCorrupt,
        file(json{{"t", json::array()}, {"w", {head.size(), stripe.size()}}}, join(head, stripe)));
    json more = good_;
    more["h"] = {1 << 13, 1 << 14};
    json h = header({more});
    h["u"] = {0};
    h["w"] = {head.size(), stripe.size()};
    add("lanes_more_integers_than_bytes", Errc::kCorrupt, file(h, join(head, stripe)));
    more["h"] = {4, 5};
    more["k"] = 2;
    h["t"] = json::array({more});
    add("lanes_tables_of_another_kind", Errc::kCorrupt, file(h, join(head, stripe)));
  }

  /// Sections of profile small beside stripes.
  void mixed() {
    const auto parts = codec::lanes::stream_parts(lanes_);
    const Bytes head(parts.head.begin(), parts.head.end());
    const Bytes stripe(parts.stripes[0].begin(), parts.stripes[0].end());
    json other = good_;
    other["n"] = "v";
    const auto mixed = [&](json sizes, const Bytes& section, const Bytes& stripes) {
      json h = header({good_, other});
      h["u"] = {0, 0};
      h["w"] = {head.size(), stripe.size()};
      h["x"] = std::move(sizes);
      return file(h, join(section, stripes));
    };
    const Bytes in_lanes = join(head, stripe);
    add("mixed_section_past_end", Errc::kCorrupt, mixed({1 << 20, 0}, small_, in_lanes));
    add("mixed_section_hole", Errc::kCorrupt, mixed({small_.size() - 1, 0}, small_, in_lanes));
    add("mixed_sections_too_few", Errc::kCorrupt, mixed({small_.size()}, small_, in_lanes));
    add("mixed_without_sections", Errc::kCorrupt, mixed({0, 0}, {}, in_lanes));
    add("mixed_without_stripes", Errc::kCorrupt,
        whole([&](json& h) { h["x"] = {small_.size()}; }, small_));
    add("mixed_with_nothing_in_stripes", Errc::kCorrupt,
        mixed({small_.size(), small_.size()}, join(small_, small_), in_lanes));
    add("mixed_section_cut", Errc::kTruncated,
        mixed({small_.size() - 1, 0}, Bytes(small_.begin(), small_.end() - 1), in_lanes));
  }

  void gnets() {
    json made = linear_entry("w");
    made["c"] = 3;
    add("coded_theta_without_steps", Errc::kCorrupt, file(header({made}), small_));
    made["z"] = 3;
    add("coded_theta_with_a_section", Errc::kCorrupt, file(header({made}), small_));
    json both = linear_entry("w");
    both["k"] = 0;
    both["c"] = 0;
    add("residual_of_other_coding", Errc::kCorrupt, file(header({both}), small_));
  }

 private:
  void add(const std::string& name, Errc code, Bytes bytes) {
    files_.push_back({name, code, std::move(bytes)});
  }
  Bytes entry(const std::function<void(json&)>& change) const {
    json e = good_;
    change(e);
    json h = header({e});
    h["u"] = {0};
    return file(h, small_);
  }
  Bytes whole(const std::function<void(json&)>& change, const Bytes& sections) const {
    json h = header({good_});
    h["u"] = {0};
    change(h);
    return file(h, sections);
  }
  static Bytes with_step(json e, int step, const std::vector<std::int32_t>& values) {
    json h = header({std::move(e)});
    h["u"] = {step + 64};
    return file(h, stream(CodecProfile::kSmall, {{4, 5, 0}}, {values}));
  }

  std::vector<BadFile> files_;
  const std::vector<std::int32_t> numbers_ = {3, 0, -1, 0, 0, 2, 0, 0, 1, 0,
                                              0, 0, -7, 0, 1, 0, 0, 0, 1, -2};
  const Bytes small_ = stream(CodecProfile::kSmall, {{4, 5, 0}}, {numbers_});
  const Bytes lanes_ = stream(CodecProfile::kLanes, {{4, 5, 0}}, {numbers_});
  const json good_ = {{"n", "w"}, {"h", {4, 5}}, {"k", 0}};
};

}  // namespace

std::vector<BadFile> bad_coded_files() {
  CodedCollection all;
  all.short_floats();
  all.whole_numbers();
  all.levels();
  all.axes();
  all.forms();
  all.steps();
  all.streams();
  all.lanes();
  all.mixed();
  all.gnets();
  return all.take();
}

}  // namespace gbcompress::craft
