# What other programs computed, against what we compute.
if(Python3_FOUND)
  add_test(NAME oracles.transformers
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/check_transformers.py
      $<TARGET_FILE:mlxcel-server> ${CMAKE_CURRENT_LIST_DIR}/transformers.json)
endif()
