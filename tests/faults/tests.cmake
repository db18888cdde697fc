# Memory that runs out, at every place: a preloaded library lets allocations of a
# running server fail. Every allocation of every kind of request: faults.py --full.
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server AND NOT MLXCEL_SANITIZE)
  add_library(mlxcel_faults MODULE ${CMAKE_CURRENT_SOURCE_DIR}/faults/shim.c)
  target_compile_definitions(mlxcel_faults PRIVATE _GNU_SOURCE)
  target_link_libraries(mlxcel_faults PRIVATE ${CMAKE_DL_LIBS})
  add_test(NAME faults.requests COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/faults/faults.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED}
    $<TARGET_FILE:mlxcel_faults>)
  set_tests_properties(faults.requests PROPERTIES LABELS slow TIMEOUT 1800 SKIP_RETURN_CODE 77)
endif()
