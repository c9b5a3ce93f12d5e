# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading cubins: figures of kernels that ptxas made, and files that are damaged."""

from __future__ import annotations

import random
import struct

import pytest

from libtile.backend import cubin, ptxas
from libtile.backend.cubin import CubinError, CubinParameter, read_cubin
from libtile.targets import target

PTX = """
.version 9.2
.target {target}
.address_size 64
.visible .entry first(.param .u64 p, .param .u8 c, .param .f64 d, .param .u32 n)
.reqntid 64, 2, 1
{{
  .shared .align 16 .b8 buffer[2048];
  .local .align 8 .b8 frame[64];
  .reg .b64 %a<4>; .reg .b32 %r<4>;
  ld.param.u64 %a1, [p];
  mov.u32 %r1, %tid.x;
  mov.u64 %a2, frame;
  mul.wide.u32 %a3, %r1, 4;
  add.u64 %a2, %a2, %a3;
  st.local.u32 [%a2], %r1;
  st.shared.u32 [buffer+16], %r1;
  bar.sync 0;
  ld.shared.u32 %r2, [buffer+16];
  ld.local.u32 %r3, [%a2];
  add.u32 %r2, %r2, %r3;
  st.global.u32 [%a1], %r2;
  ret;
}}
.visible .entry second() {{ ret; }}
"""
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


@pytest.fixture(scope="module", params=TARGETS)
def made(request):
    gpu = target(request.param)
    return gpu, ptxas.assemble(PTX.format(target=gpu.ptx_target), gpu.ptx_target, host_object=b"host bytes")


def test_figures_are_those_that_ptxas_reports(made):
    gpu, assembled = made
    read = read_cubin(assembled.cubin)
    assert read.architecture == gpu.number
    assert set(read.kernels) == {"first", "second"}
    for name, kernel in read.kernels.items():
        report = assembled.kernels[name]
        assert (kernel.registers, kernel.frame) == (report.registers, report.stack_frame)
        assert kernel.shared - report.shared in (0, 1024)
        assert kernel.code_size > 0
    assert read.kernels["first"].frame >= 64


def test_parameters_have_their_offsets_and_sizes(made):
    kernels = read_cubin(made[1].cubin).kernels
    expected = [(0, 0, 8), (1, 8, 1), (2, 16, 8), (3, 24, 4)]
    assert kernels["first"].parameters == tuple(CubinParameter(*p) for p in expected)
    assert kernels["second"].parameters == ()


def test_threads_and_host_object(made):
    read = read_cubin(made[1].cubin)
    assert (read.kernels["first"].threads, read.kernels["second"].threads) == ((64, 2, 1), None)
    assert read.host_object == b"host bytes"
    assert read.sections[".text.first"] == read.kernels["first"].code_size


def test_a_count_of_sections_that_the_first_one_has_is_read(made):
    """As files have it whose sections are more than 16 bits can count."""
    good = bytearray(made[1].cubin)
    (start,), (count, names) = struct.unpack_from("<Q", good, 40), struct.unpack_from("<HH", good, 60)
    struct.pack_into("<HH", good, 60, 0, 0xFFFF)
    struct.pack_into("<QI", good, start + 32, count, names)
    assert read_cubin(bytes(good)) == read_cubin(made[1].cubin)


def test_what_is_a_cubin_has_its_header_and_its_sections(made):
    good = made[1].cubin
    assert cubin.is_cubin(good)
    of_host = good[:18] + (62).to_bytes(2, "little") + good[20:]
    no_sections = good[:40] + bytes(8) + good[48:60] + bytes(4) + good[64:]
    for bad in (b"", good[:4], good[:64], good[: len(good) // 2], of_host, no_sections):
        assert not cubin.is_cubin(bad)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an ELF file"),
        (b"\x7fELF" + bytes(60), "not a little-endian 64-bit ELF file"),
        (b"\x7fELF\x02\x01" + bytes(58), "for machine 0"),
    ],
)
def test_other_files_are_refused(data, message):
    with pytest.raises(CubinError, match=message):
        read_cubin(data)


def test_damaged_files_are_refused_or_read_but_never_a_traceback(made):
    good = made[1].cubin
    whole = 0
    for cut in range(0, len(good), 97):
        try:
            assert read_cubin(good[:cut]) == read_cubin(
                good
            )  # only the program headers are gone, which it leaves alone
        except CubinError:
            whole = cut
    assert whole > len(good) // 2
    numbers = random.Random(5)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(3):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        try:
            read_cubin(bytes(data))
        except CubinError:
            refused += 1
    assert 0 < refused < 400


def test_an_older_abi_is_refused(made):
    data = bytearray(made[1].cubin)
    data[8] = 7
    with pytest.raises(CubinError, match="ABI version 7"):
        cubin.read_cubin(bytes(data))
