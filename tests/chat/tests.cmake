# The renderings as Debian's python3-jinja2 makes them.
if(Python3_Interpreter_FOUND)
  add_test(NAME chat.jinja2
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/chat/jinja2_check.py ${MLXCEL_SHARED})
  set_tests_properties(chat.jinja2 PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
# A hundred thousand combinations.
set_tests_properties(unit.chat.sweep PROPERTIES LABELS slow)
