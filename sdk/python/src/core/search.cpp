// The search over one scalar, for runs that Python drives.
#include <nanobind/stl/optional.h>

#include <limits>
#include <optional>

#include "module.h"
#include "search/bracket_search.h"

namespace gbcompress::python {
namespace {

BracketSearch make_search(bool logarithmic, double first, std::optional<double> holds,
                          std::optional<double> fails, int cuts, double resolution, double stride,
                          double limit) {
  const BracketRule rule{.scale = logarithmic ? Scale::kLog : Scale::kLinear,
                         .cuts = cuts,
                         .resolution = resolution,
                         .stride = stride,
                         .strides = std::numeric_limits<int>::max(),
                         .limit = limit};
  return {rule, {.first = first, .holds = holds, .fails = fails}};
}

}  // namespace

void bind_search(nb::module_& module) {
  nb::class_<BracketSearch>(module, "BracketSearch")
      .def_static("make", &make_search, nb::arg("logarithmic") = false, nb::arg("first") = 0.0,
                  nb::arg("holds") = nb::none(), nb::arg("fails") = nb::none(),
                  nb::arg("cuts") = std::numeric_limits<int>::max(), nb::arg("resolution") = 0.0,
                  nb::arg("stride") = 2.0,
                  nb::arg("limit") = std::numeric_limits<double>::infinity())
      .def("next", [](const BracketSearch& search) { return search.next(); })
      .def("tried", &BracketSearch::tried, nb::arg("x"), nb::arg("holds"))
      .def_prop_ro("holds", &BracketSearch::holds);
}

}  // namespace gbcompress::python
