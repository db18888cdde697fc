# What people read in their first hour: mistakes, odd but right uses, and the log.
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server)
  add_test(NAME first_hour.cases COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/first_hour/check.py $<TARGET_FILE:mlxcel-server>
    $<TARGET_FILE:mlxcel> ${CMAKE_SOURCE_DIR}/models)
  set_tests_properties(first_hour.cases PROPERTIES LABELS slow TIMEOUT 600
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
  add_test(NAME first_hour.documents COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/first_hour/documents.py $<TARGET_FILE_DIR:mlxcel-server>
    ${CMAKE_SOURCE_DIR})
  set_tests_properties(first_hour.documents PROPERTIES LABELS slow TIMEOUT 600
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endif()
