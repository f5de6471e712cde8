"""What hooks of a sharded model hold: it is of this one model, and goes into no copy of it."""
from __future__ import annotations

from typing import Any, NoReturn

_REFUSED = ("a model under fully_shard cannot be copied or pickled, because its params are this rank's parts of what all ranks keep together; copy it before "
            "fully_shard, save state_dict(), or build an average from state_dict() or full_state_dict()")


class NotCopied:
    """copy.deepcopy and pickle of it, and so of a module with a hook that is a method of it, raise TypeError. A copy would share the native context, and
    end it when it goes."""

    __slots__ = ()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(_REFUSED)
