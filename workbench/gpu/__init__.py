"""`./dev gpu build | run | status`: proves on a machine with a GPU what a machine without one cannot; see README.md."""
