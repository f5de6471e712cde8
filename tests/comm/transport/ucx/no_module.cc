// A library that is no module of weft's.
extern "C" __attribute__((visibility("default"))) int SomethingElse() {
  return 1;
}
