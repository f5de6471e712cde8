#include "trainer/reports/page.h"

#include "trainer/progress.h"
#include "trainer/reports/xml_text.h"

namespace weft::trainer {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:900px;margin:2em auto;padding:0 "
    "1em}"
    "h1{font-size:1.6em;margin-bottom:0}h2{font-size:1.15em;margin:2em 0 .4em}"
    ".sub{color:#666;margin-top:.2em}table{border-collapse:collapse}"
    "th,td{padding:.2em .8em .2em 0;border-bottom:1px solid #e6e6e6;text-align:right;"
    "font-variant-numeric:tabular-nums}"
    "th:first-child,td:first-child{text-align:left}th{color:#666;font-weight:600}"
    "svg{max-width:100%;height:auto}";

std::string RowHtml(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& cell : cells)
    out += std::string("<") + tag + ">" + XmlText(cell) + "</" + tag + ">";
  return out + "</tr>\n";
}

// What Markdown would take for its own.
std::string MarkdownText(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) {
    if (c == '|' || c == '*' || c == '_' || c == '`' || c == '<' || c == '[' || c == '\\')
      out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string RowMarkdown(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells)
    out += " " + MarkdownText(cell) + " |";
  return out + "\n";
}

}  // namespace

std::string HtmlOf(const Page& page) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  out += "<title>" + XmlText(page.title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n";
  out += "<body>\n<h1>" + XmlText(page.title) + "</h1>\n<p class=\"sub\">" +
         XmlText(page.subtitle) + "</p>\n";
  for (const Section& section : page.sections) {
    out += "<h2>" + XmlText(section.title) + "</h2>\n";
    if (!section.text.empty()) out += "<p>" + XmlText(section.text) + "</p>\n";
    for (const std::string& picture : section.pictures)
      out += picture;
    if (section.table.rows.empty()) continue;
    out += "<table>\n" + RowHtml(section.table.head, "th");
    for (const std::vector<std::string>& row : section.table.rows)
      out += RowHtml(row, "td");
    out += "</table>\n";
  }
  return out + "</body>\n</html>\n";
}

std::string MarkdownOf(const Page& page) {
  std::string out = "# " + MarkdownText(page.title) + "\n\n" + MarkdownText(page.subtitle) + "\n";
  for (const Section& section : page.sections) {
    if (section.text.empty() && section.table.rows.empty()) continue;
    out += "\n## " + MarkdownText(section.title) + "\n";
    if (!section.text.empty()) out += "\n" + MarkdownText(section.text) + "\n";
    if (section.table.rows.empty()) continue;
    out += "\n" + RowMarkdown(section.table.head) + "|---|";
    for (size_t i = 1; i < section.table.head.size(); i++)
      out += "---:|";
    out += "\n";
    for (const std::vector<std::string>& row : section.table.rows)
      out += RowMarkdown(row);
  }
  return out;
}

}  // namespace weft::trainer
