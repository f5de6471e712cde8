"""Rules that a compiler does not know: one waiting loop, one getenv, no fences, no volatile, words we do not use."""
import pathlib
import re
import unittest

import source_tree

_LIBRARY = ("base", "topology", "comm", "shard", "bindings")
_VAGUE_NAMES = {"util", "utils", "helper", "helpers", "misc", "common"}
# Abseil's packaged archives of these refer to data of libc or own thread-local variables; fmt and std:: do the same.
_NOT_EMBEDDABLE = {"absl/strings/str_format.h", "absl/container/flat_hash_map.h", "absl/container/flat_hash_set.h",
                   "absl/container/node_hash_map.h", "absl/container/node_hash_set.h", "absl/random/random.h"}

# A loop whose condition, or whose whole body, is the look at an atomic.
_WAITING_LOOP = (r"\b(?:while|for)\s*\([^{};]*\.(?:load|test|test_and_set|compare_exchange_\w+|exchange)\s*\([^{}]*?\)\s*"
                 r"(?:;|\{\s*(?:\}|[^{}]*?(?:yield|pause|Pause|Yield|Sleep|sleep)\w*\s*\())")
_SPIN_CALL = r"\b(?:_mm_pause|__builtin_ia32_pause|sched_yield|SYS_futex|std::this_thread::yield)\b|\.wait\s*\(\s*\w+\s*,\s*std::memory_order"
# Calls that make descriptors, also as names of variables: `return open(path)` is one, `int open(0)` and `open()` are not.
_CALL = r"(?:(?<=return )|(?<![\w>*&] ))(?<![\w.>])(?:::)?"
_NEW_DESCRIPTOR = (_CALL + r"(?:socket|socketpair|accept4?|open(?:at|64)?|creat|memfd_create|eventfd|epoll_create1?|timerfd_create|signalfd"
                   r"|inotify_init1?|dup3?|pipe2?|mko?stemps?|opendir|fdopen|fopen|tmpfile|popen|recvmmsg|pidfd_open|pidfd_getfd)\s*\([^)]"
                   r"|\b(?:F_DUPFD\w*|MSG_CMSG_CLOEXEC|SYS_pidfd_open|SYS_pidfd_getfd|SYS_userfaultfd|std::[io]?fstream)\b")
# Functions of libraries that make descriptors where we cannot see it.
_HIDDEN_DESCRIPTORS = r"\b(?:getaddrinfo|getifaddrs|dlm?open|io_uring_queue_init\w*|ucp_init)\s*\("


def rule_violations(tree):
    found = []

    def report(path, pattern, sentence):
        found.extend(f"{path}:{line} {sentence}" for line in source_tree.lines_matching(tree[path], pattern))

    for path in tree:
        folder = source_tree.top_folder(path)
        library = folder in _LIBRARY
        report(path, r"\batomic_thread_fence\b", "uses a fence; order the accesses themselves, TSan cannot see fences")
        report(path, r"\bvolatile\b(?!\s*(?:\(|\"))", "uses volatile; std::atomic says what is meant")
        if library and not path.startswith("base/wait."):
            report(path, _WAITING_LOOP, "waits on an atomic in a loop of its own; base/wait.h has the one loop")
            report(path, _SPIN_CALL, "pauses or yields by itself; base/wait.h has the one loop")
        if (library or folder == "cli") and path != "base/options.cc":
            report(path, r"\b(?:secure_)?getenv\s*\(", "reads the environment; base/options.cc is the one place")
        if (library or folder == "cli") and not path.startswith(("base/new_fd.", "base/standard_fds.")):
            report(path, _NEW_DESCRIPTOR, "makes a descriptor, which may have a standard one's number; base/new_fd.h has the calls")
        holds = "HoldStandardFds(" in source_tree.strip(tree[path])
        if (library or folder == "cli") and not holds:
            report(path, _HIDDEN_DESCRIPTORS, "calls what makes descriptors, without HoldStandardFds() (base/standard_fds.h)")
        if path.startswith(("cli/", "trainer/", "bench/weft_perf/")) and not holds:
            report(path, r"^int main\(", "is a program that does not call HoldStandardFds() (base/standard_fds.h) first")
        if library:
            report(path, r"\babsl::Mutex\b", "uses absl::Mutex, whose packaged build TSan reports; use base/mutex.h")
            for line, name, _ in source_tree.includes(tree[path]):
                if name in _NOT_EMBEDDABLE:
                    found.append(f"{path}:{line} includes {name}, which libweft.so cannot hold: see cmake/absl.cmake")
            report(path, r"\bsleep_for\b|\busleep\s*\(|\bsleep\s*\(", "sleeps; wait for the event with a deadline")
        own = pathlib.PurePosixPath(path).stem
        if own.endswith("_test") and source_tree.lines_matching(tree[path], rf"^namespace weft(::[a-z]+)?::{own} {{"):
            report(path, r"^\S.*(?:=|\{|\().*\b(?:setenv|putenv|signal|sigaction|prctl|setrlimit)\s*\(",
                   "does something before main() of a program that other tests share; leave out the namespace of its name")
        for part in pathlib.PurePosixPath(path).with_suffix("").parts:
            if set(part.lower().split("_")) & _VAGUE_NAMES:
                found.append(f"{path} is named {part}; name it after what it does")
    return found


class Rules(unittest.TestCase):
    def test_tree_follows_the_rules(self):
        self.assertEqual([], rule_violations(source_tree.read_tree()))

    def found(self, path, text):
        return [sentence.split(" ")[0] for sentence in rule_violations({path: text})]

    def test_own_waiting_loops_are_found(self):
        for text in ("while (!flag.load(std::memory_order_acquire)) {}\n", "while (flag.load() == 0);\n",
                     "while (!flag.load()) { Pause(); }\n", "for (; !flag.load();) { std::this_thread::yield(); }\n"):
            self.assertIn("comm/a.cc:1", self.found("comm/a.cc", text), text)
        self.assertEqual([], self.found("base/wait.h", "while (!flag.load()) { Pause(); }\n"))

    def test_bounded_reads_of_atomics_are_fine(self):
        self.assertEqual([], self.found("comm/a.cc", "for (int i = 0; i < n; ++i) sum += counts[i].load();\n"))
        self.assertEqual([], self.found("comm/a.cc", "if (flag.load()) return;\nwhile (i < n) { ++i; }\n"))
        self.assertEqual([], self.found(
            "comm/a.cc", "uint32_t seen = word.load();\nwhile (!word.compare_exchange_weak(seen, seen | 1)) {\n  if (seen) return;\n}\n"))

    def test_environment_is_read_in_one_place(self):
        text = 'const char* home = getenv("HOME");\n'
        self.assertEqual(["comm/a.cc:1"], self.found("comm/a.cc", text))
        self.assertEqual([], self.found("base/options.cc", text))
        self.assertEqual([], self.found("comm/a.cc", "// getenv(\n"))

    def test_descriptors_are_made_in_one_place(self):
        for text in ("int fd = open(path, O_RDONLY);\n", "return socket(AF_UNIX, SOCK_STREAM, 0);\n", "UniqueFd fd(::eventfd(0, 0));\n",
                     "x = fcntl(fd, F_DUPFD_CLOEXEC, 0);\n", 'std::ifstream in("/proc/stat");\n', "if (pipe2(ends, O_CLOEXEC) != 0) return;\n",
                     "syscall(SYS_pidfd_open, pid, 0);\n", "recvmsg(s, &m, MSG_CMSG_CLOEXEC);\n"):
            self.assertEqual(["comm/a.cc:1"], self.found("comm/a.cc", text), text)
            self.assertEqual([], self.found("base/new_fd.cc", text), text)
            self.assertEqual([], self.found("tests/a.cc", text), text)
        for text in ("if (open()) return;\n", "std::vector<int> open(count, -1);\n", "bool open() const;\n", "set.open(1);\n", "reopen(x);\n"):
            self.assertEqual([], self.found("comm/a.cc", text), text)

    def test_libraries_that_make_descriptors_find_the_standard_ones_held(self):
        text = "void* library = dlopen(file, RTLD_NOW);\n"
        self.assertEqual(["base/a.cc:1"], self.found("base/a.cc", text))
        self.assertEqual([], self.found("base/a.cc", "HoldStandardFds();\n" + text))
        text = "int main(int argc, char** argv) {\n"
        self.assertEqual(["trainer/main.cc:1"], self.found("trainer/main.cc", text))
        self.assertEqual([], self.found("trainer/main.cc", text + "  weft::HoldStandardFds();\n"))

    def test_fences_volatile_and_sleeps_are_found(self):
        self.assertEqual(["comm/a.cc:2"], self.found("comm/a.cc", "\nstd::atomic_thread_fence(std::memory_order_seq_cst);\n"))
        self.assertEqual(["comm/a.cc:1"], self.found("comm/a.cc", "volatile int x;\n"))
        self.assertEqual([], self.found("comm/a.cc", 'asm volatile("sfence");\n'))
        self.assertEqual(["comm/a.cc:1"], self.found("comm/a.cc", "std::this_thread::sleep_for(1ms);\n"))

    def test_unembeddable_abseil_is_found(self):
        self.assertEqual(["comm/a.cc:1"], self.found("comm/a.cc", '#include "absl/strings/str_format.h"\n'))
        self.assertEqual([], self.found("comm/a.cc", '#include "absl/strings/str_cat.h"\n'))

    def test_what_a_shared_program_would_do_before_main_is_found(self):
        line = "const int kSet = setenv(\"A\", \"b\", 1);\n"
        self.assertEqual(["tests/x/a_test.cc:2"], self.found("tests/x/a_test.cc", "namespace weft::test::a_test {\n" + line))
        for text in ("namespace weft::test {\n" + line, "namespace weft::test::a_test {\n  " + line):
            self.assertEqual([], self.found("tests/x/a_test.cc", text))

    def test_vague_names_are_found(self):
        self.assertEqual(["comm/utils.cc"], self.found("comm/utils.cc", ""))
        self.assertEqual(["base/common/a.h"], self.found("base/common/a.h", ""))
        self.assertEqual([], self.found("comm/communication.cc", ""))

    def test_stripping_keeps_code_and_lines(self):
        text = 'int a; // b\n"// no", c; /* d\n e */ int f = \'"\'; R"(g " )" h\n'
        stripped = source_tree.strip(text)
        self.assertEqual(text.count("\n"), stripped.count("\n"))
        self.assertEqual(["int", "a;", ",", "c;", "int", "f", "=", ";", "h"], re.findall(r"\S+", stripped))


if __name__ == "__main__":
    unittest.main()
