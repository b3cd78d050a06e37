#include "format/safetensors/json_scan.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kMaxKeys = 4'000'000;

class Scanner : public nlohmann::json_sax<nlohmann::json> {
 public:
  Scanner(const std::string& label, std::size_t max_depth, JsonHandler& handler)
      : label_(label), max_depth_(max_depth), handler_(handler) {}

  bool start_object(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (++keys_ > kMaxKeys) throw Error(Errc::kLimit, label_ + " has more than 4 million keys");
    JsonFrame& frame = frames_.back();
    if (!frame.seen.insert(name).second)
      throw Error(Errc::kCorrupt,
                  label_ + " has the key " + printable(name.substr(0, 512)) + " twice");
    frame.key = std::move(name);
    return true;
  }

  bool string(string_t& value) override {
    handler_.text(frames_, value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    handler_.whole(frames_, value);
    return true;
  }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool boolean(bool value) override {
    handler_.truth(frames_, value);
    return true;
  }
  bool null() override { return other(); }
  bool binary(binary_t&) override { return other(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error(Errc::kCorrupt, label_ + " is not JSON at byte " + std::to_string(position));
  }

 private:
  bool open(bool object) {
    handler_.begin(frames_, object);
    if (frames_.size() == max_depth_)
      throw Error(Errc::kLimit,
                  label_ + " is nested more than " + std::to_string(max_depth_) + " deep");
    frames_.push_back({object, {}, {}});
    return true;
  }
  bool close() {
    handler_.end(frames_);
    frames_.pop_back();
    return true;
  }
  bool other() {
    handler_.other(frames_);
    return true;
  }

  const std::string& label_;
  const std::size_t max_depth_;
  JsonHandler& handler_;
  std::vector<JsonFrame> frames_;
  std::size_t keys_ = 0;
};

}  // namespace

void scan_json(std::string_view text, const std::string& label, std::size_t max_depth,
               JsonHandler& handler) {
  Scanner scanner(label, max_depth, handler);
  nlohmann::json::sax_parse(text.begin(), text.end(), &scanner);
}

}  // namespace gbcompress
