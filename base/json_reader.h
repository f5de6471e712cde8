// Reads members of JSON that somebody else wrote: the first thing that is wrong is kept, and everything after it reads as nothing, so a
// reader of a format is a list of what it has.
//
//   JsonReader reader("the text of the schedule");
//   const Json json = reader.Parse(text, kTextBytesMax);
//   const uint64_t count = reader.Number(reader.Member(json, "count"), kCountMax);
//   if (!reader.ok()) return reader.status();       // CORRUPT, "the text of the schedule has no member "count" ..."
//
// An object that names one member twice is refused: two readers may take two different ones of them. Of a large text the elements of a list,
// or the members, can be had one by one, so that they are never in memory together:
//
//   const Json json = reader.Parse(text, kTextBytesMax, {.list = "tensors", .take = [&](const std::string&, const Json& tensor) { ... }});
//
// Compiles slowly: include it where a format is read, and nowhere else.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

using Json = nlohmann::ordered_json;
// For texts of which nobody knows how many members an object may have: an ordered one looks through all of them for each.
using SortedJson = nlohmann::json;

template <typename Json>
class JsonReaderOf {
 public:
  // `subject`: what is read, as a sentence begins that says what is wrong with it.
  explicit JsonReaderOf(std::string_view subject) : subject_(subject) {}

  const absl::Status& status() const { return status_; }

  bool ok() const { return status_.ok(); }

  void Fail(std::string_view what) {
    if (ok()) status_ = MakeError(WEFT_CORRUPT, StrCat(subject_, " has ", what));
  }

  // Of a value that is not what it should be: "cpus" that is no text. It is that of the last member that was asked for, or lies in it.
  void FailValue(std::string_view what) { Fail(StrCat("\"", asked_, "\" that is ", what)); }

  // Objects that are handed out as soon as they are read, and are not part of what Parse() returns.
  struct Elements {
    // Those in the list that is this member of the whole; nullptr: those that are members of the whole.
    const char* list = nullptr;
    // `key`: of the member that the object, or its list, is. Members that stand behind it in the text are not read yet. Empty: nothing is handed out.
    std::function<void(const std::string& key, const Json& element)> take = {};
  };

  // An empty value, with an error, if it is longer than `bytes_max`, no object, or names a member of an object twice.
  Json Parse(std::string_view text, size_t bytes_max, const Elements& elements = {}) {
    if (text.size() > bytes_max) {
      Fail(StrCat("more than ", bytes_max, " bytes"));
      return {};
    }
    std::vector<std::unordered_set<std::string>> names;  // of the objects that are being read
    std::string member;                                  // of the whole
    const size_t element_depth = elements.list == nullptr ? 1 : 2;
    const auto keep = [&](int nesting, nlohmann::detail::parse_event_t event, const Json& parsed) {
      using Event = nlohmann::detail::parse_event_t;
      const auto depth = static_cast<size_t>(nesting);
      if (event == Event::object_start) {
        if (names.size() <= depth) names.resize(depth + 1);
        names[depth].clear();
      } else if (event == Event::key) {
        const auto& name = parsed.template get_ref<const std::string&>();
        if (!names[depth - 1].insert(name).second)
          Fail(StrCat("two members \"", name, "\" in one object"));
        if (depth == 1) member = name;
      } else if (event == Event::object_end && depth == element_depth && elements.take &&
                 (elements.list == nullptr || member == elements.list)) {
        elements.take(member, parsed);
        return false;
      }
      return true;
    };
    Json json = Json::parse(text.begin(), text.end(), keep, /*allow_exceptions=*/false);
    if (!json.is_object()) Fail("no JSON object");
    return json;
  }

  // An empty value, with an error, if there is no such member; without one if it may be missing.
  const Json& Member(const Json& json, const char* name, bool optional = false) {
    asked_ = name;
    if (json.is_object()) {
      const auto found = json.find(name);
      if (found != json.end()) return *found;
    }
    if (!optional) Fail(StrCat("no member \"", name, "\" where one is needed"));
    return nothing_;
  }

  uint64_t Number(const Json& json, uint64_t most) {
    if (json.is_number_unsigned() && json.template get<uint64_t>() <= most)
      return json.template get<uint64_t>();
    FailValue(StrCat("no number up to ", most));
    return 0;
  }

  bool Flag(const Json& json) {
    if (json.is_boolean()) return json.template get<bool>();
    FailValue("neither true nor false");
    return false;
  }

  std::string Text(const Json& json) {
    if (json.is_string()) return json.template get<std::string>();
    FailValue("no text");
    return {};
  }

  // The elements of a list of `least` to `most`; none if it is another value.
  std::vector<const Json*> List(const Json& json, size_t least, size_t most) {
    std::vector<const Json*> list;
    if (!json.is_array() || json.size() < least || json.size() > most) {
      FailValue(StrCat("no list of ", least, " to ", most));
      return list;
    }
    list.reserve(json.size());
    for (const Json& one : json)
      list.push_back(&one);
    return list;
  }

 private:
  const std::string subject_;
  const char* asked_ = "the whole";
  absl::Status status_;
  const Json nothing_;
};

using JsonReader = JsonReaderOf<Json>;
using SortedJsonReader = JsonReaderOf<SortedJson>;

// On one line; text that is no UTF-8 is replaced.
inline std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft
