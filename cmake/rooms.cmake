# mlxcel_room(NAME): the static library of src/NAME, made of every .c file
# there and in its folders. What else a room needs (libraries, per-file flags) stands in
# src/NAME/room.cmake, which sees the target as ${target}.
set(MLXCEL_ROOMS "" CACHE INTERNAL "rooms so far, the highest first")

function(mlxcel_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
  if(NOT sources)
    return()
  endif()
  set(target mlxcel_${name})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${MLXCEL_ROOMS} Threads::Threads m)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/${name}/room.cmake)
    include(${CMAKE_SOURCE_DIR}/src/${name}/room.cmake)
  endif()
  set(MLXCEL_ROOMS ${target} ${MLXCEL_ROOMS} CACHE INTERNAL "")
endfunction()
