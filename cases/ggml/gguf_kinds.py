"""Kinds of GGUF files, one damage or none each: what upstream's test-gguf lays out by hand, and more.

A kind makes a file from random numbers. What becomes of each is data: `gguf_outcomes.yaml`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from cases.ggml.gguf_contents import kv
from cases.ggml.gguf_files import (
    F32,
    I8,
    I64,
    Q4_0,
    Make,
    all_empty,
    claiming,
    counting,
    duplicate_name,
    first_version,
    header_field,
    inconsistent_alignment,
    infos_field,
    last_tensor,
    magic,
    metadata_field,
    more_bytes_than_exist,
    side_tensors,
    small_file,
    two_of_half_the_address_space,
    with_header,
    with_infos,
    with_key,
    with_metadata,
    with_pair,
    with_tensor,
    with_value,
)
from harness.containers.ggml_types import ggml_types, removed_types
from harness.containers.tests import gguf_bytes as g
from harness.containers.tests.gguf_bytes import Tensor

U64_MAX = (1 << 64) - 1
U32_MAX = (1 << 32) - 1
ALIGNMENT = b"general.alignment"

UPSTREAM: Mapping[str, Make] = {
    "HEADER_BAD_MAGIC": with_header(magic),
    "HEADER_BAD_VERSION_0": header_field("version", "I", 0),
    "HEADER_BAD_VERSION_1": header_field("version", "I", 1),
    "HEADER_BAD_VERSION_FUTURE": header_field("version", "I", 4),
    "HEADER_BAD_N_TENSORS": header_field("tensor_count", "Q", U64_MAX),
    "HEADER_BAD_N_KV": header_field("kv_count", "Q", U64_MAX),
    "HEADER_EMPTY": with_header(lambda laid: None),
    "KV_BAD_KEY_SIZE": metadata_field("kv[{i}].key", "Q", U64_MAX),
    "KV_EMPTY_KEY": with_key(lambda kvs, i: b""),
    "KV_BAD_TYPE": metadata_field("kv[{i}].type", "I", 13),
    "KV_DUPLICATE_KEY": with_key(lambda kvs, i: kvs[i - 1][0]),
    "KV_BAD_ALIGN": with_pair(*kv(ALIGNMENT, g.U32, "I", 13)),
    "KV_WRONG_TYPE_ALIGN": with_pair(*kv(ALIGNMENT, g.I32, "i", 13), field="kv[{i}].type"),
    "KV_SUCCESS": with_metadata(lambda kvs, i: None),
    "TENSORS_BAD_NAME_SIZE": with_tensor(
        lambda name: Tensor(name.ljust(90, b"_"), (8,), F32, bytes(32)), "tensor_infos[{i}].name"
    ),
    "TENSORS_BAD_N_DIMS": infos_field("tensor_infos[{i}].n_dims", "I", 5),
    "TENSORS_BAD_SHAPE": infos_field("tensor_infos[{i}].dims[0]", "Q", U64_MAX),
    "TENSORS_ZERO_DIM": with_infos(all_empty, None),
    "TENSORS_NE_TOO_BIG": with_tensor(claiming(F32, (4 * (2**31 - 1),) * 2), "tensor_infos[{i}].dims[1]"),
    "TENSORS_NBYTES_TOO_BIG": with_infos(more_bytes_than_exist, "tensor_infos[{i}].dims[0]"),
    "TENSORS_NBYTES_PAD_WRAP": with_tensor(claiming(I64, (2**61 - 1,)), "tensor_infos[{i}].dims[0]"),
    "TENSORS_BAD_TYPE": infos_field("tensor_infos[{i}].type", "I", max(ggml_types()) + 1),
    "TENSORS_BAD_OFFSET": infos_field("tensor_infos[{i}].offset", "Q", U64_MAX),
    "TENSORS_DUPLICATE_NAME": with_infos(duplicate_name, "tensor_infos[{i}].name"),
    "TENSORS_BAD_ALIGN": with_infos(field="kv[{key}]", more=(kv(ALIGNMENT, g.U32, "I", 13),), alignment=13),
    "TENSORS_INCONSISTENT_ALIGN": inconsistent_alignment(data=False),
    "TENSORS_SUCCESS": with_infos(field="data[0]"),
    "TENSORS_CUSTOM_ALIGN": with_infos(field="data[0]", more=(kv(ALIGNMENT, g.U32, "I", 1),), alignment=1),
    "DATA_NOT_ENOUGH_DATA": last_tensor(nbytes=64, gone=1),
    "DATA_BAD_ALIGN": with_infos(
        field="kv[{key}]", more=(kv(ALIGNMENT, g.U32, "I", 13),), alignment=13, data=True
    ),
    "DATA_INCONSISTENT_ALIGN": inconsistent_alignment(data=True),
    "DATA_MEM_SIZE_OVERFLOW": two_of_half_the_address_space,
    "DATA_SUCCESS": with_infos(field=None, data=True),
    "DATA_CUSTOM_ALIGN": with_infos(field=None, more=(kv(ALIGNMENT, g.U32, "I", 1),), alignment=1, data=True),
}
"""Upstream's names."""

OURS: Mapping[str, Make] = {
    "HEADER_NO_BYTES": with_header(lambda laid: laid.data.clear()),
    "HEADER_CUT": with_header(lambda laid: laid.data.__delitem__(slice(23, None))),
    "HEADER_N_TENSORS_2_62": header_field("tensor_count", "Q", 1 << 62),
    "HEADER_N_TENSORS_2_32": header_field("tensor_count", "Q", 1 << 32),
    "HEADER_N_KV_2_32": header_field("kv_count", "Q", 1 << 32),
    "HEADER_VERSION_1_LAYOUT": first_version,
    "HEADER_VERSION_2": small_file(version=2),
    "HEADER_BIG_ENDIAN": small_file(">"),
    "HEADER_BIG_ENDIAN_VERSION_2": small_file(">", version=2),
    "HEADER_ONE_TENSOR_MORE": counting(1),
    "HEADER_ONE_TENSOR_FEWER": counting(-1),
    "KV_KEY_SIZE_WRAPS": metadata_field("kv[{i}].key", "Q", U64_MAX - 7),
    "KV_KEY_OF_64_KIB": with_key(lambda kvs, i: b"k" * (1 << 16)),
    "KV_KEY_NOT_UTF8": with_key(lambda kvs, i: b"k\xff"),
    "KV_KEY_WITH_NUL": with_key(lambda kvs, i: b"k\0x"),
    "KV_ALIGN_BEFORE_NUL": with_pair(*kv(ALIGNMENT + b"\0", g.U32, "I", 64), field="kv[{i}].key"),
    "KV_TYPE_NEGATIVE": metadata_field("kv[{i}].type", "I", U32_MAX),
    "KV_STRING_SIZE_MAX": with_value(g.STR, struct.pack("<Q", U64_MAX)),
    "KV_STRING_SIZE_WRAPS": with_value(g.STR, struct.pack("<Q", U64_MAX - 7)),
    "KV_STRING_BEYOND_END": with_value(g.STR, struct.pack("<Q", 1 << 20)),
    "KV_STRING_WITH_NUL": with_value(g.STR, g.text(b"a\0b")),
    "KV_ARRAY_COUNT_WRAPS": with_value(g.ARR, g.array(g.U64, 1 << 61, b""), 4),
    "KV_ARRAY_COUNT_MAX": with_value(g.ARR, g.array(g.U8, U64_MAX, b""), 4),
    "KV_ARRAY_BEYOND_END": with_value(g.ARR, g.array(g.U8, 1 << 20, b""), 4),
    "KV_ARRAY_STRING_COUNT_WRAPS": with_value(g.ARR, g.array(g.STR, 1 << 61, b""), 4),
    "KV_ARRAY_STRING_SIZE_WRAPS": with_value(
        g.ARR, g.array(g.STR, 2, g.text(b"a") + struct.pack("<Q", U64_MAX - 7)), 12 + 9
    ),
    "KV_ARRAY_OF_ARRAYS": with_value(g.ARR, g.array(g.ARR, 1, g.array(g.U8, 1, b"\1"))),
    "KV_ARRAY_BAD_ITEM_TYPE": with_value(g.ARR, g.array(13, 0, b"")),
    "KV_ARRAY_EMPTY": with_value(g.ARR, g.array(g.F64, 0, b"")),
    "KV_BOOL_OF_2": with_value(g.BOOL, b"\2"),
    "KV_ALIGN_0": with_pair(*kv(ALIGNMENT, g.U32, "I", 0)),
    "KV_ALIGN_2_31": with_pair(*kv(ALIGNMENT, g.U32, "I", 1 << 31)),
    "KV_ALIGN_ARRAY": with_pair(
        ALIGNMENT, g.ARR, g.array(g.U32, 1, struct.pack("<I", 32)), field="kv[{i}].type"
    ),
    "KV_ARCHITECTURE_NUMBER": with_pair(*kv(b"general.architecture", g.U32, "I", 1), field="kv[{i}].type"),
    "TENSORS_NAME_SIZE_WRAPS": infos_field("tensor_infos[{i}].name", "Q", U64_MAX - 7),
    "TENSORS_NAME_OF_64": with_tensor(
        lambda name: Tensor(name.ljust(64, b"_"), (8,), I8, bytes(8)), "tensor_infos[{i}].name"
    ),
    "TENSORS_NAME_OF_63": with_tensor(
        lambda name: Tensor(name.ljust(63, b"_"), (8,), I8, bytes(8)), None, data=True
    ),
    "TENSORS_NAME_EMPTY": with_tensor(Tensor(b"", (8,), I8, bytes(8)), None, data=True),
    "TENSORS_NAME_WITH_NUL": with_tensor(
        lambda name: Tensor(name + b"\0x", (8,), I8, bytes(8)), "tensor_infos[{i}].name", data=True
    ),
    "TENSORS_N_DIMS_0": with_tensor(lambda name: Tensor(name, (), I8, b"\1"), None, data=True),
    "TENSORS_N_DIMS_MAX": infos_field("tensor_infos[{i}].n_dims", "I", U32_MAX),
    "TENSORS_NE_WRAPS_TO_0": with_tensor(claiming(I8, (1 << 32, 1 << 32)), "tensor_infos[{i}].dims[1]"),
    "TENSORS_NE_WRAPS_BELOW_0": with_tensor(claiming(I8, (1 << 62, 2)), "tensor_infos[{i}].dims[1]"),
    "TENSORS_NE_0_BESIDE_HUGE": with_tensor(claiming(I8, (0, 1 << 62, 4)), "tensor_infos[{i}].dims[2]"),
    "TENSORS_NBYTES_WRAPS_TO_0": with_tensor(claiming(F32, (1 << 62,)), "tensor_infos[{i}].dims[0]"),
    "TENSORS_ROW_NOT_WHOLE_BLOCKS": with_tensor(claiming(Q4_0, (48,)), "tensor_infos[{i}].type"),
    "TENSORS_TYPE_NEGATIVE": infos_field("tensor_infos[{i}].type", "I", U32_MAX),
    **{
        f"TENSORS_TYPE_REMOVED_{number}": infos_field("tensor_infos[{i}].type", "I", number)
        for number in removed_types()
    },
    "TENSORS_OFFSET_ODD": infos_field("tensor_infos[{i}].offset", "Q", 1, data=True),
    "TENSORS_OFFSET_OVERLAPS": infos_field("tensor_infos[{i}].offset", "Q", 0, data=True),
    "TENSORS_OFFSET_BEYOND_END": infos_field("tensor_infos[{i}].offset", "Q", 1 << 40, data=True),
    "TENSORS_OFFSET_WRAPS": infos_field("tensor_infos[{i}].offset", "Q", U64_MAX - 31, data=True),
    "DATA_NO_LAST_PADDING": last_tensor(nbytes=40, gone=24),
    "DATA_MORE_BYTES": small_file(change=lambda laid: laid.data.extend(bytes(100))),
    "DATA_PADDING_NOT_0": small_file(
        change=lambda laid: laid.data.__setitem__(slice(-27, None), b"\xff" * 27)
    ),
    "DATA_TENSOR_EMPTY": with_tensor(claiming(I8, (0,)), None, data=True),
    "DATA_NVFP4_SIDE_TENSORS": with_infos(side_tensors, None, data=True),
}
"""What upstream does not try: numbers that wrap, NUL bytes, removed types, byte order, overlaps, counts off by one."""

KINDS: Mapping[str, Make] = {**UPSTREAM, **OURS}
