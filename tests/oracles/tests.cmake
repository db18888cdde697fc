# What other programs computed, against what we compute.
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME oracles.transformers COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/oracles/check_transformers.py $<TARGET_FILE:mlxcel-server>
    ${CMAKE_CURRENT_SOURCE_DIR}/oracles/transformers.json)
  set_tests_properties(oracles.transformers PROPERTIES LABELS slow TIMEOUT 600
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endif()
