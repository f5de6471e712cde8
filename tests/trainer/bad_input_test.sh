#!/bin/sh
# Usage: bad_input_test.sh PROGRAM. Bad input gives one line on standard error and exit code 2.
program=$(realpath "$1")
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
mkdir empty
: >nothing
printf 'short text\n' >short
head -c 20000 "$program" | tr -d '\0' >enough
touch occupied
mkfifo fifo
failed=0

expect() { # PATTERN ARGUMENTS...
  pattern=$1
  shift
  "$program" "$@" >out 2>err
  code=$?
  if [ $code -ne 2 ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -q -e "$pattern" err; then
    echo "weft_train $*: exit code $code, expected 2 and one line with '$pattern', got:"
    cat err
    failed=1
  fi
}

expect '--unknown' --unknown
expect '--steps' --steps
expect 'absent' --data absent
expect 'no text' --data empty
expect 'no text' --data nothing
expect 'needs .* tokens' --data short
expect '--data fifo is neither' --data fifo
expect '--data /dev/zero is neither' --data /dev/zero
expect '--name ../../x' --data enough --name ../../x
expect '--seed: 1.* is out of range; use 0 to' --seed 100000000000000000000
expect '--batch: 0' --data enough --batch 0
expect '--heads 3' --data enough --width 10 --heads 3
expect '--dtype fp8' --dtype fp8
expect '--strategy magic' --strategy magic
expect '--shard-group 3 does not divide' --strategy hpz --shard-group 3
expect '--run-dir' --data enough --seq 16 --batch 2 --steps 1 --run-dir occupied --name x

# A full disk is named, by exit code 74.
expect_full() { # ARGUMENTS...
  "$program" "$@" >/dev/full 2>err
  code=$?
  if [ $code -ne 74 ] || ! grep -q 'No space left on device' err; then
    echo "weft_train $* >/dev/full: exit code $code, expected 74 and a full disk, got:"
    cat err
    failed=1
  fi
}

if [ -e /dev/full ]; then
  expect_full --data enough --seq 16 --batch 2 --steps 1 --layers 1 --width 16 --heads 1
  expect_full --help
  # Nobody can be told why, but the code is that of the fault.
  for err in /dev/full /dev/null; do
    "$program" --data absent 2>$err
    code=$?
    if [ $code -ne 2 ]; then
      echo "weft_train --data absent 2>$err: exit code $code, expected 2"
      failed=1
    fi
  done
fi
exit $failed
