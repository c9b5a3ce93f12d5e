// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout --tileas-allocate-shared-memory --tileas-insert-shared-barriers | FileCheck %s

#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#warps = #nv_tileas.layout<register=[], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 128>
#words = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>
!x = tensor<128xf32, #lanes>
!y = tensor<128xf32, #warps>
!b = !nv_tileas.buffer<128xf32, shared, #words>
!ring = !nv_tileas.pipeline<3, (!b)>
!place = !nv_tileas.pipeline_iterator<!ring>
!filling = !nv_tileas.producer_token<(!b)>
!held = !nv_tileas.consumer_token<(!b)>
!queue = !nv_tileas.pipeline<2, (!b), mbarrier>
!turn = !nv_tileas.pipeline_iterator<!queue>

// Turns in front of the loop fill the first stages, and those in it any: what is exchanged in front of it lies in the
// last one, and no barrier is needed before the first turns; behind the loop it lies at the begin.
// CHECK-LABEL: nv_tileaa.func @filled_last
// CHECK-SAME:  shared_bytes = 1536
// CHECK:       convert_layout {{.*}}exchanges<[1024 : 512]>
// CHECK-NOT:   nv_tileas.barrier
// CHECK:       scf.for
// CHECK:       nv_tileas.barrier
// CHECK:       producer_acquire
// CHECK:       convert_layout {{.*}}exchanges<[meet 0 : 512]>
nv_tileaa.func @filled_last(%x: !x) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ten = arith.constant 10 : i32
  %before = nv_tileas.convert_layout %x : !x -> !y
  %p = nv_tileas.async.pipeline.create_pipeline : !ring
  %i0 = nv_tileas.async.pipeline.create_iterator %p : !ring -> !place
  %t0 = nv_tileas.async.pipeline.producer_acquire %p, %i0 : !ring, !place -> !filling
  %i1 = nv_tileas.async.pipeline.inc_iter %i0 : !place -> !place
  %t1 = nv_tileas.async.pipeline.producer_acquire %p, %i1 : !ring, !place -> !filling
  %i2 = nv_tileas.async.pipeline.inc_iter %i1 : !place -> !place
  %end:2 = scf.for %n = %zero to %ten step %one iter_args(%r = %i0, %w = %i2) -> (!place, !place) : i32 {
    %h = nv_tileas.async.pipeline.consumer_wait %p, %r : !ring, !place -> !held
    %t2 = nv_tileas.async.pipeline.producer_acquire %p, %w : !ring, !place -> !filling
    %read:2 = nv_tileas.async.pipeline.consumer_read %h, %r ({
    ^bb0(%stage: !b):
      %y = nv_tileas.copy %stage : !b -> !y
      nv_tileas.async.pipeline.yield %y : !y
    }) : !held, !place -> !held, !y
    %r1 = nv_tileas.async.pipeline.inc_iter %r : !place -> !place
    %w1 = nv_tileas.async.pipeline.inc_iter %w : !place -> !place
    scf.yield %r1, %w1 : !place, !place
  }
  %behind = nv_tileas.convert_layout %x : !x -> !y
  nv_tileaa.return
}

// A turn at each stage in front of the loop leaves no stage free.
// CHECK-LABEL: nv_tileaa.func @all_filled
// CHECK-SAME:  shared_bytes = 2048
// CHECK:       create_pipeline {shared_offset = 0}
// CHECK:       convert_layout {{.*}}exchanges<[1536 : 512]>
nv_tileaa.func @all_filled(%x: !x) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %p = nv_tileas.async.pipeline.create_pipeline : !ring
  %i0 = nv_tileas.async.pipeline.create_iterator %p : !ring -> !place
  %t0 = nv_tileas.async.pipeline.producer_acquire %p, %i0 : !ring, !place -> !filling
  %i1 = nv_tileas.async.pipeline.inc_iter %i0 : !place -> !place
  %t1 = nv_tileas.async.pipeline.producer_acquire %p, %i1 : !ring, !place -> !filling
  %i2 = nv_tileas.async.pipeline.inc_iter %i1 : !place -> !place
  %t2 = nv_tileas.async.pipeline.producer_acquire %p, %i2 : !ring, !place -> !filling
  %before = nv_tileas.convert_layout %x : !x -> !y
  %h = nv_tileas.async.pipeline.consumer_wait %p, %i0 : !ring, !place -> !held
  nv_tileaa.return
}

// Barrier objects are storage of their own, behind what must be aligned; so are the stages of each queue. Nothing is done
// with them, for which threads would have to meet.
// CHECK-LABEL: nv_tileaa.func @objects
// CHECK-SAME:  shared_bytes = 3120
// CHECK:       create_pipeline {alignment = 1024, barriers_offset = 3072, shared_offset = 0}
// CHECK:       create_pipeline {alignment = 1024, barriers_offset = 3104, shared_offset = 2048}
// CHECK-NOT:   nv_tileas.barrier
nv_tileaa.func @objects() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %p = nv_tileas.async.pipeline.create_pipeline {alignment = 1024 : i64} : !queue
  %q = nv_tileas.async.pipeline.create_pipeline {alignment = 1024 : i64} : !nv_tileas.pipeline<1, (!b), mbarrier>
  nv_tileaa.return
}

// Buffers of one agent that live one after the other share their place, and those of two agents never do. Behind the
// wait for what is stored from the first, another thread may not have come there.
// CHECK-LABEL: nv_tileaa.func @agents
// CHECK-SAME:  shared_bytes = 1024
// CHECK:       alloc_tensor {shared_offset = 0}
// CHECK:       alloc_tensor {shared_offset = 0}
// CHECK:       nv_tileas.barrier
// CHECK-NEXT:  nv_tileas.copy
// CHECK:       alloc_tensor {shared_offset = 512}
nv_tileaa.func @agents(%x: !x) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4, 4]} ({
    %first = nv_tileas.alloc_tensor : !b
    nv_tileas.copy %x, %first : !x, !b
    nv_tileas.barrier
    %y = nv_tileas.copy %first : !b -> !y
    %second = nv_tileas.alloc_tensor : !b
    nv_tileas.copy %y, %second : !y, !b
    nv_tileas.async.pipeline.yield
  }, {
    %third = nv_tileas.alloc_tensor : !b
    nv_tileas.copy %x, %third : !x, !b
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}
