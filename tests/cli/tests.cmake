# The programs from the outside, and the table of options from the inside.
if(TARGET mlxcel-server)
  add_test(NAME cli.programs COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/cli/programs.sh
    $<TARGET_FILE:mlxcel> $<TARGET_FILE:mlxcel-server>)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel_api)
  add_test(NAME cli.readers COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/readers.py ${CMAKE_SOURCE_DIR}/src)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.serving COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/serving.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.serving PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.effects COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/effects.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.effects PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.fields COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/fields.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.fields PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.markers COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/markers.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.markers PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.embeddings COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/embeddings.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.embeddings PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel)
  add_test(NAME cli.bench COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/bench.py $<TARGET_FILE:mlxcel>)
  set_tests_properties(cli.bench PROPERTIES LABELS slow TIMEOUT 300)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server AND NOT MLXCEL_SANITIZE)
  # Sanitizers keep freed memory on purpose.
  add_test(NAME cli.memory COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/memory.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.memory PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
