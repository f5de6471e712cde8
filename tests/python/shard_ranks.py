"""What tests of weft.shard and weft.checkpoint share: ranks that are threads, and the model of shard_model."""
import os
import signal
import threading
import time
import unittest

import ranks

DEADLINE_S = 60


def resident_pages():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1])


class ShardTest(unittest.TestCase):
    def setUp(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        import numpy
        import shard_model
        import weft
        import weft.shard
        self.numpy, self.model, self.weft, self.shard = numpy, shard_model, weft, weft.shard

    def local(self, size):
        communicators = self.weft.Communicator.local(size, timeout=DEADLINE_S)
        for communicator in communicators:
            self.addCleanup(communicator.destroy)
        return communicators

    def trained(self, size, make, steps=4, **train):
        """Values by name after `steps` of the model that make(communicator) gives, the same on all ranks."""
        def run(communicator):
            model = make(communicator)
            with model.context:
                model.train(steps, **train)
                return model.values()

        results = self.model.on_ranks(self.local(size), run)
        first = self.model.bits(results[0])
        for other in results[1:]:
            self.assertEqual(first, self.model.bits(other))
        return first

    def refused(self, code, sentence, call, *arguments, **options):
        with self.assertRaisesRegex(self.weft.Error, sentence) as raised:
            call(*arguments, **options)
        self.assertEqual(self.weft.Result[code], raised.exception.code)
        return raised.exception

    def interrupted(self, call, *arguments):
        """Ctrl-C while the call waits on this thread, the main one: KeyboardInterrupt, soon."""
        begins = []

        def interrupt():
            begins.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        # A program that a shell has put into the background ignores the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        timer = threading.Timer(0.1, interrupt)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            call(*arguments)
        self.assertLess(time.monotonic() - begins[0], 5)       # at once; but others may have the CPUs
        timer.join()

    def alone(self, policy="no_shard", optimizer=None, **options):
        model = self.model.Perceptron(self.shard, self.local(1)[0], policy, optimizer, **options)
        self.addCleanup(model.context.destroy)
        return model
