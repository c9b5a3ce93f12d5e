cuda_tile.module @kernels {
  entry @k(%arg0: tile<ptr<i32>>, %arg1: tile<i32>) {
    %cst_0_i32 = constant <i32: 0> : tile<i32> loc(#loc)
    %cst_1_i32 = constant <i32: 1> : tile<i32> loc(#loc)
    %0 = cmpi equal %arg1, %cst_0_i32, signed : tile<i32> -> tile<i1> loc(#loc)
    for %loopIdx in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
      for %loopIdx_0 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
        for %loopIdx_1 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
          for %loopIdx_2 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
            for %loopIdx_3 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
              for %loopIdx_4 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                for %loopIdx_5 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                  for %loopIdx_6 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                    for %loopIdx_7 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                      for %loopIdx_8 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                        for %loopIdx_9 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                          for %loopIdx_10 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                            for %loopIdx_11 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                              for %loopIdx_12 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                for %loopIdx_13 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                  for %loopIdx_14 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                    for %loopIdx_15 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                      for %loopIdx_16 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                        for %loopIdx_17 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                          for %loopIdx_18 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                            for %loopIdx_19 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                              for %loopIdx_20 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                for %loopIdx_21 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                  for %loopIdx_22 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                    for %loopIdx_23 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                      for %loopIdx_24 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                        for %loopIdx_25 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                          for %loopIdx_26 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                            for %loopIdx_27 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                              for %loopIdx_28 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                for %loopIdx_29 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                  for %loopIdx_30 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                    for %loopIdx_31 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                      for %loopIdx_32 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                        for %loopIdx_33 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                          for %loopIdx_34 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                            for %loopIdx_35 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                              for %loopIdx_36 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                                for %loopIdx_37 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                                  for %loopIdx_38 in (%cst_0_i32 to %arg1, step %cst_1_i32) : tile<i32> {
                                                                                    %1 = store_ptr_tko weak %arg0, %arg1 : tile<ptr<i32>>, tile<i32> -> token loc(#loc)
                                                                                  } loc(#loc)
                                                                                } loc(#loc)
                                                                              } loc(#loc)
                                                                            } loc(#loc)
                                                                          } loc(#loc)
                                                                        } loc(#loc)
                                                                      } loc(#loc)
                                                                    } loc(#loc)
                                                                  } loc(#loc)
                                                                } loc(#loc)
                                                              } loc(#loc)
                                                            } loc(#loc)
                                                          } loc(#loc)
                                                        } loc(#loc)
                                                      } loc(#loc)
                                                    } loc(#loc)
                                                  } loc(#loc)
                                                } loc(#loc)
                                              } loc(#loc)
                                            } loc(#loc)
                                          } loc(#loc)
                                        } loc(#loc)
                                      } loc(#loc)
                                    } loc(#loc)
                                  } loc(#loc)
                                } loc(#loc)
                              } loc(#loc)
                            } loc(#loc)
                          } loc(#loc)
                        } loc(#loc)
                      } loc(#loc)
                    } loc(#loc)
                  } loc(#loc)
                } loc(#loc)
              } loc(#loc)
            } loc(#loc)
          } loc(#loc)
        } loc(#loc)
      } loc(#loc)
    } loc(#loc)
    return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
