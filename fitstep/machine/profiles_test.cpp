#include "fitstep/machine/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {
namespace {

// Those of GPUs: all but the example and the unit machine.
std::vector<Machine> gpu_machines() {
  std::vector<Machine> machines;
  for (const Profile& profile : profiles()) {
    Result<Machine> machine = named_machine(profile.name);
    if (!machine.has_value()) {
      ADD_FAILURE() << profile.name << ": " << machine.error().message;
    } else if (machine->roofline) {
      EXPECT_EQ(machine->name, profile.name);
      machines.push_back(*machine);
    }
  }
  return machines;
}

TEST(Profiles, AreTheFilesOfTheFolder) {
  std::vector<std::string> files;
  const std::string folder = std::string(FITSTEP_SOURCE_DIR) + "/fitstep/machine/profiles";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().stem().string());
  }
  std::ranges::sort(files);
  std::vector<std::string> names;
  for (const Profile& profile : profiles()) names.emplace_back(profile.name);
  EXPECT_EQ(names, files);
  EXPECT_GE(gpu_machines().size(), 11U);
}

TEST(Profiles, OfGpusAreAsTheyWouldBePrinted) {
  for (const Profile& profile : profiles()) {
    const Result<Machine> machine = named_machine(profile.name);
    ASSERT_TRUE(machine.has_value()) << machine.error().message;
    if (!machine->roofline) continue;
    EXPECT_EQ(print_machine(*machine), profile.json) << profile.name;
  }
}

TEST(Profiles, OfGpusSayWhereTheirFiguresComeFrom) {
  const std::vector<std::string_view> figures = {"launch_ps",
                                                 "tiers[0].capacity_bytes",
                                                 "links[0].alone_bytes_per_s",
                                                 "links[0].both_bytes_per_s",
                                                 "roofline.fp32_flops_per_s",
                                                 "roofline.memory_bytes_per_s"};
  for (const Machine& machine : gpu_machines()) {
    for (const std::string_view figure : figures) {
      const auto found = std::ranges::find(machine.sources, figure, &FigureSource::figure);
      ASSERT_NE(found, machine.sources.end()) << machine.name << " " << figure;
      EXPECT_FALSE(found->source.empty()) << machine.name << " " << figure;
    }
  }
}

TEST(Profiles, OfGpusAgreeWithThemselves) {
  for (const Machine& machine : gpu_machines()) {
    SCOPED_TRACE(machine.name);
    ASSERT_EQ(machine.tiers.size(), 3U);
    ASSERT_EQ(machine.links.size(), 2U);
    for (const Link& link : machine.links) {
      EXPECT_LE(link.evict.both_bytes_per_s, link.evict.alone_bytes_per_s);
      EXPECT_LE(link.prefetch.both_bytes_per_s, link.prefetch.alone_bytes_per_s);
    }
    // A copy takes its share of the device's memory bandwidth.
    const auto rate = static_cast<double>(machine.links[0].evict.alone_bytes_per_s);
    const auto memory = static_cast<double>(machine.roofline->memory_bytes_per_s);
    EXPECT_NEAR(machine.links[0].compute_slowdown, 1 + rate / memory, 1e-4);
  }
}

TEST(Profiles, OfAnUnknownNameAreAnErrorThatListsTheKnownOnes) {
  const Result<Machine> machine = named_machine("a100");
  ASSERT_FALSE(machine.has_value());
  EXPECT_NE(machine.error().message.find(
                "no machine profile is named \"a100\"; the profiles are a100-40gb"),
            std::string::npos)
      << machine.error().message;
}

}  // namespace
}  // namespace fitstep
