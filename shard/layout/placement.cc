#include "shard/layout/placement.h"

#include <string>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

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
                    "the optimizer must be cut where gradients are");
  }
  if (Whole(gradients) && !Whole(params)) {
    return Conflict("params", params, "gradients", gradients,
                    "gradients must be cut where params are");
  }
  if (!Whole(gradients) && gradients != optimizer) {
    return Conflict("gradients", gradients, "the optimizer", optimizer, "cut both alike");
  }
  if (!Whole(params) && params != gradients) {
    return Conflict("params", params, "gradients", gradients, "cut both alike");
  }
  if (optimizer == WEFT_SHARD_PLACE_SHARDED_INNER && Whole(gradients)) {
    return Conflict("gradients", gradients, "the optimizer", optimizer,
                    "what is cut within a replica is reduced within it: cut gradients too");
  }
  if (Whole(params) && !Whole(between)) {
    return Conflict("params", params, "between forward and backward", between,
                    "params that are WHOLE at rest stay WHOLE");
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
  // Params that rest otherwise than the preset says stay so, unless told.
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

}  // namespace weft
