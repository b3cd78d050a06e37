// Calibration, with an evaluator of Python's.
#include "gbcompress/calibrate.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "interruptible.h"
#include "module.h"
#include "save.h"

namespace gbcompress::python {
namespace {

/// An object with error(file), quality(file), refitted(file), time() and tell(name, bytes, error).
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
    for (const auto& [name, value] : nb::cast<nb::dict>(object_.attr("refitted")(file.string()))) {
      const auto values = span_of(nb::cast<Input<float>>(value));
      vectors[nb::cast<std::string>(name)].assign(values.begin(), values.end());
    }
    return vectors;
  }
  bool time() const { return nb::cast<bool>(object_.attr("time")()); }
  void tell(const CandidateError& candidate) const {
    object_.attr("tell")(candidate.name, candidate.bytes, candidate.error);
  }

 private:
  nb::object object_;
};

class PythonCalibration {
 public:
  PythonCalibration(const nb::object& source, const nb::list& statistics, nb::object evaluator,
                    const std::string& folder, const std::vector<std::string>& exact, int threads)
      : source_(source, ""),
        statistics_(read_statistics(bundle_of(statistics))),
        evaluator_(std::move(evaluator)),
        calibration_(
            source_.bundle, statistics_, evaluator_,
            {.weights = options_for({}, std::int64_t{1}, {}, exact, "", threads),
             .folder = folder,
             .time = [this] { return evaluator_.time(); },
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
                    const std::vector<std::string>&, int>(),
           nb::arg("source"), nb::arg("statistics"), nb::arg("evaluator"), nb::arg("folder"),
           nb::arg("exact"), nb::arg("threads"))
      .def_prop_ro("input_bytes", &PythonCalibration::input_bytes)
      .def("best", &PythonCalibration::best, nb::arg("bytes"));
}

}  // namespace gbcompress::python
