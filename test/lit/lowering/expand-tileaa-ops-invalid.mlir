// What cannot be expanded is refused where it stands.
// RUN: cuda-tile-opt --expand-tileaa-ops -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @given(%m: !nv_tileaa.memref<?xf32, 1>, %i: index) {
  // expected-error @+1 {{'nv_tileaa.load' op accesses a memref of which it is not known where it is made (types: !nv_tileaa.memref<?xf32, 1>, index, f32)}}
  %x = nv_tileaa.load %m[%i] : !nv_tileaa.memref<?xf32, 1>, index -> f32
  nv_tileaa.return
}

// -----

nv_tileaa.func @loop() {
  %g = nv_tileaa.generate ({
  ^bb0(%i: index):
    // expected-error @+1 {{'nv_tileaa.get_program_id' op stands in a 'nv_tileaa.generate', whose region can be made of elementwise ops and loads (types: index)}}
    %c = nv_tileaa.get_program_id {axis = 0} : index
    nv_tileaa.yield %c : index
  }) : tile<4xindex>
  nv_tileaa.return
}
