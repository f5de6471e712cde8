"""weftrun --max-restarts with several nodes: two weftruns on this machine that restart together, or not at all."""
import signal

import launched
from launched import LaunchedTest, clean_environment, rank

_SAY_ROUND = "restarts = int(os.environ['WEFT_RESTART_COUNT'])\nsay('round', restarts, os.environ['WEFT_JOB_ID'])\n"
_INSECURE = clean_environment(WEFT_INSECURE="1")


class RestartsOnSeveralNodes(LaunchedTest):
    def launch_nodes(self, code, restarts, ranks=2, nodes=2):
        port = launched.free_port()
        return [self.launch("-n", ranks, "--nnodes", nodes, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port",
                            port, "--max-restarts", restarts, *rank(_SAY_ROUND + code), environment=_INSECURE)
                for node in range(nodes)]

    def assert_rounds(self, out, ranks, rounds):
        expected = sorted(f"[{number}] round {k}" for number in ranks for k in range(rounds))
        self.assertEqual(expected, sorted(line.rpartition(" ")[0] for line in out if "round" in line))

    def test_a_failure_on_any_node_starts_all_ranks_again(self):
        for culprit in (0, 3):
            with self.subTest(culprit):
                # The other ranks wait for something that a failed rank does not do.
                code = f"if restarts < 2:\n  if rank == {culprit}: sys.exit(9)\n  signal.pause()"
                for node, run in enumerate(self.launch_nodes(code, 3)):
                    exit_code, out, err = run.finish()
                    self.assertEqual(0, exit_code, err)
                    self.assert_rounds(out, (2 * node, 2 * node + 1), 3)
                    self.assertIn("weftrun: restart 2 of at most 3", err)
                    self.assertEqual(3, len({line.split()[3] for line in out if "round" in line}), "one job id per round")
                    if node != culprit // 2:
                        reason = f"weftrun: failed first: rank {culprit} on node {culprit // 2} exited with code 9"
                        self.assertEqual(2, err.count(reason), err)

    def test_three_nodes(self):
        code = "if restarts == 0:\n  if rank == 2: os.kill(os.getpid(), signal.SIGKILL)\n  signal.pause()"
        for node, run in enumerate(self.launch_nodes(code, 1, ranks=1, nodes=3)):
            exit_code, out, err = run.finish()
            self.assertEqual(0, exit_code, err)
            self.assert_rounds(out, (node,), 2)

    def test_a_node_that_was_done_starts_again_too(self):
        # Node 0's ranks have ended well when one of node 1 fails.
        code = "if restarts == 0 and rank == 2: time.sleep(1); sys.exit(9)"
        for node, run in enumerate(self.launch_nodes(code, 1)):
            exit_code, out, err = run.finish()
            self.assertEqual(0, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 2)

    def test_every_node_ends_with_the_failure_when_restarts_are_used_up(self):
        for node, run in enumerate(self.launch_nodes("if rank == 1: sys.exit(9)\nsignal.pause()", 1)):
            exit_code, out, err = run.finish()
            self.assertEqual(9, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 2)
            self.assertIn("weftrun: restart 1 of at most 1", err)

    def test_without_a_failure_nothing_is_different(self):
        for run in self.launch_nodes("", 5):
            exit_code, out, err = run.finish()
            self.assertEqual((0, 2), (exit_code, len(out)), err)
            self.assertNotIn("restart", " ".join(err))

    def test_a_job_that_was_asked_to_end_does_not_restart_anywhere(self):
        runs = self.launch_nodes("signal.pause()", 5)
        for run in runs:
            run.wait_for(2, "round")
        runs[1].process.send_signal(signal.SIGTERM)
        for node, run in enumerate(runs):
            exit_code, out, err = run.finish()
            self.assertEqual(128 + signal.SIGTERM, exit_code, err)
            self.assert_rounds(out, (2 * node, 2 * node + 1), 1)

    def test_the_end_of_node_0s_weftrun_ends_the_others(self):
        runs = self.launch_nodes("signal.pause()", 5)
        for run in runs:
            run.wait_for(2, "round")
        runs[0].process.kill()
        exit_code, out, err = runs[1].finish()
        self.assertEqual(1, exit_code, err)
        self.assert_rounds(out, (2, 3), 1)
        self.assertTrue(any("node 0's weftrun has probably ended" in line for line in err), err)

    def test_a_program_that_is_missing_on_one_node_ends_all(self):
        port = launched.free_port()
        runs = [self.launch("-n", 1, "--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                            "--max-restarts", 3, *program, environment=_INSECURE)
                for node, program in enumerate((rank("signal.pause()"), ["/nonexistent/program"]))]
        self.assertEqual(127, runs[1].finish()[0])
        exit_code, _, err = runs[0].finish()
        self.assertEqual(1, exit_code, err)
        self.assertIn("weftrun: failed first: node 1 could not start its ranks", err)


if __name__ == "__main__":
    launched.main()
