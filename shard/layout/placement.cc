// A preset is a name for four places, and a caller may replace each place, so the rules are about places and not about presets.
// Placement says the same in the terms of the layers below; PlacesOf and Replace are the two directions and must stay inverse.
#include "shard/layout/placement.h"

#include <iterator>
#include <string>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

struct PresetNames {
  const char* strategy;  // as command lines spell it
  const char* preset;    // as the enum does
};

// By number of the preset.
constexpr PresetNames kPresetNames[] = {
    {"ddp", "NO_SHARD"},
    {"zero1", "ZERO1"},
    {"zero2", "ZERO2"},
    {"shard-grad-op", "GRAD_OP"},
    {"full-shard", "FULL_SHARD"},
    {"hybrid", "HYBRID_SHARD"},
    {"hpz", "HPZ"},
    {"fraction", "FRACTION"},
};
static_assert(std::size(kPresetNames) == WEFT_SHARD_FRACTION + 1);

PresetNames NamesOf(int preset) {
  const bool known = preset >= 0 && preset <= WEFT_SHARD_FRACTION;
  return known ? kPresetNames[preset] : PresetNames{"unknown", "unknown"};
}

const char* NameOf(weft_shard_place_t place) {
  switch (place) {
    case WEFT_SHARD_PLACE_WHOLE:
      return "WHOLE";
    case WEFT_SHARD_PLACE_SHARDED:
      return "SHARDED";
    case WEFT_SHARD_PLACE_SHARDED_INNER:
      return "SHARDED_INNER";
    default:
      return "BY_PRESET";
  }
}

bool Whole(weft_shard_place_t place) {
  return place == WEFT_SHARD_PLACE_WHOLE;
}

absl::Status Conflict(std::string_view a, weft_shard_place_t place_a, std::string_view b,
                      weft_shard_place_t place_b, std::string_view rule) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "shard_unit_begin"},
                   StrCat("shard_unit_begin: ", a, " are to be ", NameOf(place_a), " and ", b, " ",
                          NameOf(place_b), "; ", rule));
}

absl::Status CheckPlaces(const Places& places) {
  const auto [params, between, gradients, optimizer] = places;
  if (Whole(optimizer) && !Whole(gradients)) {
    return Conflict("gradients", gradients, "the optimizer", optimizer,
                    "the optimizer must be sharded where gradients are");
  }
  if (Whole(gradients) && !Whole(params)) {
    return Conflict("params", params, "gradients", gradients,
                    "gradients must be sharded where params are");
  }
  if (!Whole(gradients) && gradients != optimizer) {
    return Conflict("gradients", gradients, "the optimizer", optimizer, "shard both alike");
  }
  if (!Whole(params) && params != gradients) {
    return Conflict("params", params, "gradients", gradients, "shard both alike");
  }
  if (optimizer == WEFT_SHARD_PLACE_SHARDED_INNER && Whole(gradients)) {
    return Conflict("gradients", gradients, "the optimizer", optimizer,
                    "what is sharded within a replica is reduced within it: shard gradients too");
  }
  if (Whole(params) && !Whole(between)) {
    return Conflict("params", params, "between forward and backward", between,
                    "params that are WHOLE between steps stay WHOLE");
  }
  if (params == WEFT_SHARD_PLACE_SHARDED_INNER && between == WEFT_SHARD_PLACE_SHARDED) {
    return Conflict("params", params, "between forward and backward", between,
                    "a replica has no more ranks than those of the last axis");
  }
  return absl::OkStatus();
}

}  // namespace

Places PlacesOf(const Placement& placement) {
  const weft_shard_place_t cut =
      placement.replicated ? WEFT_SHARD_PLACE_SHARDED_INNER : WEFT_SHARD_PLACE_SHARDED;
  const auto place = [&](bool is_cut) {
    return is_cut ? cut : WEFT_SHARD_PLACE_WHOLE;
  };
  Places places{.params = place(placement.params_sharded),
                .between = place(placement.params_sharded && !placement.kept_between),
                .gradients = place(placement.gradients_sharded),
                .optimizer = place(placement.optimizer_sharded)};
  if (placement.inner_part) places.between = WEFT_SHARD_PLACE_SHARDED_INNER;
  return places;
}

absl::StatusOr<Placement> Replace(Placement placement, const Places& given) {
  const auto either = [](weft_shard_place_t chosen, weft_shard_place_t fallback) {
    return chosen == WEFT_SHARD_PLACE_BY_PRESET ? fallback : chosen;
  };
  const Places preset = PlacesOf(placement);
  Places places{.params = either(given.params, preset.params),
                .gradients = either(given.gradients, preset.gradients),
                .optimizer = either(given.optimizer, preset.optimizer)};
  // If params are placed otherwise than the preset says, they stay so between forward and backward, unless told.
  places.between =
      either(given.between, places.params == preset.params ? preset.between : places.params);
  WEFT_RETURN_IF_ERROR(CheckPlaces(places));
  placement.params_sharded = !Whole(places.params);
  placement.gradients_sharded = !Whole(places.gradients);
  placement.optimizer_sharded = !Whole(places.optimizer);
  placement.kept_between = Whole(places.between);
  placement.replicated = places.optimizer == WEFT_SHARD_PLACE_SHARDED_INNER;
  placement.inner_part = !placement.replicated && places.between == WEFT_SHARD_PLACE_SHARDED_INNER;
  return placement;
}

std::string PlacesText(const Placement& placement) {
  const Places places = PlacesOf(placement);
  return StrCat("params ", NameOf(places.params), ", between ", NameOf(places.between),
                ", gradients ", NameOf(places.gradients), ", optimizer ", NameOf(places.optimizer));
}

const char* StrategyName(int preset) {
  return NamesOf(preset).strategy;
}

const char* PresetName(int preset) {
  return NamesOf(preset).preset;
}

absl::StatusOr<weft_shard_preset_t> PresetByName(std::string_view name) {
  if (name == "zero3") return WEFT_SHARD_FULL_SHARD;
  for (int preset = 0; preset <= WEFT_SHARD_FRACTION; ++preset) {
    if (name == StrategyName(preset)) return static_cast<weft_shard_preset_t>(preset);
  }
  return MakeError(
      WEFT_INVALID_ARGUMENT, {.operation = "shard_preset_by_name"},
      StrCat("shard_preset_by_name: there is no strategy \"", name, "\"; use ",
             absl::StrJoin(kPresetNames, ", ", [](std::string* out, const PresetNames& names) {
               out->append(names.strategy);
             })));
}

}  // namespace weft
