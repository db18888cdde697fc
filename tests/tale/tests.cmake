# The shipped models behind a running server. Nothing but the checkout is needed.
if(Python3_Interpreter_FOUND AND TARGET mlxcel-server AND TARGET tale)
  set(tale ${CMAKE_CURRENT_SOURCE_DIR}/tale)
  set(models ${CMAKE_SOURCE_DIR}/models)
  add_test(NAME tale.scores COMMAND ${Python3_EXECUTABLE} ${tale}/score.py
    $<TARGET_FILE:mlxcel-server> $<TARGET_FILE:tale> ${models}/tale 50)
  add_test(NAME tale.loop COMMAND ${Python3_EXECUTABLE} ${tale}/loop.py
    $<TARGET_FILE:mlxcel-server> ${models}/tale)
  add_test(NAME tale.pirate COMMAND sh ${tale}/pirate.sh $<TARGET_FILE:tale>
    $<TARGET_FILE:mlxcel-server> ${models} ${CMAKE_BINARY_DIR}/tale-pirate)
  # The same command makes the same bytes: all of the tokenizer, and the first
  # steps of a training.
  add_test(NAME tale.repeats COMMAND sh ${tale}/repeats.sh $<TARGET_FILE:tale> ${models}
    ${CMAKE_BINARY_DIR}/tale-repeats)
  set_tests_properties(tale.scores tale.loop tale.pirate tale.repeats PROPERTIES
    LABELS slow TIMEOUT 900)
  # ./run builds and serves from the folder "release" of $MLXCEL_BUILD.
  get_filename_component(preset ${CMAKE_BINARY_DIR} NAME)
  get_filename_component(all_builds ${CMAKE_BINARY_DIR} DIRECTORY)
  if(preset STREQUAL release)
    add_test(NAME tale.run COMMAND ${Python3_EXECUTABLE} ${tale}/run_check.py ${CMAKE_SOURCE_DIR})
    set_tests_properties(tale.run PROPERTIES LABELS slow TIMEOUT 300 RUN_SERIAL TRUE
      ENVIRONMENT "MLXCEL_BUILD=${all_builds}")
  endif()
endif()
