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
  add_test(NAME cli.expensive COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/expensive.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.expensive PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.limits COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/limits.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.limits PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.streams COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/streams.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.streams PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.embeddings COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/embeddings.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.embeddings PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
foreach(name files sizes signals slot_files)
  if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
    add_test(NAME cli.${name} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
    set_tests_properties(cli.${name} PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
  endif()
endforeach()
# These serve the model that comes with the project.
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  foreach(test fingerprint backend_sampling)
    add_test(NAME cli.${test} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/cli/${test}.py $<TARGET_FILE:mlxcel-server>
      ${CMAKE_SOURCE_DIR}/models/tale)
  endforeach()
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel)
  add_test(NAME cli.bench COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/bench.py $<TARGET_FILE:mlxcel>)
  set_tests_properties(cli.bench PROPERTIES LABELS slow TIMEOUT 300)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.answers COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/answers.py $<TARGET_FILE:mlxcel-server>
    ${CMAKE_SOURCE_DIR}/models ${MLXCEL_SHARED})
  set_tests_properties(cli.answers PROPERTIES TIMEOUT 300)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.field_effects COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/field_effects.py $<TARGET_FILE:mlxcel-server>
    ${CMAKE_SOURCE_DIR}/models ${CMAKE_CURRENT_SOURCE_DIR}/conformance/inventory.json)
  set_tests_properties(cli.field_effects PROPERTIES LABELS slow TIMEOUT 600)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.body_members COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/body_members.py $<TARGET_FILE:mlxcel-server>
    ${CMAKE_SOURCE_DIR})
  set_tests_properties(cli.body_members PROPERTIES LABELS slow TIMEOUT 600)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.by_design COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/by_design.py $<TARGET_FILE:mlxcel-server>
    ${CMAKE_SOURCE_DIR}/models)
  set_tests_properties(cli.by_design PROPERTIES TIMEOUT 300)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.calls COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/calls.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.calls PROPERTIES TIMEOUT 300)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME cli.failures COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/failures.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.failures PROPERTIES TIMEOUT 300)
endif()
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server AND NOT MLXCEL_SANITIZE)
  # Sanitizers keep freed memory on purpose.
  add_test(NAME cli.memory COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/cli/memory.py $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED})
  set_tests_properties(cli.memory PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
