#include "report.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "exit_status.h"
#include "file_names.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"
#include "gbcompress/weights.h"

namespace gbcompress::cli {

/// The template: cli/report/page.html.
extern const char* const kReportPage;

namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Tensors that a page lists at most: half of them the largest, the others those with the largest
/// errors. 1,000 and their histograms take half a megabyte.
constexpr std::size_t kMostTensors = 1000;
/// Points of a curve are at least half as many, once there were as many steps.
constexpr std::size_t kMostPoints = 512;

std::string base64(const std::string& bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t block = 0;
    for (std::size_t j = 0; j < 3; ++j)
      block = block << 8 |
              (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : std::uint32_t{0});
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kLetters[block >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// What stands between two marks of the template, as a Content-Security-Policy names it.
std::string hash_of(const std::string& page, const std::string& from, const std::string& to) {
  const std::size_t begin = page.find(from) + from.size();
  const std::string inside = page.substr(begin, page.find(to, begin) - begin);
  return "'sha256-" + base64(sha256(std::as_bytes(std::span(inside)))) + "'";
}

void replace(std::string& page, const std::string& mark, const std::string& text) {
  page.replace(page.find(mark), mark.size(), text);
}

std::string as_html(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'')
      result += "&#" + std::to_string(static_cast<int>(c)) + ";";
    else
      result += c;
  }
  return result;
}

/// JSON that cannot end the element it stands in, whatever its texts are.
std::string as_block(const ordered_json& data) {
  std::string result;
  for (const char c :
       data.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&')
      result += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    else
      result += c;
  }
  return result;
}

/// Of a file or folder, without the folders above it.
std::string name_of(std::string subject) {
  while (subject.size() > 1 && subject.back() == '/') subject.pop_back();
  return fs::path(subject).filename().string();
}

double number_of(const ordered_json& tensor, const char* key) {
  const auto found = tensor.find(key);
  return found != tensor.end() && found->is_number() ? found->get<double>() : 0;
}
double bytes_of(const ordered_json& tensor) {
  return tensor.contains("bytes") ? number_of(tensor, "bytes") : number_of(tensor, "stored_bytes");
}

/// Leaves kMostTensors of a list. @return how many tensors and bytes are left out; or null
ordered_json shorten(ordered_json& tensors) {
  if (tensors.size() <= kMostTensors) return nullptr;
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto half = order.begin() + kMostTensors / 2, full = order.begin() + kMostTensors;
  const auto by = [&](auto value) {
    return [&tensors, value](std::size_t a, std::size_t b) {
      const double p = value(tensors[a]), q = value(tensors[b]);
      return p != q ? p > q : a < b;
    };
  };
  std::nth_element(order.begin(), half, order.end(), by(bytes_of));
  std::nth_element(half, full, order.end(),
                   by([](const auto& t) { return number_of(t, "error"); }));
  std::sort(order.begin(), full);
  ordered_json kept = ordered_json::array();
  for (auto i = order.begin(); i != full; ++i) kept.push_back(std::move(tensors[*i]));
  double bytes = 0;
  for (auto i = full; i != order.end(); ++i) bytes += bytes_of(tensors[*i]);
  const std::size_t left = tensors.size() - kMostTensors;
  tensors = std::move(kept);
  return {{"tensors", left}, {"bytes", bytes}};
}

/// Heights in percent of the tallest bin.
ordered_json heights(const std::vector<std::int64_t>& bins, std::int64_t tallest) {
  ordered_json list = ordered_json::array();
  for (const std::int64_t bin : bins)
    list.push_back(std::llround(100 * static_cast<double>(bin) /
                                static_cast<double>(std::max<std::int64_t>(1, tallest))));
  return list;
}

double three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

ordered_json to_json(const TensorHistogram& histogram) {
  std::int64_t tallest = 0;
  for (const auto* bins : {&histogram.file, &histogram.original})
    for (const std::int64_t bin : *bins) tallest = std::max(tallest, bin);
  ordered_json entry = {{"name", histogram.name},
                        {"low", three_digits(histogram.low)},
                        {"high", three_digits(histogram.high)},
                        {"file", heights(histogram.file, tallest)}};
  if (!histogram.original.empty()) entry["original"] = heights(histogram.original, tallest);
  if (histogram.not_finite > 0) entry["not_finite"] = histogram.not_finite;
  return entry;
}

}  // namespace

void add_report_options(boost::program_options::options_description& into, bool force) {
  auto add = into.add_options();
  add("report", boost::program_options::value<std::string>()->value_name("FILE"),
      "also write the results as a page, FILE.html, which loads nothing from the network");
  if (force) add("force", "replace the report");
}

void Curve::add(double x, double y) {
  sum_x_ += x;
  sum_y_ += y;
  if (++held_ == stride_) close();
}

void Curve::close() {
  const auto n = static_cast<double>(held_);
  x_.push_back(sum_x_ / n);
  y_.push_back(sum_y_ / n);
  sum_x_ = sum_y_ = 0;
  held_ = 0;
  if (x_.size() < kMostPoints) return;
  for (auto* values : {&x_, &y_}) {
    for (std::size_t i = 0; i < kMostPoints / 2; ++i)
      (*values)[i] = ((*values)[2 * i] + (*values)[2 * i + 1]) / 2;
    values->resize(kMostPoints / 2);
  }
  stride_ *= 2;
}

namespace {

ordered_json rounded(const std::vector<double>& values, double last, bool more) {
  ordered_json list = ordered_json::array();
  for (const double value : values) list.push_back(three_digits(value));
  if (more) list.push_back(three_digits(last));
  return list;
}

}  // namespace

ordered_json Curve::x() const {
  return rounded(x_, sum_x_ / static_cast<double>(std::max<std::int64_t>(1, held_)), held_ > 0);
}
ordered_json Curve::y() const {
  return rounded(y_, sum_y_ / static_cast<double>(std::max<std::int64_t>(1, held_)), held_ > 0);
}

Report::Report(const Arguments& arguments, std::string verb, std::string subject) {
  if (!arguments.has("report")) return;
  path_ = arguments.text("report");
  if (path_.empty()) throw Error(Errc::kUsage, "--report needs the name of a file: FILE.html");
  overwrite_ = arguments.has("force");
  writing([&] { check_writable(path_, overwrite_); });
  folders_ = KnownFolders(arguments);
  std::vector<std::string> command = {"gbcompress"};
  for (const std::string& word : arguments.call().arguments)
    command.push_back(folders_.without(word));
  page_ = {{"program", "gbcompress " GBC_VERSION_STRING},
           {"verb", std::move(verb)},
           {"subject", name_of(std::move(subject))},
           {"command", quoted(command)}};
}

void Report::set(const std::string& key, ordered_json value) {
  if (wanted()) page_[key] = std::move(value);
}

void Report::list(const TensorSource& file) {
  if (!wanted()) return;
  ordered_json tensors = ordered_json::array();
  for (const StoredTensor& tensor : file.tensors())
    tensors.push_back({{"name", tensor.name},
                       {"dtype", dtype_name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"stored", tensor.stored},
                       {"profile", tensor.profile},
                       {"bits", tensor.bits()},
                       {"bytes", tensor.bytes}});
  page_["tensors"] = std::move(tensors);
}

void Report::show(TensorSource file, std::optional<TensorSource> original) {
  if (!wanted()) return;
  file_ = std::move(file);
  original_ = std::move(original);
}

void Report::show(const ArtifactReader& artifact, std::optional<TensorSource> original) {
  const auto& tensors = artifact.tensors();
  if (std::all_of(tensors.begin(), tensors.end(), is_placed))
    show(TensorSource::of(artifact), std::move(original));
  else
    set("notes", {"There are no histograms: some tensors are made by layer types of plugins."});
}

void Report::write(ordered_json result) {
  if (!wanted()) return;
  ordered_json& holder =
      result.contains("tensors") && result["tensors"].is_array() ? result : page_;
  if (holder.contains("tensors")) {
    if (ordered_json left = shorten(holder["tensors"]); !left.is_null())
      page_["left_out"] = std::move(left);
    std::unordered_set<std::string> names;
    for (const ordered_json& tensor : holder["tensors"]) names.insert(tensor["name"]);
    ordered_json shown = ordered_json::array();
    if (file_)
      for (const TensorHistogram& each :
           histograms(*file_, original_ ? &*original_ : nullptr, names))
        shown.push_back(to_json(each));
    page_["histograms"] = std::move(shown);
  }
  page_["result"] = std::move(result);
  folders_.remove_from(page_);
  std::string page = kReportPage;
  const std::string policy =
      "default-src 'none'; style-src " + hash_of(page, "<style>", "</style>") + "; script-src " +
      hash_of(page, "<script>", "</script>") + "; base-uri 'none'; form-action 'none'";
  replace(page, "@POLICY@", policy);
  replace(page, "@TITLE@",
          as_html("gbcompress " + page_["verb"].get<std::string>() + ": " +
                  page_["subject"].get<std::string>()));
  replace(page, "@DATA@", as_block(page_));
  writing([&] {
    AtomicFile file(path_, overwrite_);
    file.write(std::as_bytes(std::span(page)));
    file.commit();
  });
}

}  // namespace gbcompress::cli
