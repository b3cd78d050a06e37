// A sweep for spreadsheets, programs and eyes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gbcompress/compress.h"
#include "gbcompress/error.h"
#include "sweep/sweep_points.h"

namespace gbcompress {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 5> kMethods = {kDenseMethod, kQuantizedMethod, kGNetMethod,
                                                 kRoundingMethod, kFactorMethod};
// Told apart by the color-blind too; what is to be beaten is hollow and dashed.
constexpr std::array<const char*, 5> kColours = {"#000000", "#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7"};

bool is_control(std::size_t method) {
  return kMethods[method] != std::string_view(kQuantizedMethod) &&
         kMethods[method] != std::string_view(kGNetMethod);
}

/// A cell of a CSV file.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

constexpr std::size_t kFewestTicks = 4;
constexpr double kMostTicks = 9;

/// An axis from the lowest to the highest value, in pixels.
struct Axis {
  double low, high, from, to;
  bool logarithmic;

  double scaled(double value) const { return logarithmic ? std::log10(value) : value; }
  double at(double value) const {
    const double part = (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
    return from + part * (to - from);
  }
  /// Round numbers inside: 1, 2, 5 of each decade, or more of them where that gives few; else four
  /// to nine equal steps.
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    for (const auto& steps : {std::vector<double>{1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}}) {
      if (!logarithmic) break;
      ticks.clear();
      for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
        for (const double step : steps)
          if (step * decade >= low && step * decade <= high) ticks.push_back(step * decade);
      if (ticks.size() >= kFewestTicks) return ticks;
    }
    ticks.clear();
    const double rough = (high - low) / kMostTicks;
    const double decade = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * decade;
    for (const double nice : {5.0, 2.0, 1.0})
      if (nice * decade >= rough) step = nice * decade;
    for (double tick = std::ceil(low / step); tick * step <= high; ++tick)
      ticks.push_back(tick * step);
    return ticks;
  }
};

Axis axis_for(std::vector<double> values, double from, double to, bool logarithmic) {
  std::erase_if(values, [&](double v) { return !std::isfinite(v) || (logarithmic && v <= 0); });
  if (values.empty()) values.push_back(1);
  auto [low, high] = std::minmax_element(values.begin(), values.end());
  Axis axis{*low, *high, from, to, logarithmic};
  if (logarithmic) {
    axis.low /= 1.15;
    axis.high *= 1.15;
  } else {
    const double room = std::max(0.05 * (axis.high - axis.low), 1e-3 * std::fabs(axis.high) + 1e-9);
    axis.low -= room;
    axis.high += room;
  }
  return axis;
}

std::string bytes_label(double bytes) {
  for (const auto& [unit, name] : {std::pair{1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}}) {
    if (bytes < unit) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", bytes / unit);
    return std::string(text) + name;
  }
  return number(bytes) + " B";
}

std::string metric_label(const SweepReport& report) {
  if (!report.metric) return "relative squared error of the weights (not evaluated)";
  return *report.metric == Metric::kAccuracy      ? "test accuracy, percent"
         : *report.metric == Metric::kNatsPerChar ? "test loss, nats per character"
                                                  : "squared error of outputs over their squares";
}

struct Drawing {
  static constexpr double kWidth = 860, kHeight = 520, kLeft = 80, kRight = 620, kTop = 50,
                          kBottom = 450;
  std::string text;

  void line(double x1, double y1, double x2, double y2, const std::string& style) {
    text += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
            "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
  }
  void words(double x, double y, const std::string& words, const std::string& style) {
    text += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + style + ">" +
            escaped(words) + "</text>\n";
  }
};

}  // namespace

std::string sweep_csv(const SweepReport& report) {
  std::string text =
      "method,setting,bytes,ratio,bits_per_parameter,metric,weight_error,seconds,file\r\n";
  for (const SweepPoint& p : report.points)
    text += cell(p.method) + "," + cell(p.setting) + "," + std::to_string(p.bytes) + "," +
            number(p.ratio) + "," +
            number(8.0 * static_cast<double>(p.bytes) /
                   static_cast<double>(std::max<std::int64_t>(report.parameters, 1))) +
            "," + (p.metric ? number(*p.metric) : "") + "," + number(p.weight_error) + "," +
            number(p.seconds) + "," + cell(p.file) + "\r\n";
  return text;
}

std::string sweep_json(const SweepReport& report) {
  ordered_json points = ordered_json::array();
  for (const SweepPoint& p : report.points) points.push_back(point_json(p));
  ordered_json metric;
  if (report.metric) metric = {{"name", metric_name(*report.metric)}, {"before", report.before}};
  return ordered_json{{"input_bytes", report.input_bytes},
                      {"parameters", report.parameters},
                      {"metric", metric},
                      {"computed", report.computed},
                      {"points", points}}
      .dump();
}

std::string sweep_svg(const SweepReport& report, const std::string& title) {
  std::vector<double> sizes, qualities;
  const auto quality = [&](const SweepPoint& p) { return p.metric.value_or(p.weight_error); };
  for (const SweepPoint& p : report.points) {
    sizes.push_back(static_cast<double>(p.bytes));
    qualities.push_back(quality(p));
  }
  if (report.metric) qualities.push_back(report.before);
  using D = Drawing;
  const Axis x = axis_for(sizes, D::kLeft, D::kRight, true);
  const Axis y = axis_for(qualities, D::kBottom, D::kTop, !report.metric);

  D d;
  d.text = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(D::kWidth) + " " +
           number(D::kHeight) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  d.words((D::kLeft + D::kRight) / 2, 28, title, "text-anchor=\"middle\" font-size=\"15\"");
  for (const double tick : x.ticks()) {
    d.line(x.at(tick), D::kTop, x.at(tick), D::kBottom, "stroke=\"#dddddd\"");
    d.words(x.at(tick), D::kBottom + 18, bytes_label(tick), "text-anchor=\"middle\"");
  }
  for (const double tick : y.ticks()) {
    d.line(D::kLeft, y.at(tick), D::kRight, y.at(tick), "stroke=\"#dddddd\"");
    d.words(D::kLeft - 8, y.at(tick) + 4, number(tick), "text-anchor=\"end\"");
  }
  d.words((D::kLeft + D::kRight) / 2, D::kBottom + 42, "bytes on disk", "text-anchor=\"middle\"");
  d.words(0, 0, metric_label(report),
          "text-anchor=\"middle\" transform=\"translate(20 " + number((D::kTop + D::kBottom) / 2) +
              ") rotate(-90)\"");
  double legend = D::kTop + 10;
  if (report.metric) {
    d.line(D::kLeft, y.at(report.before), D::kRight, y.at(report.before),
           "stroke=\"#555555\" stroke-dasharray=\"6 4\"");
    d.line(D::kRight + 20, legend - 4, D::kRight + 44, legend - 4,
           "stroke=\"#555555\" stroke-dasharray=\"6 4\"");
    d.words(D::kRight + 50, legend,
            "the model, " + bytes_label(static_cast<double>(report.input_bytes)), "");
    legend += 24;
  }
  for (std::size_t method = 0; method < kMethods.size(); ++method) {
    std::vector<const SweepPoint*> points;
    for (const SweepPoint& p : report.points)
      if (p.method == kMethods[method] && std::isfinite(quality(p)) &&
          (report.metric || quality(p) > 0))
        points.push_back(&p);
    if (points.empty()) continue;
    std::sort(points.begin(), points.end(),
              [](const SweepPoint* a, const SweepPoint* b) { return a->bytes < b->bytes; });
    const std::string colour = std::string("\"") + kColours[method] + "\"";
    std::string path;
    for (const SweepPoint* p : points)
      path += number(x.at(static_cast<double>(p->bytes))) + "," + number(y.at(quality(*p))) + " ";
    path.pop_back();
    const std::string line = "stroke-width=\"2\" stroke=" + colour +
                             (is_control(method) ? " stroke-dasharray=\"3 4\"" : "");
    const std::string paint = "stroke-width=\"2\" stroke=" + colour +
                              " fill=" + (is_control(method) ? "\"white\"" : colour);
    d.text += "<polyline fill=\"none\" " + line + " points=\"" + path + "\"/>\n";
    for (const SweepPoint* p : points)
      d.text +=
          "<circle cx=\"" + number(x.at(static_cast<double>(p->bytes))) + "\" cy=\"" +
          number(y.at(quality(*p))) + "\" " + "r=\"4\" " + paint + "><title>" +
          escaped(p->setting + ": " + std::to_string(p->bytes) + " B, " + number(quality(*p))) +
          "</title></circle>\n";
    d.line(D::kRight + 20, legend - 4, D::kRight + 44, legend - 4, line);
    // Of the legend no circle, so that circles are points and nothing else.
    d.text += "<ellipse cx=\"" + number(D::kRight + 32) + "\" cy=\"" + number(legend - 4) +
              "\" rx=\"4\" ry=\"4\" " + paint + "/>\n";
    d.words(D::kRight + 50, legend, kMethods[method], "");
    legend += 24;
  }
  return d.text + "</svg>\n";
}

void write_sweep(const SweepReport& report, const std::filesystem::path& folder,
                 const std::string& title) {
  for (const auto& [name, text] :
       {std::pair<const char*, std::string>{"sweep.csv", sweep_csv(report)},
        {"sweep.json", sweep_json(report) + "\n"},
        {"sweep.svg", sweep_svg(report, title)}}) {
    AtomicFile file(folder / name, true);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  }
}

}  // namespace gbcompress
