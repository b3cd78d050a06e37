#include "gbcompress/decode.h"

#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

/// What a file leaves out must be what the model has: names, order, shapes, types, and the buffers
/// of a new model.
TEST(ArchLayout, IsThatOfTheModels) {
  const Registry registry = builtin_registry();
  for (const std::string arch :
       {"mlp:784-300-100-10", "mlp:5-4", "mlp:007-3", "lenet-300-100", "lenet5", "resnet20",
        "resnet20:100", "resnet32", "resnet32:3", "resnet56"}) {
    SCOPED_TRACE(arch);
    const auto model = build_model(arch, registry);
    const auto layout = arch_layout(arch);
    ASSERT_TRUE(layout);
    ASSERT_EQ(layout->size(), model->tensors().size());
    for (std::size_t i = 0; i < layout->size(); ++i) {
      const LayoutEntry& entry = (*layout)[i];
      const NamedParameter& tensor = model->tensors()[i];
      EXPECT_EQ(entry.name, tensor.info.name);
      EXPECT_EQ(entry.shape, tensor.info.shape);
      EXPECT_EQ(entry.dtype, tensor.info.dtype);
      EXPECT_EQ(entry.buffer, !tensor.trainable);
      if (entry.buffer) {
        EXPECT_TRUE((tensor.tensor == entry.initial).all().item<bool>()) << entry.name;
      }
    }
  }
}

TEST(ArchLayout, EveryArchitectureHasOne) {
  for (const std::string& name : known_architectures(builtin_registry()))
    EXPECT_TRUE(arch_layout(name) || arch_layout(name + ":3-2")) << name;
  EXPECT_EQ(known_architectures(builtin_registry()), layout_names());
}

/// A name that the model refuses has no layout either.
TEST(ArchLayout, RefusesWhatTheModelsRefuse) {
  for (const char* arch : {"mlp", "mlp:", "mlp:7", "mlp:7-", "mlp:-7-3", "mlp:7-0-3", "mlp:7-x",
                           "mlp:7 -3", "mlp:1048577-2", "mlp:1048576-1048576", "lenet5:3",
                           "lenet-300-100:4", "resnet20:0", "resnet20:ten", "resnet20:99999999"})
    EXPECT_FALSE(arch_layout(arch)) << arch;
}

}  // namespace
}  // namespace gbcompress
