"""Where the windows of a convolution or pooling lie: sizes, strides, dilations and padding resolved to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


def positions_of(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """How many windows fit on each axis of an input that has its padding; 0 where none does."""
    return tuple(
        max((size - dilation * (taps - 1) - 1) // stride + 1, 0)
        for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True)
    )


@dataclass(frozen=True)
class Sliding:
    """One kernel on its way over the spatial axes; each field holds one item per axis.

    Attributes:
        sizes: of the input, without padding.
        kernel: of the kernel, without dilation.
        strides: from one window to the next.
        dilations: from one tap of a window to the next.
        pads: before and after, as the model says or ``auto_pad`` asks.
        positions: how many windows there are.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    positions: tuple[int, ...]

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after that the windows touch; with ``ceil_mode`` the last may hang over ``pads``."""
        return tuple(
            (before, max((positions - 1) * stride + dilation * (kernel - 1) + 1 - before - size, 0))
            for size, kernel, stride, dilation, (before, _), positions in zip(
                self.sizes, self.kernel, self.strides, self.dilations, self.pads, self.positions, strict=True
            )
        )

    @lru_cache(maxsize=1024)  # noqa: B019 - windows are small, and the cache is bounded
    def counts(self, include_pad: bool = False) -> tuple[tuple[int, ...], ...]:
        """For each axis and position, how many taps lie on the input, or on the input and its padding.

        What hangs over the padding never counts.

        Raises:
            ValueError: a window has no such tap.
        """
        result: list[tuple[int, ...]] = []
        for axis, positions in enumerate(self.positions):
            before, after = self.pads[axis] if include_pad else (0, 0)
            start = -self.pads[axis][0]
            taps = [tap * self.dilations[axis] for tap in range(self.kernel[axis])]
            result.append(
                tuple(
                    sum(-before <= start + at * self.strides[axis] + tap < self.sizes[axis] + after for tap in taps)
                    for at in range(positions)
                )
            )
        if any(0 in along for along in result):
            raise ValueError(f"pads {self.pads} and kernel_shape {self.kernel} leave windows that see padding alone")
        return tuple(result)


@lru_cache(maxsize=4096)
def slide(
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    auto_pad: str,
    ceil_mode: int,
) -> Sliding:
    """See ``extension.sliding``."""
    rank = len(sizes)
    strides = _per_axis("strides", strides, rank, 1)
    dilations = _per_axis("dilations", dilations, rank, 1)
    if len(kernel) != rank or min(kernel, default=1) < 1:
        raise ValueError(f"kernel_shape {list(kernel)} must be {rank} numbers from 1 on, one per spatial axis")
    explicit = _per_axis("pads", pads, 2 * rank, 0)
    if auto_pad != "NOTSET" and any(explicit):
        raise ValueError(f"auto_pad {auto_pad} and pads {list(explicit)} exclude each other")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"auto_pad {auto_pad!r} is none of NOTSET, VALID, SAME_UPPER and SAME_LOWER")
    found: list[tuple[int, int]] = []
    positions: list[int] = []
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        if auto_pad.startswith("SAME"):
            count = -(-size // stride)
            total = max((count - 1) * stride + reach - size, 0)
            more = total - total // 2
            before, after = (total // 2, more) if auto_pad == "SAME_UPPER" else (more, total // 2)
        else:
            before, after = explicit[axis], explicit[rank + axis]
            span = size + before + after - reach
            count = span // stride + 1
            # A window may hang over the end, but not start in the padding there.
            if ceil_mode and auto_pad == "NOTSET" and span % stride and count * stride < size + before:
                count += 1
            if count < 1 or (span < 0 and not ceil_mode):
                within = f"{size} + {before} + {after} on axis {axis + 2}"
                raise ValueError(f"a kernel that reaches over {reach} does not fit into {within}")
        found.append((before, after))
        positions.append(count)
    return Sliding(tuple(sizes), tuple(kernel), strides, dilations, tuple(found), tuple(positions))


def _per_axis(name: str, values: Sequence[int] | None, count: int, least: int) -> tuple[int, ...]:
    values = tuple(values) if values else (least,) * count
    if len(values) != count or min(values, default=least) < least:
        raise ValueError(f"{name} {list(values)} must be {count} numbers from {least} on")
    return values
