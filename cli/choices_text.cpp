#include "cli/choices_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/program/program.h"
#include "fitstep/report/choices.h"

namespace fitstep {
namespace {

constexpr size_t kMostOfEachChoice = 5;   // Storages listed.
constexpr size_t kMostLabelLetters = 56;  // JSON has full names.

// In the order of the enumeration.
constexpr std::array<const char*, kChoiceCount> kMeanings = {
    "parameters and other state", "used without a pause: nothing to choose",
    "stay between their uses", "dropped, then recomputed", "copied to host or disk and back"};

std::string times(int64_t count) {
  return count == 1 ? std::string("once") : fmt::format("{} times", count);
}

// Bytes times the time for which no op uses them.
double weight(const StorageChoice& choice) {
  return static_cast<double>(choice.size_bytes) * static_cast<double>(choice.gap_ps);
}

std::string again(const StorageChoice& choice) {
  if (!choice.again_ps) return "it cannot be recomputed";
  return fmt::format("recomputing it would take {}", format_seconds(*choice.again_ps));
}

}  // namespace

std::string label_of(const Program& program, StorageId storage) {
  const std::string& name = program.storages[storage.index()].name;
  if (name.empty()) return fmt::format("storage {}", storage.value());
  return shortened(name, kMostLabelLetters);
}

std::string why(const Program& program, const StorageChoice& choice) {
  std::string unused;
  if (!choice.before.is_none()) {
    unused = fmt::format("unused for {} until {}", format_seconds(choice.gap_ps),
                         shortened(place_of(program.ops[choice.after.index()]), kMostLabelLetters));
  }
  switch (choice.choice) {
    case Choice::Home:
      return "state that the next step needs";
    case Choice::Brief:
      return "used without a pause";
    case Choice::Keep:
      return fmt::format("{}; {}", unused, again(choice));
    case Choice::Recompute:
      return fmt::format("recomputed {} in {}; {}", times(choice.recomputes),
                         format_seconds(choice.recompute_ps), unused);
    case Choice::Offload:
      return fmt::format("{} copied; {}; {}", format_bytes(choice.copied_bytes), unused,
                         again(choice));
  }
  return "";
}

std::string print_totals(const std::vector<StorageChoice>& choices) {
  const std::array<ChoiceTotal, kChoiceCount> totals = total_choices(choices);
  std::string text = fmt::format("  {:<10}{:>12}{:>10}\n", "choice", "bytes", "storages");
  for (size_t i = 0; i < totals.size(); ++i) {
    text += fmt::format("  {:<10}{:>12}{:>10}  {}\n", to_string(static_cast<Choice>(i)),
                        format_bytes(totals.at(i).bytes), totals.at(i).storages, kMeanings.at(i));
  }
  return text;
}

std::string print_largest(const Program& program, const std::vector<StorageChoice>& choices) {
  std::string text;
  for (const Choice kind : {Choice::Keep, Choice::Recompute, Choice::Offload}) {
    std::vector<StorageChoice> of_kind;
    for (const StorageChoice& choice : choices) {
      if (choice.choice == kind) of_kind.push_back(choice);
    }
    if (of_kind.empty()) continue;
    std::ranges::stable_sort(of_kind, [](const StorageChoice& a, const StorageChoice& b) {
      return weight(a) > weight(b);
    });
    of_kind.resize(std::min(of_kind.size(), kMostOfEachChoice));
    text += fmt::format("\nlargest of {}, by bytes x time unused\n", to_string(kind));
    for (const StorageChoice& choice : of_kind) {
      const std::string maker =
          choice.maker.is_none()
              ? ""
              : " of " + shortened(place_of(program.ops[choice.maker.index()]), kMostLabelLetters);
      text += fmt::format("  {:>11}  {}{}\n               {}\n", format_bytes(choice.size_bytes),
                          label_of(program, choice.storage), maker, hang(why(program, choice), 15));
    }
  }
  return text;
}

Json to_json(const Program& program, const std::vector<StorageChoice>& choices) {
  const std::array<ChoiceTotal, kChoiceCount> totals = total_choices(choices);
  Json json = {{"totals", Json::object()}, {"storages", Json::array()}};
  for (size_t i = 0; i < totals.size(); ++i) {
    json["totals"][to_string(static_cast<Choice>(i))] = {{"storages", totals.at(i).storages},
                                                         {"bytes", totals.at(i).bytes}};
  }
  for (const StorageChoice& choice : choices) {
    Json one = {{"storage", choice.storage.value()},
                {"name", program.storages[choice.storage.index()].name},
                {"choice", to_string(choice.choice)},
                {"size_bytes", choice.size_bytes},
                {"gap_ps", choice.gap_ps},
                {"again_ps", choice.again_ps ? Json(*choice.again_ps) : Json()},
                {"recomputes", choice.recomputes},
                {"recompute_ps", choice.recompute_ps},
                {"copies", choice.copies},
                {"copied_bytes", choice.copied_bytes},
                {"is_on_disk", choice.is_on_disk},
                {"why", why(program, choice)}};
    json["storages"].push_back(std::move(one));
  }
  return json;
}

}  // namespace fitstep
