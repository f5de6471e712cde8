// Pictures of a loss curve: an SVG file and a few lines for the terminal.
//
//   Curve curve{train_points, validation_points, order3_loss};
//   WriteFile("loss.svg", CurveSvg(curve, "weft_train, 2 ranks", "", "byte"));
//   fmt::print("{}", CurveText(curve, 72, 10));
#ifndef WEFT_TRAINER_CURVE_H_
#define WEFT_TRAINER_CURVE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace weft::trainer {

struct CurvePoint {
  double step = 0;
  double loss = 0;
};

struct Curve {
  std::vector<CurvePoint> train;
  std::vector<CurvePoint> validation;
  std::vector<CurvePoint> train_max;  // the largest mean of a rank; may have none
  double order3 = 0;                  // drawn as a line for comparison; 0: not drawn
};

// A complete SVG document. `title` and `subtitle` are escaped; losses are nats per `unit`, "byte"
// or "token".
std::string CurveSvg(const Curve& curve, const std::string& title, const std::string& subtitle,
                     const char* unit);

// `rows` lines of at most `columns` characters made of Unicode blocks, with a scale to the left.
std::string CurveText(const Curve& curve, size_t columns, size_t rows);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CURVE_H_
