"""What the figures were measured on."""
import datetime
import os
import pathlib
import platform
import re
import subprocess


def _processor():
    found = re.search(r"^model name\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def cache_bytes(level):
    """Size of the data cache of the first processor at a level; 0 when the kernel does not say."""
    for folder in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if (folder / "level").read_text().strip() == str(level) and (folder / "type").read_text().strip() != "Instruction":
                number, unit = re.fullmatch(r"(\d+)([KM]?)", (folder / "size").read_text().strip()).groups()
                return int(number) << {"": 0, "K": 10, "M": 20}[unit]
        except (OSError, AttributeError):
            continue
    return 0


def core_count():
    return len(os.sched_getaffinity(0))


def available_bytes():
    """Memory that can be had without swapping."""
    found = re.search(r"^MemAvailable:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 1 << 30


def steal_s():
    """Seconds that the host has taken from this machine since it started, over all cores."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


def _cpu_stat_files():
    """cpu.stat of this process's cgroup and of those above it, as far as they can be seen; version 2, else version 1."""
    root = pathlib.Path("/sys/fs/cgroup")
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mount = root if not controllers else root / "cpu" if "cpu" in controllers.split(",") else None
        if mount is None:
            continue
        folder = mount / path.lstrip("/")
        found = [one / "cpu.stat" for one in (folder, *folder.parents) if one.is_relative_to(mount) and (one / "cpu.stat").exists()]
        if found:
            return found
    return []


def throttled_seconds(text):
    """What a cpu.stat says of the time for which its group was not allowed to run."""
    fields = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(fields.get("throttled_usec", 0)) / 1e6 + int(fields.get("throttled_time", 0)) / 1e9


def throttled_s():
    """Seconds for which quotas have held this process's cgroups; 0 where nothing can be seen."""
    try:
        return sum(throttled_seconds(path.read_text()) for path in _cpu_stat_files())
    except (OSError, ValueError):
        return 0.0


def describe(root):
    """The machine and the source, as they stand in the results."""
    commit = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.DEVNULL, check=False).stdout.strip()
    return {"processor": _processor(), "cores": core_count(), "l2_bytes": cache_bytes(2), "l3_bytes": cache_bytes(3),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "kernel": platform.release(),
            "load": round(os.getloadavg()[0], 2), "commit": commit or "unknown",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
