# A miniature of every family of embedders and rankers, as GGUF and as a folder.
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME embedders.families COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/embedders/check.py $<TARGET_FILE:mlxcel-server>
    ${CMAKE_CURRENT_SOURCE_DIR}/embedders/vectors.json)
  set_tests_properties(embedders.families PROPERTIES LABELS slow TIMEOUT 300
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endif()
