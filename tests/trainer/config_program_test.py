"""weft_train under weftrun trains what was said: the batch, on any number of ranks; the same on all ranks; and a run that goes on says what is
another than before."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from launched_ranks import ranks_of

weftrun, weft_train = None, None  # from the command line

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_DEADLINE_S = 120
_BASE = {"--seq": "16", "--layers": "1", "--heads": "1", "--width": "16", "--eval-every": "0", "--warmup": "2", "--data": "text", "--steps": "12"}
_FLOAT32 = ("--dtype", "fp32")
_EACH_ITS_OWN = 'eval "set -- \\"\\$@\\" \\$OWN$RANK"; exec "$@"'  # sh: the words of $OWN0 for rank 0, and so on


class ConfigProgramTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.write_text("text", 1)

    def write_text(self, name, seed):
        generator = random.Random(seed)
        text = "".join(generator.choice(_WORDS) for _ in range(4000))
        (self.root / name).write_text(text[:20000])

    def command(self, ranks, name, *options, launcher=(), before=""):
        """`before`: what the shell of each rank does first."""
        base = [word for pair in _BASE.items() if pair[0] not in options for word in pair]
        return [weftrun, "-n", str(ranks), *launcher, "sh", "-c", before + _EACH_ITS_OWN, "sh", weft_train, *base, "--name", name, *options]

    def train(self, ranks, name, *options, code=0, own=(), before=""):
        """What is printed. `own`: more options of rank 0, of rank 1, and so on; what one of them has is not in the others' standard ones."""
        environment = dict(os.environ, OMP_NUM_THREADS="1", **{f"OWN{rank}": words for rank, words in enumerate(own)})
        command = self.command(ranks, name, *options, before=before)
        for option in {word for words in own for word in words.split()} & _BASE.keys():
            at = command.index(option)
            del command[at:at + 2]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def metrics(self, name):
        return [json.loads(line) for line in (self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()]

    def losses(self, name):
        return [line["loss"] for line in self.metrics(name)]

    # ---- the batch ----

    def test_the_batch_is_that_of_the_step_whatever_the_number_of_ranks(self):
        by_batch = {}
        for batch in (3, 4, 5):
            self.train(1, f"one{batch}", "--batch", str(batch), *_FLOAT32)
            printed = self.train(3, f"three{batch}", "--batch", str(batch), *_FLOAT32)
            shares = "1 on each rank" if batch == 3 else "1 or 2 on each rank"
            self.assertIn(f"plan   12 steps x {batch} sequences ({shares}) = ", printed)
            by_batch[batch] = self.losses(f"three{batch}")
            for one, three in zip(self.losses(f"one{batch}"), by_batch[batch]):
                self.assertAlmostEqual(1, three / one, delta=1e-5)
        self.assertEqual(3, len({tuple(losses) for losses in by_batch.values()}))

    def test_micro_batches_need_not_divide_it_either(self):
        self.train(1, "one", "--batch", "7", *_FLOAT32)
        for ranks, strategy in ((2, "full-shard"), (3, "zero2")):
            self.train(ranks, "many", "--overwrite", "--batch", "7", "--accumulate", "2", "--strategy", strategy, *_FLOAT32)
            for one, many in zip(self.losses("one"), self.losses("many")):
                self.assertAlmostEqual(1, many / one, delta=1e-5)

    def test_the_default_is_one_sequence_for_each_rank_that_4_do_not_serve(self):
        for ranks, batch in ((2, "4 sequences (2 on each rank)"), (5, "5 sequences (1 on each rank)"), (8, "8 sequences (1 on each rank)")):
            self.assertIn(f"plan   2 steps x {batch} = ", self.train(ranks, "run", "--overwrite", "--steps", "2"))
        self.assertIn("x 6 sequences (3 on each rank) = ", self.train(2, "run", "--overwrite", "--accumulate", "3", "--steps", "2"))

    def test_a_batch_that_leaves_a_rank_without_a_sequence_is_refused(self):
        printed = self.train(3, "run", "--batch", "2", code=2)
        self.assertIn("--batch 2 is too small for 3 ranks x 1 micro-batch: each needs a sequence; use 3 or more", printed)
        printed = self.train(2, "run", "--batch", "5", "--accumulate", "3", code=2)
        self.assertIn("--batch 5 is too small for 2 ranks x 3 micro-batches: each needs a sequence; use 6 or more", printed)

    # ---- configuration files ----

    def resolved(self, *options):
        done = subprocess.run([weft_train, "config", *options], cwd=self.root, capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_each_example_runs_as_it_is(self):
        files = sorted((_ROOT / "examples" / "configs").iterdir())
        self.assertEqual(["accelerate.yaml", "deepspeed_zero2_offload.json", "deepspeed_zero3_offload.json"], [file.name for file in files])
        strategies = {"accelerate.yaml": "ddp", "deepspeed_zero2_offload.json": "zero2", "deepspeed_zero3_offload.json": "full-shard"}
        for file in files:
            # bf16 is not of every CPU; the rest is as the file says.
            printed = self.train(2, file.stem, "--config", str(file), "--steps", "2", *_FLOAT32)
            self.assertIn("config in force:\n", printed)
            self.assertIn("without effect here:\n", printed)
            self.assertIn("step 2/2", printed)
            written = json.loads((self.root / "runs" / file.stem / "config.json").read_text())
            self.assertEqual(strategies[file.name], written["strategy"])
            self.assertEqual(str(file), written["config"])
            if file.name == "deepspeed_zero2_offload.json":
                self.assertIn("x 64 sequences (32 on each rank)", printed)
                self.assertEqual((64, 4, "linear", 0.01), tuple(written[key] for key in ("batch", "accumulate", "schedule", "weight-decay")))

    def test_a_runs_configuration_is_a_file_for_the_next_one(self):
        self.train(2, "one", "--lr", "0.004", "--batch", "6", "--strategy", "zero1", "--clip", "0.5", *_FLOAT32)
        command = [weftrun, "-n", "2", weft_train, "--config", "runs/one/config.json", "--name", "two"]
        done = subprocess.run(command, cwd=self.root, env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual(self.losses("one"), self.losses("two"))

    def test_config_prints_what_the_same_options_train_with(self):
        (self.root / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2, "gradient_clipping": 2}')
        printed = self.resolved("--config", "ds.json", "--ranks", "4", "--gradient_clipping", "0.25", "--dtype", "fp32")
        self.assertEqual((24, 2, 3, 0.25, 4), tuple(printed[key] for key in ("batch", "accumulate", "micro-batch", "clip", "ranks")))
        (self.root / "again.json").write_text(json.dumps(printed))
        again = self.resolved("--config", "again.json", "--ranks", "4")
        self.assertEqual({**printed, "config": "again.json"}, again)

    def test_what_a_file_cannot_say_ends_all_ranks_before_training(self):
        for text, sentence in (('{"zero_optimization": {"stage": "3"}}', 'bad.json: zero_optimization.stage is "3", and takes a whole number; write it without quotes'),
                               ('{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3}', "--batch 8 is not --micro-batch 3 x --accumulate 1 x 2 ranks = 6; the nearest that fits is --batch 6 with --accumulate 1"),
                               ('{"zero_optimisation": {"stage": 3}}', "bad.json: zero_optimisation.stage is unknown; did you mean zero_optimization.stage? See docs/config.md")):
            (self.root / "bad.json").write_text(text)
            printed = self.train(2, "run", "--config", "bad.json", code=2)
            self.assertEqual(1, printed.count("] weft_train: "), printed)
            self.assertIn(f"weft_train: {sentence}\n", printed)
            self.assertFalse((self.root / "runs" / "run" / "metrics.jsonl").exists())

    def test_a_dry_run_needs_no_other_rank_and_leaves_nothing(self):
        def dry(*options, code=0):
            command = [weft_train, "--dry-run", "--layers", "2", "--width", "32", "--heads", "2", "--seq", "32", *options]
            done = subprocess.run(command, cwd=self.root, env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=_DEADLINE_S)
            self.assertEqual(code, done.returncode, done.stdout + done.stderr)
            return done.stdout + done.stderr

        printed = dry("--ranks", "64", "--ranks-per-machine", "8", "--strategy", "full-shard", "--price-per-hour", "2.5")
        for expected in ("       64 ranks (full-shard), ", "(Chinchilla) would be ", "by 6ND ", "forward and backward", "device-hours (64 ranks x "):
            self.assertIn(expected, printed)
        self.assertIn("--ranks: Value 0 not in range", dry("--ranks", "0", code=2))
        self.assertIn("--price-per-hour is no amount of money", dry("--price-per-hour", "-1", code=2))
        self.assertIn("--batch 3 is too small for 4 ranks", dry("--ranks", "4", "--batch", "3", code=2))
        self.assertEqual(["text"], [path.name for path in self.root.iterdir()])

    def test_the_page_of_keys_is_fresh(self):
        done = subprocess.run([weft_train, "config", "--keys"], capture_output=True, text=True, timeout=_DEADLINE_S)
        self.assertEqual((_ROOT / "docs" / "config.md").read_text(), done.stdout, "weft_train config --keys > docs/config.md")

    # ---- the same on all ranks ----

    def refuse(self, own, expected):
        printed = self.train(len(own), "run", own=own, code=2)
        self.assertIn(f"[0] weft_train: the ranks would train different things: {expected}; give all ranks the same\n", printed)
        self.assertFalse((self.root / "runs").exists())

    def test_ranks_with_other_options_are_named_with_both_values(self):
        self.refuse(("", "--seed 3", ""), "--seed is 1 on ranks 0 and 2, 3 on rank 1")
        self.refuse(("--heads 2", "--heads 1"), "--heads is 2 on rank 0, 1 on rank 1")
        self.refuse(("", "--lr 0.1 --beta2 0.999"), "--lr is 0.0025 on rank 0, 0.1 on rank 1; --beta2 is 0.95 on rank 0, 0.999 on rank 1")
        self.refuse(("", "--checkpoint-every 3"), "--checkpoint-every is 0 on rank 0, 3 on rank 1")
        self.refuse(("", "--resume auto"), "--resume is not given on rank 0, auto on rank 1")
        # Batches that are legal each by itself.
        self.refuse(("--batch 6", "", "--batch 6"), "--batch is 6 on ranks 0 and 2, 4 on rank 1")

    def test_ranks_with_another_text_of_the_same_length_are_found(self):
        self.write_text("other", 2)
        self.assertEqual((self.root / "text").stat().st_size, (self.root / "other").stat().st_size)
        printed = self.train(2, "run", own=("--data text", "--data other"), code=2)
        self.assertRegex(printed, r"different things: the text of --data is 18000 \+ 2000 bytes, [0-9a-f]{16} on rank 0, 18000 \+ 2000 bytes, [0-9a-f]{16} on rank 1; ")

    def test_a_copy_of_the_text_elsewhere_is_the_same(self):
        (self.root / "elsewhere").mkdir()
        (self.root / "elsewhere" / "text").write_bytes((self.root / "text").read_bytes())
        self.train(2, "run", "--steps", "2", own=("--data text", f"--data elsewhere/text --offload {self.root} --threads 2"))

    def test_dtype_auto_is_what_all_cpus_have(self):
        products = re.search(r"(bf16|fp32) products", self.train(2, "auto", "--steps", "2"))[1]
        # A rank that was told is asked nothing.
        self.assertIn(f"{products} products", self.train(2, "told", "--steps", "2", own=("", f"--dtype {products}")))
        if products == "fp32":
            self.skipTest("the CPU has no bfloat16 products")
        printed = self.train(2, "run", own=("--dtype fp32", ""), code=2)
        self.assertIn("--dtype is fp32 on rank 0, bf16 on rank 1", printed)
        for old in (0, 1):
            # oneDNN then takes that rank's CPU for one of 2013.
            printed = self.train(2, f"old{old}", "--steps", "2", before=f'if [ "$RANK" = {old} ]; then export ONEDNN_MAX_CPU_ISA=AVX2; fi; ')
            self.assertIn("fp32 products", printed)

    def test_a_new_rank_that_would_train_something_else_is_not_taken_in(self):
        """Rank 1 is killed and comes again with another seed; the others go on without it."""
        command = self.command(3, "run", "--steps", "100000", "--elastic", launcher=("--elastic", "--max-restarts", "1"),
                               before='if [ "$RANK" = 1 ]; then [ ! -e begun ] || set -- "$@" --seed 5; : >begun; fi; ')
        process = subprocess.Popen(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watchdog = threading.Timer(_DEADLINE_S, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        printed = ""
        for line in process.stdout:
            printed += line
            if "step 1/" in line:
                os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
            if printed.count("2 ranks go on from step") == 2:
                break
        os.kill(min(ranks_of(process.pid).values()), signal.SIGTERM)  # the rest is as without it
        printed += process.stdout.read()
        process.stdout.close()
        self.assertEqual(143, process.wait(), printed)
        self.assertRegex(printed, r"weft_train: rank \d: this rank cannot join the run, which trains something else: --seed is 1 on ranks 0 and 1, 5 on rank 2; ")
        self.assertRegex(printed, r"\[0\] a new rank cannot join, as it would train something else: --seed is 1 on ranks 0 and 1, 5 on rank 2")
        self.assertEqual(2, len(re.findall(r"2 ranks go on from step \d+ with the weights of step \d+, 4 sequences a step, 2 on each rank", printed)), printed)

    # ---- a run that goes on ----

    def save(self, name, *options, steps=20):
        return self.train(2, name, "--steps", str(steps), "--checkpoint-every", "10", *options)

    def steps(self, name):
        return [line["step"] for line in self.metrics(name)]

    def test_what_is_another_than_before_is_said(self):
        self.save("run")
        printed = self.save("run", "--resume", "auto", "--lr", "0.01", "--batch", "5", "--accumulate", "2", "--strategy", "zero1", steps=30)
        self.assertIn("2 ranks go on after step 20, from ", printed)
        self.assertIn("[0] other options than before: --steps 20 -> 30, --batch 4 -> 5, --lr 0.0025 -> 0.01, --accumulate 1 -> 2, "
                      "--strategy ddp -> zero1\n", printed)
        self.assertNotIn("other options", self.save("run", "--resume", "auto", "--lr", "0.01", "--batch", "5", "--accumulate", "2",
                                                    "--strategy", "zero1", steps=30))

    def test_what_would_make_it_another_run_is_refused_unless_it_is_named(self):
        self.save("run")
        self.write_text("other", 2)
        for option, value, sentence in (("--seed", "2", "its run had --seed 1, this one has --seed 2; use the same, or --changed seed to go on all the same"),
                                        ("--heads", "2", "its run had --heads 1, this one has --heads 2; use the same, or --changed heads to go on all the same"),
                                        ("--data", "other", "; give the same, or --changed text to go on with this one")):
            printed = self.train(2, "run", "--checkpoint-every", "10", "--resume", "auto", option, value, "--steps", "30", code=2)
            self.assertIn(sentence, printed)
        printed = self.save("run", "--resume", "auto", "--seed", "2", "--data", "other", "--changed", "seed,text", steps=30)
        self.assertRegex(printed, r"other options than before: --steps 20 -> 30, --seed 1 -> 2, the text of --data 18000 \+ 2000 bytes, \w+ -> 18000 \+ 2000 bytes, ")
        self.assertEqual(list(range(1, 31)), self.steps("run"))

    def test_past_its_end_it_says_so(self):
        self.save("run")
        printed = self.save("run", "--resume", "auto")
        self.assertIn("no step is left to be made: the checkpoint is of step 20, and --steps is 20; give more than 20 to train on", printed)
        self.assertRegex(printed, r"loss   first \d\.\d+, last \d\.\d+ nats per byte; no step was made\n")
        self.assertNotIn("nan", printed)
        printed = self.save("run", "--resume", "auto", steps=12)
        self.assertIn("the checkpoint is of step 20, and --steps is 12; give more than 20", printed)
        self.assertRegex(printed, r"valid  \d\.\d+ nats per byte")
        self.assertEqual(list(range(1, 21)), self.steps("run"))

    def test_the_metrics_come_along_however_the_folder_is_written(self):
        self.save("run")
        for name, folder in (("slash", "runs/run/"), ("checkpoints", "runs/run/checkpoints/"), ("dots", "./runs/../runs/run//")):
            printed = self.save(name, "--resume", folder, steps=30)
            self.assertRegex(printed, r" on after step 20, from \S*/runs/run/checkpoints/step-00000020, ")
            self.assertEqual(list(range(1, 31)), self.steps(name), folder)
        # Its own folder is no other one.
        for steps, folder in ((30, "runs/run"), (40, "./runs/run/"), (50, f"{self.root}/runs/run/checkpoints/")):
            self.assertIn(f" on after step {steps - 10}, ", self.save("run", "--resume", folder, steps=steps))
        self.assertEqual(list(range(1, 51)), self.steps("run"))

    def test_a_line_that_was_cut_off_leaves_no_hole(self):
        self.save("run")
        path = self.root / "runs" / "run" / "metrics.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole[:-30])
        self.assertNotIn("lacks", self.save("run", "--resume", "auto", steps=30))
        lines = self.metrics("run")
        self.assertEqual(list(range(1, 31)), [line["step"] for line in lines])
        before = json.loads(whole.splitlines()[19])
        kept = ("version", "step", "loss", "lr", "grad_norm")
        self.assertEqual([before[key] for key in kept], [lines[19][key] for key in kept])
        self.assertEqual(sorted(line["time_ns"] for line in lines), [line["time_ns"] for line in lines])
        self.assertGreater(lines[19]["tok_s"], 0)
        # What no checkpoint knows is said.
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:17]) + b'{"version":1,"st')
        self.assertIn("metrics.jsonl lacks steps 18 to 29, which were not written before", self.save("run", "--resume", "auto", steps=40))
        self.assertEqual([*range(1, 18), *range(30, 41)], self.steps("run"))

    # ---- the plan ----

    def test_a_warm_up_that_is_longer_than_the_run_is_said(self):
        printed = self.train(1, "run", "--warmup", "100", "--steps", "20")
        self.assertIn("the warm-up of 100 steps is longer than the run, whose rate ends at 0.0005, below --lr; give a smaller --warmup", printed)
        self.assertEqual(0.0005, self.metrics("run")[-1]["lr"])
        self.assertNotIn("warm-up", self.train(1, "other", "--warmup", "20", "--steps", "20"))

    def test_what_does_not_fit_is_planned_and_refused_before_memory_is_taken(self):
        (self.root / "large").write_bytes((self.root / "text").read_bytes() * 5)
        printed = self.train(2, "run", "--layers", "256", "--width", "4096", "--heads", "32", "--seq", "4096", "--strategy", "full-shard",
                             "--data", "large", code=2)
        plan = re.search(r"memory (\d+\.\d+) GB of parameters, \1 GB of gradients, \d+\.\d+ GB of optimizer state, \d+\.\d+ GB of pool, "
                         r"\d+\.\d+ [GT]B of activations: (\d+\.\d+ [GT]B) per rank", printed)
        self.assertIsNotNone(plan, printed)
        self.assertRegex(printed, rf"the model does not fit: ranks 0 and 1 need \d+\.\d+ TB of memory together, and \d+\.\d+ [MG]B are free on the machine "
                                  rf"\(.* of activations: {re.escape(plan[2])} per rank\); use a smaller model, --batch or --seq")
        self.assertNotIn("WEFT_HEAP_BYTES", printed)

    def test_memory_that_is_not_given_after_all_is_named_by_its_bytes(self):
        printed = self.train(1, "run", "--layers", "8", "--width", "512", "--heads", "8", code=1, before="export WEFT_HEAP_BYTES=64M; ")
        self.assertRegex(printed, r"the model does not fit into memory: \d+\.\d+ MB of parameters, .*: \d+\.\d+ MB per rank; .*the heap of 64")

    def test_the_order_3_model_counts_as_much_as_is_wanted(self):
        self.assertIn("an order-3 byte model has ", self.train(1, "auto", "--steps", "2"))
        printed = self.train(1, "off", "--steps", "2", "--order3", "off")
        self.assertNotIn("order", printed)
        self.assertRegex(printed, r"valid  \d\.\d+ nats per byte")
        (self.root / "large").write_bytes((self.root / "text").read_bytes() * 1000)
        large = ("--steps", "2", "--data", "large")
        self.assertRegex(self.train(1, "large", *large), r"an order-3 byte model of 16\.00 MB of these has \d\.\d+ nats per byte")
        self.assertRegex(self.train(1, "on", *large, "--order3", "on"), r"an order-3 byte model has \d\.\d+ nats per byte")

    def test_a_sample_shows_the_characters_of_its_text(self):
        (self.root / "text").write_text("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 200, encoding="utf-8")
        printed = self.train(1, "run", "--steps", "2", "--seq", "64")
        sample = printed.partition("sample (the first 32 bytes")[2].partition("\n")[2]
        self.assertRegex(sample[:32], "[а-яё]{2}")


if __name__ == "__main__":
    weftrun, weft_train = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
