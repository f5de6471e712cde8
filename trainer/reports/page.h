// A page of facts for people, and how it is written down: HTML in one file that needs no network,
// and Markdown.
//
//   Page page{.title = "run a", .subtitle = "2 ranks, 6000 steps"};
//   page.sections.push_back({.title = "Memory", .table = {{"what", "bytes"}, {{"plan", "20 MB"}}}});
//   WriteRunFile(directory, "report.html", HtmlOf(page));
//   WriteRunFile(directory, "report.md", MarkdownOf(page));
//
// Text is escaped; pictures are SVG and stand in HTML as they are. Thread-safety: pure functions.
#ifndef WEFT_TRAINER_REPORTS_PAGE_H_
#define WEFT_TRAINER_REPORTS_PAGE_H_

#include <string>
#include <vector>

namespace weft::trainer {

// Rows are as long as the head. Numbers stand to the right: all columns but the first one.
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

struct Section {
  std::string title;
  std::string text;                   // sentences; may be empty
  std::vector<std::string> pictures;  // SVG documents; Markdown has none of them
  Table table;                        // may be empty
};

struct Page {
  std::string title, subtitle;
  std::vector<Section> sections;
};

std::string HtmlOf(const Page& page);
std::string MarkdownOf(const Page& page);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_PAGE_H_
