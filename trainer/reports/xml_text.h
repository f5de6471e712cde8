// Text for XML and HTML.
#ifndef WEFT_TRAINER_REPORTS_XML_TEXT_H_
#define WEFT_TRAINER_REPORTS_XML_TEXT_H_

#include <string>

namespace weft::trainer {

// As it may stand between tags and in quotes; what is no UTF-8, or not to be shown, is '?'.
// Thread-safety: a pure function.
std::string XmlText(const std::string& text);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_XML_TEXT_H_
