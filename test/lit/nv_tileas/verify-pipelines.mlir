// Pipelines: regions, tokens, consumers.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!pipe = !nv_tileas.pipeline<3, (tile<4xf32>)>
!iterator = !nv_tileas.pipeline_iterator<!pipe>
!produced = !nv_tileas.producer_token<(tile<4xf32>)>
!consumed = !nv_tileas.consumer_token<(tile<4xf32>)>

nv_tileaa.func @regions_end(%pipe: !pipe, %it: !iterator) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.produce_one' op expects regions to end with 'nv_tileas.async.pipeline.yield'}}
  nv_tileas.async.pipeline.produce_one %pipe, %it ({ nv_tileaa.yield }) : !pipe, !iterator
  nv_tileas.async.pipeline.produce_one %pipe, %it ({ nv_tileas.async.pipeline.yield }) : !pipe, !iterator
  nv_tileaa.return
}

nv_tileaa.func @consumer_idx_identify_consumer_group_1_1(%pipe: !pipe, %it: !iterator) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.consumer_wait' op expects consumer_idx to identify a consumer in a group of 1, but got 1}}
  %taken_bad = nv_tileas.async.pipeline.consumer_wait %pipe, %it {consumer_idx = 1} : !pipe, !iterator -> !consumed
  %taken_good = nv_tileas.async.pipeline.consumer_wait %pipe, %it {consumer_idx = 0} : !pipe, !iterator -> !consumed
  nv_tileaa.return
}

nv_tileaa.func @producer_region_arguments_have_element_types_carried(%it: !iterator, %pt: !produced, %pt2: !produced) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_write' op expects producer region arguments to have the element types carried by the producer token}}
  %taken_bad = nv_tileas.async.pipeline.producer_write %pt, %it ({
  ^bb0(%x: tensor<8xf32>):
    nv_tileas.async.pipeline.yield
  }) : !produced, !iterator
    -> !produced
  %taken_good = nv_tileas.async.pipeline.producer_write %pt2, %it ({
  ^bb0(%x: tensor<4xf32>):
    nv_tileas.async.pipeline.yield
  }) : !produced, !iterator
    -> !produced
  nv_tileas.async.pipeline.producer_commit %taken_good : !produced
  nv_tileaa.return
}

nv_tileaa.func @consumer_region_arguments_have_element_types_carried(%it: !iterator, %ct: !consumed) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.consumer_read' op expects consumer region arguments to have the element types carried by the consumer token}}
  %taken_bad = nv_tileas.async.pipeline.consumer_read %ct, %it ({
  ^bb0(%x: tensor<8xf32>):
    nv_tileas.async.pipeline.yield
  }) : !consumed, !iterator
    -> !consumed
  %taken_good = nv_tileas.async.pipeline.consumer_read %ct, %it ({
  ^bb0(%x: tensor<4xf32>):
    nv_tileas.async.pipeline.yield
  }) : !consumed, !iterator
    -> !consumed
  nv_tileaa.return
}

nv_tileaa.func @region_result_types_match_operation_result_types(%it: !iterator, %pt: !produced, %pt2: !produced) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_write' op expects region result types to match the operation result types}}
  %taken_bad = nv_tileas.async.pipeline.producer_write %pt, %it ({
  ^bb0(%x: tensor<4xf32>):
    nv_tileas.async.pipeline.yield %x : tile<4xf32>
  }) : !produced, !iterator
    -> !produced
  %taken_good = nv_tileas.async.pipeline.producer_write %pt2, %it ({
  ^bb0(%x: tensor<4xf32>):
    nv_tileas.async.pipeline.yield
  }) : !produced, !iterator
    -> !produced
  nv_tileas.async.pipeline.producer_commit %taken_good : !produced
  nv_tileaa.return
}

nv_tileaa.func @iterator_of_another_pipeline(%pipe: !pipe) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_iterator' op expects an iterator of !nv_tileas.pipeline<3, (tile<4xf32>)>, but got}}
  %bad = nv_tileas.async.pipeline.create_iterator %pipe
    : !pipe -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>)>>
  %good = nv_tileas.async.pipeline.create_iterator %pipe : !pipe -> !iterator
  nv_tileaa.return
}

nv_tileaa.func @branch(%c: i1, %it: !iterator) {
  %r = "scf.if"(%c) ({
    "scf.yield"(%it) : (!iterator) -> ()
  }, {
    "scf.yield"(%it) : (!iterator) -> ()
  }) : (i1) -> !iterator
  nv_tileaa.return
}

// expected-error @+1 {{'nv_tileaa.func' op expects values yielded from both arms of a branch to have the types of its results}}
nv_tileaa.func @branch_of_two_meanings(%c: i1, %it: !iterator,
    %other: !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>)>>) {
  %r = "scf.if"(%c) ({
    "scf.yield"(%it) : (!iterator) -> ()
  }, {
    "scf.yield"(%other) : (!nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>)>>) -> ()
  }) : (i1) -> !iterator
  nv_tileaa.return
}
