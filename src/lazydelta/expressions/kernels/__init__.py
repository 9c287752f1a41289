"""Kernels of operators and functions: Arrow arrays in, a `Result` out.

A kernel takes the values of the arguments, the literal arguments that its signature calls
constant, and the type of the result. `GENERAL` has functions of Python values, for arguments that
could be constants but are not. CASE, coalesce, AND and OR do not use every argument in every row;
they are in `evaluation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.expressions.kernels.collections import COLLECTION_KERNELS
from lazydelta.expressions.kernels.comparisons import COMPARISON_KERNELS, compare, like
from lazydelta.expressions.kernels.datetimes import DATETIME_KERNELS, add_interval
from lazydelta.expressions.kernels.hashes import HASH_KERNELS
from lazydelta.expressions.kernels.numbers import NUMBER_KERNELS
from lazydelta.expressions.kernels.strings import GENERAL, STRING_KERNELS

if TYPE_CHECKING:
    from lazydelta.expressions.kernels.comparisons import Kernel

__all__ = ["GENERAL", "KERNELS", "add_interval", "compare", "like"]

KERNELS: dict[str, Kernel] = {
    **COMPARISON_KERNELS,
    **NUMBER_KERNELS,
    **STRING_KERNELS,
    **DATETIME_KERNELS,
    **HASH_KERNELS,
    **COLLECTION_KERNELS,
}
