#include "trainer/reports/xml_text.h"

#include "trainer/progress.h"

namespace weft::trainer {

std::string XmlText(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace weft::trainer
