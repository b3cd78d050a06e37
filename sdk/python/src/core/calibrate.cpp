// Calibration, with an evaluator of Python's.
#include "gbcompress/calibrate.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interruptible.h"
#include "module.h"
#include "save.h"

namespace gbcompress::python {
namespace {

std::vector<float> floats_of(const nb::handle& array) {
  const auto values = span_of(nb::cast<Input<float>>(array));
  return {values.begin(), values.end()};
}

/// An object with groups(), begin(), put(name, values) and inputs(name), which gives the arrays of
/// SequentialInputs in their order. Called without the interpreter's lock, from any thread.
class PythonSequence : public SequentialModel {
 public:
  explicit PythonSequence(nb::object object) : object_(std::move(object)) {}

  std::vector<std::vector<std::string>> groups() override {
    const nb::gil_scoped_acquire lock;
    return nb::cast<std::vector<std::vector<std::string>>>(object_.attr("groups")());
  }
  void begin() override {
    const nb::gil_scoped_acquire lock;
    object_.attr("begin")();
  }
  void put(const std::string& name, std::span<const float> values) override {
    const nb::gil_scoped_acquire lock;
    const nb::bytes content(values.data(), values.size_bytes());
    object_.attr("put")(name, content);
  }
  SequentialInputs inputs(const std::string& name) override {
    const nb::gil_scoped_acquire lock;
    const auto found = nb::cast<nb::tuple>(object_.attr("inputs")(name));
    return {floats_of(found[0]), floats_of(found[1]), floats_of(found[2]), floats_of(found[3])};
  }

 private:
  nb::object object_;
};

/// An object with error(file), quality(file), refitted(file), sequential(), limited(), time() and
/// tell(name, bytes, error).
class PythonEvaluator : public Evaluator {
 public:
  explicit PythonEvaluator(nb::object object) : object_(std::move(object)) {}

  double error(const std::filesystem::path& file) override {
    return nb::cast<double>(object_.attr("error")(file.string()));
  }
  std::optional<double> quality(const std::filesystem::path& file) override {
    return nb::cast<std::optional<double>>(object_.attr("quality")(file.string()));
  }
  std::map<std::string, std::vector<float>> refitted(const std::filesystem::path& file) override {
    std::map<std::string, std::vector<float>> vectors;
    for (const auto& [name, value] : nb::cast<nb::dict>(object_.attr("refitted")(file.string())))
      vectors[nb::cast<std::string>(name)] = floats_of(value);
    return vectors;
  }
  SequentialModel* sequential() override {
    if (!sequence_) {
      nb::object found = object_.attr("sequential")();
      if (found.is_none()) return nullptr;
      sequence_.emplace(std::move(found));
    }
    return &*sequence_;
  }
  bool limited() const { return nb::cast<bool>(object_.attr("limited")()); }
  bool time() const { return nb::cast<bool>(object_.attr("time")()); }
  void tell(const CandidateError& candidate) const {
    object_.attr("tell")(candidate.name, candidate.bytes, candidate.error);
  }

 private:
  nb::object object_;
  std::optional<PythonSequence> sequence_ = {};
};

class PythonCalibration {
 public:
  PythonCalibration(const nb::object& source, const nb::list& statistics, nb::object evaluator,
                    const std::string& folder, const std::vector<std::string>& exact, int threads,
                    const std::vector<LayerTuple>& layers)
      : source_(source, ""),
        statistics_(read_statistics(bundle_of(statistics))),
        evaluator_(std::move(evaluator)),
        calibration_(
            source_.bundle, statistics_, evaluator_,
            {.weights = options_for({}, std::int64_t{1}, {}, rules_of(exact, layers), "", threads),
             .folder = folder,
             .time = evaluator_.limited()
                         ? std::function<bool()>([this] { return evaluator_.time(); })
                         : nullptr,
             .tell = [this](const CandidateError& candidate) { evaluator_.tell(candidate); },
             .run =
                 [](const std::function<void()>& work) {
                   interruptible([&] {
                     work();
                     return 0;
                   });
                 }}) {}

  std::int64_t input_bytes() const { return source_.input_bytes; }

  nb::dict best(std::int64_t bytes) {
    const CalibratedFile best = calibration_.best(bytes);
    nb::dict report = to_dict(best.report);
    report["input_bytes"] = source_.input_bytes;
    nb::dict result;
    result["file"] = best.file.string();
    result["report"] = report;
    result["method"] = best.method;
    result["error"] = best.error;
    result["quality"] = nb::cast(best.quality);
    nb::dict errors;
    for (const CandidateError& candidate : best.candidates)
      errors[candidate.name.c_str()] = candidate.error;
    result["candidates"] = errors;
    return result;
  }

 private:
  WeightsSource source_;
  Statistics statistics_;
  PythonEvaluator evaluator_;
  Calibration calibration_;
};

}  // namespace

void bind_calibrate(nb::module_& module) {
  nb::class_<PythonCalibration>(module, "Calibration")
      .def(nb::init<const nb::object&, const nb::list&, nb::object, const std::string&,
                    const std::vector<std::string>&, int, const std::vector<LayerTuple>&>(),
           nb::arg("source"), nb::arg("statistics"), nb::arg("evaluator"), nb::arg("folder"),
           nb::arg("exact"), nb::arg("threads"), nb::arg("layers") = std::vector<LayerTuple>())
      .def_prop_ro("input_bytes", &PythonCalibration::input_bytes)
      .def("best", &PythonCalibration::best, nb::arg("bytes"));
}

}  // namespace gbcompress::python
