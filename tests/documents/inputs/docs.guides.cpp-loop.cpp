// The names that the page's loop takes from the program around it.
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

using namespace gbcompress;

struct Net {
  torch::nn::Module& operator*();
  Net* operator->();
  at::Tensor forward(const at::Tensor& inputs);
};
Net make_net();
at::Tensor loss(const at::Tensor& outputs, const at::Tensor& targets);

void loop(std::int64_t samples, std::int64_t total, double lr_factor,
          std::vector<std::pair<at::Tensor, at::Tensor>> batches) {
  Net net = make_net();
  BLOCK
}
