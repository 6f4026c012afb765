# Options for developers, which the source distribution lacks: sanitizers, and GPUs for tests.

set(MYLIB_SANITIZE "" CACHE STRING "Sanitizers for the C parts: address;undefined or thread")
if(MYLIB_SANITIZE)
  list(JOIN MYLIB_SANITIZE "," sanitize)
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:-fsanitize=${sanitize};-fno-sanitize-recover=all>"
                      "$<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer;-g>")
  add_link_options("-fsanitize=${sanitize}")
  message(STATUS "mylib with sanitizers: ${MYLIB_SANITIZE}")
endif()

set(MYLIB_EMULATED_GPUS 0 CACHE STRING "So many GPUs are emulated on the CPU")
if(MYLIB_EMULATED_GPUS)
  set(MYLIB_CUDA OFF)
endif()
option(MYLIB_CUDA_FUSED "OFF: no program runs on GPUs in one launch" ON)
mark_as_advanced(MYLIB_EMULATED_GPUS MYLIB_CUDA_FUSED)
if(NOT MYLIB_CUDA_FUSED)
  set(MYLIB_WITHOUT_FUSED ON)
endif()
