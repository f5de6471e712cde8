"""DeepSpeed's ZeRO over weft."""
import sys

from framework_ranks import BACKEND, HERE, FrameworkTest, main

_FILES = ["deepspeed_zero2_offload.json", "deepspeed_zero3_offload.json"]


class DeepSpeed(FrameworkTest):
    def test_zero(self):
        self.compare(["ZeRO-1", "ZeRO-2", "ZeRO-3", *_FILES], sys.executable, "-B", HERE / "deepspeed_training.py", BACKEND, *(HERE / name for name in _FILES))


if __name__ == "__main__":
    main()
