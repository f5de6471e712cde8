"""Going on with other ranks: without those that are gone, with new processes.

    except weft.Error:
        world.reconfigure()           # of those that live; rank and size are new

docs/recovery.md has the whole way.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence

from weft import _capi
from weft._library import library
from weft.core.errors import check, refuse_inside_check
from weft.core.group import Group, config
from weft.core.operations import rank_number

NEW_RANK: int = _capi.WEFT_NEW_RANK


class Members(Group):
    """Of a communicator."""

    def reconfigure(self, members: Sequence[int] | None = None, *, name: str | None = None, timeout: float | None = None,
                    init_timeout: float | None = None) -> bool:
        """Makes the communicator anew, in place, of the ranks that live. members[i] is the present rank that becomes rank i, or weft.NEW_RANK for a process that
        joins; None: all that live, in their order. Collective over the ranks that live; all pass the same. `init_timeout`: of this call. Returns whether this
        rank is one of them; if not, its communicator is destroyed. Bound calls have to be bound again, and no other thread may use the communicator meanwhile.
        Refused while this rank has shared arrays, or views of them: their memory would be gone."""
        if self._shared:
            raise BufferError(f"communicator {self._name} has shared arrays or views of them, whose memory would be gone; drop them first")
        group = self._live_group()
        listed = None if members is None else [rank_number(member, "a member") for member in members]
        refuse_inside_check()
        made = config(name, timeout, init_timeout)
        check(library.weft_group_reconfigure(group, None if listed is None else (ctypes.c_int * max(len(listed), 1))(*listed), 0 if listed is None else len(listed),
                                             ctypes.byref(made)))
        if listed is not None and self._rank not in listed:
            self.destroy()
            return False
        self._generation += 1
        self._end_bound()
        self._learn()
        return True

    def newcomers(self) -> int:
        """How many processes wait to join, in weftrun's store. Not collective, and of this moment: let one rank ask and tell the others."""
        refuse_inside_check()
        count = ctypes.c_int()
        check(library.weft_group_newcomers(self._live_group(), None, ctypes.byref(count)))
        return count.value

    @property
    def epoch(self) -> int:
        """How often the group has been made: 1 at first, one more with each reconfigure(). Above 1 in a process that has joined."""
        refuse_inside_check()
        number = ctypes.c_uint32()
        check(library.weft_group_epoch(self._live_group(), ctypes.byref(number)))
        return number.value
