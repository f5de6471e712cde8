"""Communicators and works over the C interface. `weft` has what programs use; here each thing has a module of its own.

Order of the modules, each of which imports earlier ones only: interrupt, errors, types, dlpack, arrays, devices, buffers, pairs, reductions, calls, completions,
batch, work, operations, group, collectives, vectors, lists, messages, bound, shared, memory, reports, members, communicator, config.
"""
