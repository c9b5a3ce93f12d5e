# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the CUDA corpus covers: each kind of instruction that the simulator is for must occur in compiled PTX.

`WANTED` names instructions by regular expressions over opcodes with their modifiers, as PTX spells them. What nvcc and
inline assembly cannot bring into the corpus is in `COVERED_BY_UNIT_TEST`, with the test file that runs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .cuda_cases.table import Source
from .cuda_corpus import CASES, SOURCES
from .nvcc import LEVELS

pytestmark = pytest.mark.slow
"""The whole corpus is compiled for all targets, and all its PTX is parsed."""


def expand(pattern: str) -> list[str]:
    """'{a,b}.{c,d}' to its products; every other character is itself."""
    match = re.search(r"\{([^}]*)\}", pattern)
    if match is None:
        return [pattern]
    return [
        name
        for part in match.group(1).split(",")
        for name in expand(pattern[: match.start()] + part + pattern[match.end() :])
    ]


#: By the groups of the deliverable. A trailing '*' stands for any further modifiers.
WANTED = {
    "integer arithmetic": [
        "add.{s16,u16x2,s32,s64}", "sub.{u16,s32,s64}", "mul.lo.{s16,s32,s64}", "mul.hi.{s16,u16,s32,u32,s64,u64}",
        "mul.wide.{s16,u16,s32,u32}", "mul24.*", "mad.lo.{u16,s32,s64}", "mad.hi.{s32,u32,u64,sat.s32}",
        "mad.wide.{s16,s32,u32}", "mad24.{lo.s32,hi.u32}", "sad.{s32,u32,s64}", "div.{s16,s32,u32,s64,u64}",
        "rem.{u16,s32,u32,s64,u64}", "abs.{s16,s32,s64}", "neg.{s16,s32,s64}",
        "{min,max}.{s32,u32,s64,u64}", "min.s16", "max.u16", "{add,sub}.sat.s32", "max.relu.s32", "min.relu.s16x2",
        "add.cc.{s32,u64}", "addc.{u64,s32}", "addc.cc.u64", "sub.cc.u64", "subc.{u64,cc.u64}",
        "mad.lo.cc.u32", "madc.hi.{u32,cc.u32}", "dp4a.{s32.s32,u32.u32,s32.u32,u32.s32}",
        "dp2a.{lo,hi}.{s32.s32,u32.u32}",
    ],
    "bit operations": [
        "{and,or,xor}.{pred,b16,b32,b64}", "not.{pred,b16,b32}", "cnot.{b32,b64}", "lop3.b32",
        "shl.{b16,b32,b64}", "shr.{s16,u16,s32,u32,s64,u64}", "shf.{l,r}.{wrap,clamp}.b32",
        "popc.{b32,b64}", "clz.{b32,b64}", "brev.{b32,b64}", "bfind.{u32,s32,u64,s64}", "bfind.shiftamt.{u32,s64}",
        "bfe.{u32,s32,u64,s64}", "bfi.{b32,b64}", "bmsk.{clamp,wrap}.b32", "szext.{clamp.s32,wrap.u32}", "fns.b32",
        "prmt.b32", "prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16}",
    ],
    "video": [
        "vadd.s32.u32.s32.sat", "vsub.u32.u32.u32.sat", "vabsdiff.u32.s32.s32.add", "vmin.s32.s32.s32",
        "vmax.u32.u32.u32.min", "vshl.u32.u32.u32.wrap", "vshr.s32.s32.u32.clamp", "vmad.s32.s32.s32.shr7",
        "vset.u32.u32.ge.add", "vadd2.s32.s32.s32.sat", "vavrg4.u32.u32.u32", "vset4.u32.u32.gt", "vabsdiff4*",
    ],
    "floating point": [
        "{add,sub,mul}.{rn,rz,rm,rp}.f32", "fma.{rn,rz,rm,rp}.f32", "div.{rn,rz,rm,rp}.f32", "rcp.{rn,rz,rm,rp}.f32",
        "sqrt.{rn,rz,rm,rp}.f32", "{add,sub,mul}.{rn,rz,rm,rp}.f64", "fma.{rn,rz,rm,rp}.f64",
        "div.{rn,rz,rm,rp}.f64", "rcp.{rn,rz,rm,rp}.f64", "sqrt.{rn,rz,rm,rp}.f64",
        "add.ftz.f32", "mul.rm.ftz.f32", "fma.rn.ftz.f32", "add.sat.f32", "sub.ftz.sat.f32", "fma.rn.sat.f32",
        "{min,max}.f32", "{min,max}.NaN.f32", "{min,max}.f64", "min.xorsign.abs.f32", "abs.f32", "neg.f32", "abs.f64",
        "neg.f64", "copysign.{f32,f64}",
        "testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "testp.finite.f64",
        "{add,sub,mul}.f16", "{add,sub,mul}.f16x2", "fma.rn.{f16,f16x2,bf16,bf16x2}",
        "fma.rn.relu.{f16,f16x2,bf16,bf16x2}", "{add,mul}.sat.f16", "fma.rn.ftz.f16",
        "{min,max}.{f16,f16x2,bf16,bf16x2}", "{min,max}.NaN.{f16,f16x2,bf16,bf16x2}",
        "{neg,abs}.{f16,f16x2,bf16,bf16x2}",
        "add.rn.bf16", "mul.rn.bf16", "mul.bf16x2",
    ],
    "comparison and selection": [
        "setp.{eq,ne,lt,le,gt,ge}.s32", "setp.{lo,ls,hi,hs}.u32", "setp.{gt}.{and,or}.s32", "setp.gt.xor.u32",
        "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32", "setp.{lt,geu,nan}.f64", "setp.lt.ftz.f32",
        "setp.{eq,lt,equ,ltu}.f16", "set.lt.u32.s32", "set.ge.f32.u32", "set.lt.f16x2.f16x2",
        "selp.{b32,b64,f32}", "slct.{s32.s32,u32.f32}",
    ],
    "conversion": [
        "cvt.{rni,rzi,rmi,rpi}.{s8,u8,s16,u16,s32,u32,s64,u64}.{f16,f32,f64}",
        "cvt.{rn,rz,rm,rp}.{f16,f32,f64}.{s8,u8,s16,u16,s32,u32,s64,u64}",
        "cvt.{s8.s32,s16.s8,s64.s8,u64.u8,s32.u16,u32.s16,u64.s32,s32.s64}",
        "cvt.sat.{s8.s32,u8.s32,s16.s64,u16.u64,s32.u32,u32.s32,s32.s64,s64.u64,u64.s64}",
        "cvt.{rn,rz,rm,rp}.f32.f64", "cvt.{rn,rz,rm,rp}.f16.f32", "cvt.{rn,rz}.bf16.f32", "cvt.f64.f32", "cvt.f32.f16",
        "cvt.{rn,rz,rn.relu}.f16x2.f32", "cvt.{rn,rz,rz.relu}.bf16x2.f32", "cvt.{rni,rzi,rmi,rpi}.f32.f32",
        "cvt.sat.f32.f32", "cvt.{rna,rn,rz}.tf32.f32", "cvt.pack.sat.{s16.s32,u16.s32}",
        "cvt.pack.sat.{s8,u8,s4,u4,s2,u2}.s32.b32", "cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32",
        "cvt.rn.satfinite.relu.{e4m3x2,e5m2x2}.f32", "cvt.rn.satfinite.{e4m3x2,e5m2x2}.f16x2",
        "cvt.rn.f16x2.{e4m3x2,e5m2x2}", "cvt.rn.satfinite.{e2m1x2,e2m3x2,e3m2x2}.f32", "cvt.rz.ue8m0x2.f32",
        "cvt.rn.f16x2.{e2m1x2,e2m3x2,e3m2x2}", "cvt.rn.bf16x2.ue8m0x2", "cvt.f32.bf16", "cvt.rzi.s32.bf16",
        "mov.{b32,b64,u32,u64,f32,f64,pred}",
    ],
    "approximations": [
        "{ex2,lg2,rcp,rsqrt,sqrt,sin,cos}.approx.f32", "{ex2,lg2,rcp,rsqrt,sqrt,sin}.approx.ftz.f32",
        "{tanh}.approx.{f32,f16,f16x2,bf16,bf16x2}", "ex2.approx.{f16,f16x2}", "ex2.approx.ftz.{bf16,bf16x2}",
        "div.{approx,full}.f32", "{rcp,rsqrt}.approx.ftz.f64",
    ],
    "memory": [
        "ld.{global,shared,local,const}*", "st.{global,shared,local}*", "ld.param*", "st.param*", "ld.u32", "st.u32",
        "ld.global.v4.f32", "ld.global.v2.{u32,f64,u64}", "ld.global.v4.u8", "ld.global.v2.u16", "st.global.v4.f32",
        "ld.global.nc*", "ld.global.{ca,cg,cs,cv,lu}.u32", "st.global.{wb,cg,cs,wt}.u32", "ld.volatile.global*",
        "ld.relaxed.gpu.global.u32", "ld.acquire.sys.global.u32", "st.release.gpu.global.u32", "ld.weak.global.u32",
        "ld.global.nc.L1::no_allocate*", "ld.global.L1::evict_last*", "prefetch.global.{L1,L2}", "prefetchu.L1",
        "cvta.to.{global,shared}.u64", "cvta.{local,shared}.u64", "isspacep.{global,shared,local,const}",
        "ld.shared.v4.u32", "ld.{u8,u16}", "ld.global.{s8,u8,s16,u16}", "st.global.u8", "st.v4.*",
        "fence.{acq_rel.gpu,sc.cta}", "membar.{gl,cta,sys}",
    ],
    "atomics": [
        "atom{,.global}.{add.u32,add.u64,min.s32,max.s32,min.u32,max.u32,and.b32,or.b32,xor.b32}",
        "atom.{min.s64,max.s64,min.u64,max.u64,and.b64,or.b64,xor.b64}", "atom.{inc,dec}.u32", "atom.exch.b32",
        "atom.cas.{b16,b32}", "atom.global.{exch,cas}.b64", "atom.global.exch.b128", "atom.*.cas.b128",
        "atom.add.{f32,f64}", "atom.add.noftz.{f16,f16x2,bf16}",
        "atom.{relaxed,acquire,release,acq_rel}*", "atom.{cta,sys}.*",
        "atom.shared*", "red.shared*", "red.global.add.noftz.{f16,f16x2}", "red.{relaxed,release}*",
        "red.global.add.v4.f32", "atom.global.add.v2.f32", "atom.relaxed.cluster.*",
    ],
    "control": [
        "bra", "bra.uni", "brx.idx", "call*", "call.uni", "ret", "exit", "trap",
    ],
    "warps and barriers": [
        "shfl.sync.{up,down,bfly,idx}.b32", "vote.sync.{any,all,uni}.pred", "vote.sync.ballot.b32",
        "match.{any,all}.sync.{b32,b64}", "redux.sync.{add,min,max}.{s32,u32}", "redux.sync.{and,or,xor}.b32",
        "activemask.b32", "elect.sync", "bar.sync", "bar.arrive", "bar.red.{popc.u32,and.pred,or.pred}",
        "barrier.sync", "barrier.sync.aligned", "barrier.cta.sync.aligned", "barrier.red.popc.aligned.u32",
        "bar.warp.sync", "nanosleep.u32",
    ],
    "matrices": [
        "mma.sync.aligned.m16n8{k8,k16}.row.col.{f16.f16.f16.f16,f32.f16.f16.f32,f32.bf16.bf16.f32}",
        "mma.sync.aligned.m16n8{k4,k8}.row.col.f32.tf32.tf32.f32", "mma.sync.aligned.m8n8k4.row.col.{f64.f64.f64.f64}",
        "mma.sync.aligned.m16n8{k4,k8,k16}.row.col.f64.f64.f64.f64", "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32",
        "mma.sync.aligned.m16n8{k16,k32}.row.col.s32.s8.s8.s32", "mma.sync.aligned.m16n8k32.row.col.s32.u8.{s8,u8}.s32",
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m16n8{k32,k64}.row.col.s32.s4.s4.s32", "mma.sync.aligned.m16n8k64.row.col.s32.u4.u4.s32",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{and,xor}.popc",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{and,xor}.popc",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3.e4m3,e5m2.e5m2,e4m3.e5m2}.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16",
        "wmma.load.{a,b}.sync.aligned.{row,col}.m16n16k16*", "wmma.load.c.sync.aligned.{row,col}*",
        "wmma.mma.sync.aligned.{row.col,col.row}.m16n16k16*", "wmma.mma.sync.aligned.row.row.m32n8k16*",
        "wmma.mma.sync.aligned.col.col.m8n32k16*", "wmma.mma.*m16n16k8*", "wmma.mma.*m8n8k32*", "wmma.mma.*m8n8k128*",
        "wmma.mma.*m8n8k4*", "wmma.store.d.sync.aligned.{row,col}*",
        "ldmatrix.sync.aligned.m8n8.{x1,x2,x4}.shared.b16", "ldmatrix.sync.aligned.m8n8.{x1,x2,x4}.trans.shared.b16",
        "stmatrix.sync.aligned.m8n8.{x1,x2,x4}.shared.b16", "stmatrix.sync.aligned.m8n8.{x1,x2,x4}.trans.shared.b16",
        "movmatrix.sync.aligned.m8n8.trans.b16",
    ],
    "asynchronous copies": [
        "cp.async.{ca,cg}.shared.global", "cp.async.ca.shared.global.L2::128B", "cp.async.commit_group",
        "cp.async.wait_group", "cp.async.wait_all",
    ],
    "sm_90 and later": [
        "mbarrier.{init,inval,arrive,test_wait}.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64",
        "mbarrier.arrive.expect_tx.shared::cta.b64", "mbarrier.pending_count.b64",
        "fence.mbarrier_init.release.cluster",
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64", "fence.proxy.async.shared::cta",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "cp.async.bulk.global.shared::cta.bulk_group", "cp.async.bulk.{commit_group,wait_group}",
        "barrier.cluster.{arrive,wait}.aligned", "barrier.cluster.arrive.release.aligned",
        "barrier.cluster.wait.acquire.aligned", "mapa.shared::cluster.u32", "ld.shared::cluster.u32",
        "red.relaxed.cluster.shared::cluster.add.u32", "griddepcontrol.{wait,launch_dependents}",
        "{add.rn,sub.rz,mul.rp,fma.rn.ftz}.f32x2", "{ld,st}.global.v8.b32", "redux.sync.min.f32",
        "mma.sync.aligned.kind::f8f6f4.*", "mma.sync.*kind::mxf8f6f4.block_scale*", "mma.sync.*kind::mxf4.block_scale*",
    ],
}  # fmt: skip

#: Special registers, and directives beyond those of every file.
REGISTERS = [
    *expand("{tid,ntid,ctaid,nctaid,laneid,warpid,nwarpid,smid,nsmid,clock64,globaltimer}"),
    *expand("lanemask_{eq,le,lt,ge,gt}"),
    *expand("{dynamic,total}_smem_size"),
    *expand("{clusterid,nclusterid,cluster_ctaid,cluster_nctaid,cluster_ctarank,cluster_nctarank,is_explicit_cluster}"),
]
DIRECTIVES = [
    *expand(".{const,global,shared,local,param,reg,align,func,extern,weak,visible,entry,file,loc,section,pragma}"),
    *expand(".{maxntid,minnctapersm,explicitcluster,reqnctapercluster,branchtargets,callprototype}"),
]

#: Instructions of the deliverable that no kernel of the corpus has, and the file in this directory that tests them.
COVERED_BY_UNIT_TEST: dict[str, str] = {}


def opcodes(text: str) -> set[str]:
    """All opcodes of a PTX file, with their modifiers."""
    code = re.sub(r"//[^\n]*", "", text)
    statements = re.sub(r"([;{}])", r"\1\n", code).splitlines()
    found = set()
    for statement in statements:
        match = re.match(r"\s*(?:[\w$]+:\s*)?(?:@!?[%$\w]+\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)(?=[\s;])", statement)
        if match:
            found.add(match.group(1))
    return found


@pytest.fixture(scope="module")
def texts(corpus_ptx: Callable[[Source, str, str], Path]) -> list[str]:
    """The PTX of every build of the corpus."""
    builds = [(source, arch, level) for source in SOURCES for arch in source.archs for level in LEVELS]
    return [corpus_ptx(*build).read_text() for build in builds]


@pytest.fixture(scope="module")
def seen(texts: list[str]) -> set[str]:
    """The opcodes of every build of the corpus."""
    return set().union(*map(opcodes, texts))


def occurs(name: str, seen: set[str]) -> bool:
    if "*" not in name:
        return name in seen
    pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
    return any(pattern.fullmatch(opcode) for opcode in seen)


@pytest.mark.parametrize("group", WANTED)
def test_every_wanted_instruction_occurs_in_the_corpus_or_has_a_unit_test(group: str, seen: set[str]) -> None:
    names = [name for pattern in WANTED[group] for name in expand(pattern)]
    assert [name for name in names if not occurs(name, seen) and name not in COVERED_BY_UNIT_TEST] == []


def test_special_registers_and_directives_occur_in_the_corpus(texts: list[str]) -> None:
    words = set().union(*(re.findall(r"[%.][a-z]\w*", text) for text in texts))
    assert [name for name in REGISTERS if f"%{name}" not in words] == []
    assert [name for name in DIRECTIVES if name not in words] == []


def test_instructions_left_to_unit_tests_are_in_the_files_that_are_named(seen: set[str]) -> None:
    for name, file in COVERED_BY_UNIT_TEST.items():
        assert name in (Path(__file__).parent / file).read_text(), f"{file} does not run {name}"
        assert not occurs(name, seen), f"{name} is in the corpus now: take it out of the table"


def test_every_kernel_of_the_sources_is_in_the_table(corpus_ptx: Callable[[Source, str, str], Path]) -> None:
    for source in SOURCES:
        text = corpus_ptx(source, source.archs[0], "O3").read_text()
        compiled = set(re.findall(r"\.visible \.entry (\w+)\(", text))
        assert compiled == {case.entry for case in CASES if case.source == source}
