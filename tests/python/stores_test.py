"""Communicators that are made without a launcher: by a store of the program's and by a unique id; what a store raises is what the maker gets."""
import os
import signal
import threading
import time
import unittest

import ranks

_DEADLINE_S = 30


class Dictionary:
    """The least that a store is: a dict with a lock."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, timeout):
                raise TimeoutError(key)
            return self.values[key]

    def add(self, key, amount):
        with self.changed:
            self.values[key] = str(int(self.values.get(key, b"0")) + amount).encode()
            self.changed.notify_all()
            return int(self.values[key])

    def remove(self, key):
        with self.changed:
            self.values.pop(key, None)


class KeepsAll(Dictionary):
    remove = None


def on_threads(size, make):
    """[what make(rank) returned or raised], each on a thread of its own."""
    ended = [None] * size

    def run(rank):
        try:
            ended[rank] = make(rank)
        except Exception as exception:  # handed to the test
            ended[rank] = exception

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _DEADLINE_S)
    return ended


class Stores(unittest.TestCase):
    def setUp(self):
        import weft
        self.weft = weft

    def expect_sum(self, communicators):
        import array
        parts = [array.array("q", [10 ** rank]) for rank in range(len(communicators))]
        on_threads(len(parts), lambda rank: communicators[rank].all_reduce(parts[rank], timeout=_DEADLINE_S))
        self.assertEqual([(10 ** len(parts) - 1) // 9] * len(parts), [part[0] for part in parts])
        for communicator in communicators:
            communicator.destroy()

    def test_ranks_meet_in_a_store(self):
        for size, kind in ((1, Dictionary), (2, Dictionary), (3, KeepsAll)):
            store = kind()
            for name in ("first", "second"):
                made = on_threads(size, lambda rank: self.weft.Communicator.from_store(store, rank, size, name=name, init_timeout=_DEADLINE_S))
                self.assertEqual([(rank, size, name) for rank in range(size)], [(comm.rank, comm.size, comm.name) for comm in made])
                self.expect_sum(made)
            if kind is Dictionary:
                self.assertEqual({}, store.values)

    def test_ranks_meet_by_an_id(self):
        unique_id = self.weft.UniqueId()
        data = bytes(unique_id)
        made = on_threads(2, lambda rank: self.weft.Communicator.from_id(self.weft.UniqueId.from_bytes(data), rank, 2, init_timeout=_DEADLINE_S))
        self.expect_sum(made)
        with self.assertRaisesRegex(ValueError, "a unique id has 128 bytes, not 3"):
            self.weft.UniqueId.from_bytes(b"abc")

    def test_what_a_store_raises_is_raised(self):
        class Broken(Dictionary):
            def __init__(self, where):
                super().__init__()
                self.where = where

            def get(self, key, timeout):
                if self.where == "get":
                    raise LookupError("the disk is gone")
                return super().get(key, timeout)

            def set(self, key, value):
                if self.where == "set":
                    raise LookupError("the disk is gone")
                super().set(key, value)

        for where in ("get", "set"):
            store = Broken(where)
            ended = on_threads(2, lambda rank: self.weft.Communicator.from_store(store, rank, 2, init_timeout=5))
            self.assertEqual(["LookupError('the disk is gone')"] * 2, [repr(exception) for exception in ended], where)

    def test_an_absent_rank_is_named_at_the_deadline(self):
        start = time.monotonic()
        with self.assertRaises(self.weft.Error) as caught:
            self.weft.Communicator.from_store(Dictionary(), 0, 2, init_timeout=0.5)
        self.assertEqual(self.weft.Result.TIMEOUT, caught.exception.code)
        self.assertRegex(str(caught.exception), r"rank 1|ranks? .*1")
        self.assertLess(time.monotonic() - start, 10)

    def test_an_interrupted_rank_is_named_by_the_others(self):
        """Ctrl-C while rank 2 has not come: inside the store's own waiting most of the time."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        for victim in (0, 1):
            store = Dictionary()
            others = []
            other = threading.Thread(target=lambda: others.extend(on_threads(1, lambda _: self.weft.Communicator.from_store(
                store, 1 - victim, 3, init_timeout=2 * _DEADLINE_S))))
            other.start()
            timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                self.weft.Communicator.from_store(store, victim, 3, init_timeout=2 * _DEADLINE_S)
            timer.join()
            other.join(_DEADLINE_S)
            self.assertRegex(str(others[0]), f"rank {victim} was interrupted by its program while the group was made")
            self.assertEqual((self.weft.Result.ABORTED, victim), (others[0].code, others[0].rank))

    def test_wrong_arguments(self):
        for rank, size in ((2, 2), (-1, 2), (0, 0)):
            with self.assertRaises(self.weft.Error) as caught:
                self.weft.Communicator.from_store(Dictionary(), rank, size, init_timeout=1)
            self.assertEqual(self.weft.Result.INVALID_ARGUMENT, caught.exception.code)
        with self.assertRaises(AttributeError):
            self.weft.Communicator.from_store(object(), 0, 2, init_timeout=1)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
