"""Hugging Face Accelerate over weft, with a file of settings that it starts from."""
import sys

from framework_ranks import BACKEND, HERE, FrameworkTest, main

# `accelerate launch` starts one process on a CPU, so weftrun starts as many; and it sets MASTER_PORT anew.
_LAUNCH = 'exec "$0" -B -m accelerate.commands.launch --main_process_port "$MASTER_PORT" "$@"'


class Accelerate(FrameworkTest):
    def test_ddp_in_bf16(self):
        self.compare(["accelerate"], "sh", "-c", _LAUNCH, sys.executable, "--config_file", HERE / "accelerate.yaml", HERE / "accelerate_training.py", BACKEND)


if __name__ == "__main__":
    main()
