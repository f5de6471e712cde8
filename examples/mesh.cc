// Two ways to share work at once: a mesh of rows and columns, each of them a group (tensor times data parallel).
//
// Ranks stand in a rectangle. The ranks of a row share the inputs of the model and have the same samples: a prediction is the sum of
// their parts. The ranks of a column have the same part of the weights and samples of their own: their gradients are averaged. The
// argument is how many ranks make a row; every shape learns the same.
//
//   $ c++ -std=c++17 mesh.cc -o mesh $(pkg-config --cflags --libs weft)
//   $ weftrun -n 2 ./mesh 1
//   [0] 2 x 1 ranks: loss 0.1743, weights -0.76 -0.36 0.31 0.25 0.80 0.69
//   $ weftrun -n 3 ./mesh 3
//   [0] 1 x 3 ranks: loss 0.1743, weights -0.76 -0.36 0.31 0.25 0.80 0.69
//   $ weftrun -n 4 ./mesh 2
//   [0] 2 x 2 ranks: loss 0.1743, weights -0.76 -0.36 0.31 0.25 0.80 0.69
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

#include <weft/weft.hpp>

constexpr int kInputs = 6, kSamples = 12, kSteps = 10;

// Of sample s, input i: anything that is the same on all ranks.
static double Input(int s, int i) {
  return (s * 7 + i * 5 + s * i * 3) % 11 / 5.0 - 1;
}

static double Wanted(int s) {
  double y = 0;
  for (int i = 0; i < kInputs; ++i)
    y += (i - 2) / 2.0 * Input(s, i);
  return y;
}

static void Run(int width) {
  const weft::Group world = weft::Group::FromEnvironment();
  if (width < 1 || world.Size() % width || kInputs % width || kSamples % (world.Size() / width))
    throw std::invalid_argument("these ranks, inputs and samples do not make such rows");
  const int height = world.Size() / width;
  const int y = world.Rank() / width, x = world.Rank() % width;
  const weft::Group row = world.Split(y, x);     // those with equal y, ranked by x
  const weft::Group column = world.Split(x, y);  // those with equal x, ranked by y

  const int inputs = kInputs / width, first_input = x * inputs;
  const int samples = kSamples / height, first_sample = y * samples;
  std::vector<double> weights(inputs), gradients(inputs), errors(samples);
  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (int s = 0; s < samples; ++s) {
      errors[s] = x == 0 ? -Wanted(first_sample + s) : 0;
      for (int i = 0; i < inputs; ++i)
        errors[s] += weights[i] * Input(first_sample + s, first_input + i);
    }
    row.AllReduce(errors.data(), errors.data(), errors.size(), WEFT_SUM);

    loss = 0;
    gradients.assign(inputs, 0);
    for (int s = 0; s < samples; ++s) {
      loss += errors[s] * errors[s] / samples;
      for (int i = 0; i < inputs; ++i)
        gradients[i] += 2 * errors[s] * Input(first_sample + s, first_input + i) / samples;
    }
    column.AllReduce(gradients.data(), gradients.data(), gradients.size(), WEFT_AVG);
    for (int i = 0; i < inputs; ++i)
      weights[i] -= 0.2 * gradients[i];
  }

  column.AllReduce(&loss, &loss, 1, WEFT_AVG);
  std::vector<double> all(kInputs);
  row.Gather(weights.data(), all.data(), weights.size(), 0);
  if (world.Rank() == 0) {
    std::printf("%d x %d ranks: loss %.4f, weights", height, width, loss);
    for (const double weight : all)
      std::printf(" %.2f", weight);
    std::printf("\n");
  }
}

int main(int argc, char** argv) {
  try {
    Run(argc > 1 ? std::atoi(argv[1]) : 1);
    return 0;
  } catch (const std::exception& error) {  // weft::Error among them
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
