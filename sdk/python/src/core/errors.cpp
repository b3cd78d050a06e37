// The one error type of the core as exceptions of gbcompress._errors.
#include "gbcompress/error.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <string>

#include "module.h"

namespace gbcompress::python {

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      const std::string code(errc_name(error.code()));
      const nb::object made =
          nb::module_::import_("gbcompress._errors").attr("of_code")(code, error.what());
      PyErr_SetObject(made.type().ptr(), made.ptr());
    }
  });
}

}  // namespace gbcompress::python
