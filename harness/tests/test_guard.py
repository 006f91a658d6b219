"""A write outside an output, and an element that is never written, must be visible."""

from __future__ import annotations

import numpy as np

from harness.guard import GuardedBuffer, guarded_copy, never_written


def test_a_write_one_element_past_the_end_is_seen():
    buffer = GuardedBuffer(4 * 8)
    assert buffer.overrun() is None
    memory = buffer.body.base
    memory[buffer._stop : buffer._stop + 4] = 0
    assert buffer.overrun() == "wrote 1 bytes past the end"


def test_a_write_before_the_start_is_seen():
    buffer = GuardedBuffer(32)
    buffer.body.base[4096 - 4] = 1
    assert buffer.overrun() == "wrote 4 bytes before the start"


def test_an_unwritten_element_is_nan_in_every_floating_type():
    buffer = GuardedBuffer(64)
    for dtype in (np.float16, np.float32, np.float64):
        assert np.isnan(buffer.array(dtype, (64 // np.dtype(dtype).itemsize,))).all()


def test_repoison_forgets_the_previous_result():
    buffer = GuardedBuffer(16)
    buffer.array(np.float32, (4,))[:] = 1.0
    buffer.repoison()
    assert np.isnan(buffer.array(np.float32, (2, 2))).all()


def test_a_guarded_copy_holds_the_bytes_and_poison_around_them():
    data = np.arange(10, dtype=np.uint8)
    copy = guarded_copy(data)
    assert np.array_equal(copy.body, data)
    assert (copy.body.base[4096 + 10 :] == 0xFF).all()


def test_a_fill_of_the_guard_zone_with_the_poison_is_seen():
    buffer = GuardedBuffer(32)
    buffer.body.base[buffer._stop : buffer._stop + 64] = 0xFF
    assert buffer.overrun() is not None


def test_an_element_that_is_never_written_shows_even_where_nan_is_right():
    buffer = GuardedBuffer(16)
    values = buffer.array(np.uint32, (4,))

    def run():
        values[:3] = 0xFFFFFFFF  # the right answer has the poison's bits; the last one is left out

    run()
    assert never_written(buffer, run).tolist() == [3]
