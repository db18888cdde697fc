# The kernels' tests once more on each lesser instruction set: on a machine
# without the one named, MLXCEL_ISA falls back to what there is.
foreach(isa generic avx2)
  foreach(test format matmul attention rows)
    if(TARGET unit_kernels_${test})
      add_test(NAME kernels.${test}.${isa} COMMAND unit_kernels_${test})
      set_tests_properties(kernels.${test}.${isa} PROPERTIES
        ENVIRONMENT "MLXCEL_SHARED=${MLXCEL_SHARED};MLXCEL_ISA=${isa}" SKIP_RETURN_CODE 77)
    endif()
  endforeach()
  # Whole models too: that a result does not depend on threads, batch or company.
  if(TARGET unit_model_company)
    add_test(NAME kernels.company.${isa} COMMAND unit_model_company)
    set_tests_properties(kernels.company.${isa} PROPERTIES LABELS slow TIMEOUT 600
      ENVIRONMENT "MLXCEL_SHARED=${MLXCEL_SHARED};MLXCEL_ISA=${isa}" SKIP_RETURN_CODE 77)
  endif()
endforeach()

# ... and on AArch64, cross-compiled and emulated.
add_test(NAME kernels.aarch64 COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/kernels/aarch64/run.sh
  ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/kernels-aarch64)
set_tests_properties(kernels.aarch64 PROPERTIES LABELS slow TIMEOUT 900 SKIP_RETURN_CODE 77)
