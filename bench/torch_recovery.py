"""How long ranks of torch take to go on without one that was killed: from SIGKILL to the first all_reduce of those that live.

    python3 -B bench/torch_recovery.py [--build build/release] [--torch build/torch] [--ranks 8] [--rounds 20] [--backends weft,gloo]

One table as JSON on standard output; milliseconds since the kill, of the slowest rank: medians and the extremes of the rounds. In each round, and for each
backend in turn, forked processes make a group with a TCPStore that this process serves, and wait for the victim, another one in each round, in an all_reduce of
8 bytes. Then each exchanges its handle with the others over the store, calls torch.distributed._reconfigure, and reduces again.
"""
import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAGES = ("failed", "handles", "reconfigured", "all_reduced")
LIMIT = datetime.timedelta(seconds=30)
_fork = multiprocessing.get_context("fork")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--torch", default=ROOT / "build" / "torch", type=pathlib.Path)
    parser.add_argument("--ranks", default=8, type=int)
    parser.add_argument("--rounds", default=20, type=int)
    parser.add_argument("--backends", default="weft,gloo", type=lambda text: text.split(","))
    return parser.parse_args()


def run_rank(backend, rank, ranks, victim, port, ready, done):
    store = dist.TCPStore("127.0.0.1", port.recv(), None, False, timeout=LIMIT)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=LIMIT, enable_reconfigure=True)
    survivors = [other for other in range(ranks) if other != victim]

    def handles(key, members):
        store.set(f"{key}/{rank}", dist._get_reconfigure_handle())
        return [store.get(f"{key}/{member}").decode() for member in members]

    dist._reconfigure(1, handles("all", range(ranks)), timeout=LIMIT).wait()
    x = torch.ones(2)
    for _ in range(20):
        dist.all_reduce(x)
    ready.send(rank)
    if rank == victim:
        signal.pause()
    moments = []
    try:
        dist.all_reduce(x)
    except RuntimeError:
        moments.append(time.monotonic())
    listed = handles("left", survivors)
    moments.append(time.monotonic())
    dist._reconfigure(2, listed, timeout=LIMIT).wait()
    moments.append(time.monotonic())
    dist.all_reduce(x)
    moments.append(time.monotonic())
    done.send(moments)
    dist.barrier()
    os._exit(0)


def run_round(backend, ranks, victim):
    """Milliseconds by stage."""
    ports, ready, done = ([_fork.Pipe(duplex=False) for _ in range(ranks)] for _ in range(3))
    processes = [_fork.Process(target=run_rank, args=(backend, rank, ranks, victim, ports[rank][0], ready[rank][1], done[rank][1])) for rank in range(ranks)]
    for process in processes:
        process.start()
    store = dist.TCPStore("127.0.0.1", 0, None, True, timeout=LIMIT, wait_for_workers=False)  # whose threads no fork sees
    for _, port in ports:
        port.send(store.port)
    try:
        for rank, (one, _) in enumerate(ready):
            if not one.poll(60):
                raise SystemExit(f"{backend}: rank {rank} did not come")
            one.recv()
        time.sleep(0.03)  # the others wait, asleep
        begin = time.monotonic()
        processes[victim].kill()
        found = []
        for rank, (one, _) in enumerate(done):
            if rank != victim:
                if not one.poll(60):
                    raise SystemExit(f"{backend}: rank {rank} did not go on")
                found.append(one.recv())
    finally:
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
    return [max((moments[stage] - begin) * 1e3 for moments in found) for stage in range(len(STAGES))]


def main():
    results = {backend: [] for backend in options.backends}
    for number in range(options.rounds):
        for backend in options.backends:
            results[backend].append(run_round(backend, options.ranks, number % options.ranks))
    rows = {backend: {name: {"median": round(statistics.median(column), 2), "min": round(min(column), 2), "max": round(max(column), 2)}
                      for name, column in zip(STAGES, zip(*rounds))} for backend, rounds in results.items()}
    print(json.dumps({"version": 1, "torch": torch.__version__, "ranks": options.ranks, "rounds": options.rounds, "milliseconds": rows}, indent=1))


options = arguments()
os.environ.setdefault("WEFT_LIBRARY_PATH", str(options.build.resolve() / "lib"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(options.torch), str(ROOT / "bindings" / "python" / "src")]
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import weft.torch  # noqa: E402, F401

torch.set_num_threads(1)
if __name__ == "__main__":
    main()
