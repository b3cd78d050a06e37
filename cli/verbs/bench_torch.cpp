#include "gbcompress/bench.h"

#include <ATen/Parallel.h>

#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "gbcompress/settings.h"
#include "load_plugins.h"
#include "numbers.h"
#include "table.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

ordered_json rate_json(const EngineRate& rate) {
  return {{"weights_per_second", rate.weights_per_second},
          {"fma_fraction", rate.fma_fraction},
          {"copy_fraction", rate.copy_fraction}};
}

ordered_json report_json(const EngineReport& report) {
  ordered_json rows = ordered_json::array();
  for (const EngineRow& row : report.rows)
    rows.push_back({{"shape", row.shape},
                    {"gnet", row.gnet},
                    {"weights", row.weights},
                    {"tiles", row.tiles},
                    {"gnet_parameters", row.gnet_parameters},
                    {"forward", rate_json(row.forward)},
                    {"backward", rate_json(row.backward)},
                    {"step", rate_json(row.step)},
                    {"step_seconds", row.step_seconds},
                    {"samples", row.samples},
                    {"model_bytes", row.model_bytes},
                    {"bank_bytes", row.bank_bytes},
                    {"step_extra_bytes", row.step_extra_bytes}});
  return {{"threads", report.machine.threads},
          {"isa", report.machine.isa},
          {"kernel", report.kernel},
          {"fma_per_second", report.machine.fma_per_second},
          {"copy_bytes_per_second", report.machine.copy_bytes_per_second},
          {"load_average", report.load_average},
          {"shapes", rows}};
}

std::string millions(double number) { return fixed(number / 1e6, 1); }
std::string percent(double fraction) { return fixed(100 * fraction, 0); }
std::string megabytes(std::int64_t bytes) {
  return bytes < 0 ? "?" : fixed(static_cast<double>(bytes) / 1048576, 1);
}

void print_report(const EngineReport& report) {
  std::cout << report.machine.threads << (report.machine.threads == 1 ? " thread, " : " threads, ")
            << report.machine.isa << ", kernel " << report.kernel
            << "\nmachine: " << fixed(report.machine.fma_per_second / 1e9, 1)
            << " G multiply-adds/s, copies " << fixed(report.machine.copy_bytes_per_second / 1e9, 1)
            << " GB/s (read + written), load average " << fixed(report.load_average, 2) << "\n\n";
  Table table(2);
  table.row({"shape", "g-net", "weights", "forward", "backward", "step", "multiply-", "copying",
             "bank", "extra"});
  table.row({"", "", "", "M/s", "M/s", "M/s", "adds, %", "%", "MiB", "MiB"});
  for (const EngineRow& row : report.rows)
    table.row({printable(row.shape), row.gnet, with_commas(row.weights),
               millions(row.forward.weights_per_second), millions(row.backward.weights_per_second),
               millions(row.step.weights_per_second),
               percent(row.forward.fma_fraction) + " / " + percent(row.backward.fma_fraction),
               percent(row.forward.copy_fraction) + " / " + percent(row.backward.copy_fraction),
               megabytes(row.bank_bytes), megabytes(row.step_extra_bytes)});
  std::cout << table.text();
}

}  // namespace

int bench_with_torch(const Arguments& arguments) {
  const std::string what = arguments.words()[0];
  if (const std::string instead = instead_of_removed("bench " + what); !instead.empty())
    throw Error(Errc::kUsage, "bench " + what + " was removed; " + instead);
  if (what != "engine")
    throw Error(Errc::kUsage, "bench has no target named " + printable(what) +
                                  did_you_mean(what, {"engine"}) + "; see gbcompress bench --help");
  EngineOptions chosen;
  chosen.shapes = arguments.list("shape");
  if (arguments.has("seconds"))
    chosen.seconds = parse_number(arguments.text("seconds"), "--seconds", 0.001, 3600.0);
  if (arguments.has("kernel")) chosen.kernel = arguments.text("kernel");
  if (arguments.has("threads"))
    at::set_num_threads(parse_number(arguments.text("threads"), "--threads", 1, 1024));
  if (arguments.has("isa")) restrict_isa(arguments.text("isa"));

  PluginHost host;
  load_plugins(host, arguments);
  const EngineReport report = measure_engine(host.registry(), chosen);
  if (arguments.json())
    print_json(report_json(report));
  else
    print_report(report);
  return kDone;
}

}  // namespace gbcompress::cli
