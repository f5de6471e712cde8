"""Lightning over weft."""
import sys

from framework_ranks import BACKEND, HERE, FrameworkTest, main


class Lightning(FrameworkTest):
    def test_ddp(self):
        self.compare(["lightning"], sys.executable, "-B", HERE / "lightning_training.py", BACKEND)


if __name__ == "__main__":
    main()
